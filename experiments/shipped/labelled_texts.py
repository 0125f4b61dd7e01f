"""Select labelled texts for fine-tuning: reviews with stars, the ends of IMDB's reviews, SST.

python -m experiments.shipped.labelled_texts amazon/*.jsonl.gz --imdb imdb/imdb_train.jsonl.gz \\
    --sst sst/train.csv --held-out sst/val.csv sst/test.csv imdb/imdb_test.jsonl.gz \\
    --output data/labelled
"""

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from configs import command
from data_utils.labelled import read_labelled_sets
from experiments.shipped.overlap import HeldOut
from experiments.shipped.select_reviews import selected
from model.errors import InputError
from model.files.storage import write_json
from model.reading.texts import ReadingReport, read_texts

SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
SIGNS = {"-": 0, "+": 1}

Example = tuple[str, int]


@dataclass(frozen=True)
class Options:
    """Write train.jsonl and val.jsonl with the keys text and label, and a report on them."""

    inputs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Files of Amazon reviews with stars, as select_reviews reads them."""
    imdb: Path
    """IMDB's training set; the end of each review is used."""
    sst: Path
    """SST's training set."""
    held_out: tuple[Path, ...]
    """Files of texts that must not occur in training."""
    output: Path
    """The folder to write."""
    reviews: int = 20_000
    """Amazon reviews in train, half of them of each label."""
    reviews_val: int = 400
    """Amazon reviews in val, half of them of each label."""
    longest: int = 500
    """Most characters of an Amazon review."""
    end: int = 300
    """Most characters of the last sentences of an IMDB review."""
    sst_copies: int = 2
    """Copies of SST's sentences in train."""
    seed: int = 0
    """Seed that draws the reviews and their order."""


def main() -> None:
    options = command.parse(Options, __doc__)
    held_out = HeldOut(read_texts(options.held_out, None, ReadingReport(), strict=False))
    chooser = random.Random(options.seed)
    stars = draw_stars(options, held_out, chooser)
    parts = {
        "amazon": stars[options.reviews_val :],
        "imdb": read_ends(options.imdb, held_out, options.end),
        "sst": apart(read_examples(options.sst), held_out) * options.sst_copies,
    }
    train = [example for part in parts.values() for example in part]
    chooser.shuffle(train)
    options.output.mkdir(parents=True, exist_ok=True)
    write_examples(options.output / "train.jsonl", train)
    write_examples(options.output / "val.jsonl", stars[: options.reviews_val])
    report = {name: len(part) for name, part in parts.items()}
    write_json(options.output / "report.json", {"train": report, "val": options.reviews_val})
    print(f"{options.output}: {len(train):,} texts ({report}), {options.reviews_val} in val")


def draw_stars(options: Options, held_out: HeldOut, chooser: random.Random) -> list[Example]:
    """Draw different reviews at random; the two labels take turns."""
    by_label: dict[int, list[str]] = {0: [], 1: []}
    seen: set[str] = set()  # a repeated review could be in train and in val
    for review in selected(options.inputs, held_out, Counter(), options.longest):
        if review.mark and review.text not in seen:
            seen.add(review.text)
            by_label[SIGNS[review.mark]].append(review.text)
    wanted = (options.reviews + options.reviews_val) // 2
    fewest = min(map(len, by_label.values()))
    if fewest < wanted:
        raise InputError(f"{fewest:,} reviews of one label, {wanted:,} asked for; lower --reviews")
    drawn = {label: chooser.sample(texts, wanted) for label, texts in by_label.items()}
    return [(drawn[label][row], label) for row in range(wanted) for label in drawn]


def read_examples(path: Path) -> list[Example]:
    """Read texts with the labels 0 and 1."""
    (found,) = read_labelled_sets([path])
    return list(zip(found.texts, found.labels.tolist(), strict=True))


def apart(examples: Sequence[Example], held_out: HeldOut) -> list[Example]:
    """Return the examples that share no wording with a held-out text."""
    return [example for example in examples if not held_out.shares_with(example[0])]


def read_ends(path: Path, held_out: HeldOut, characters: int) -> list[Example]:
    """Return the ends of the reviews of a labelled set."""
    examples = apart(read_examples(path), held_out)
    return [(end_of(text, characters), label) for text, label in examples]


def end_of(text: str, characters: int) -> str:
    """Return the last sentences that fit, at least one, with single spaces."""
    sentences = SENTENCE_END.split(" ".join(text.replace("<br />", " ").split()))
    kept = [sentences.pop()]
    while sentences and len(" ".join([sentences[-1], *kept])) <= characters:
        kept.insert(0, sentences.pop())
    return " ".join(kept)[-2 * characters :]  # a review may be one long sentence


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """Write JSON lines."""
    lines = [json.dumps({"text": text, "label": label}) + "\n" for text, label in examples]
    path.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    command.run(main)
