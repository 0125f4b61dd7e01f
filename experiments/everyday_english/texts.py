"""Select labelled short texts for the heads of the default models.

python -m experiments.everyday_english.texts --labelled DATA/labelled --reviews data/more \\
    --held-out HELD_OUT --output data/everyday

A tenth of each source, by a hash of the text, is val; another tenth is test, which nobody reads
before everything is chosen. sources.toml says what a source may be used for.
"""

import json
import lzma
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from configs import command
from data_utils.provenance import describe_origin
from experiments.models.overlap import HeldOut
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_json
from mlstm_sentiment.reading.texts import ReadingReport, read_texts

RUN = 8  # words in a row that no training text shares with a held-out text
SOURCES = Path(__file__).with_name("sources.toml")
ANSWERS = {"negative": -1, "neutral": 0, "positive": 1}
DENIALS = re.compile(
    r"\b(not|no|never|nothing|nobody|none|neither|nor|without|hardly|cannot|\w+n['\u2019]?t)\b",
    re.I,
)
EMOTICON = re.compile(r"[:;=8xX]['\u2019]?-?[()DPpO/|*]|<3")


class Example(NamedTuple):
    """A labelled text. label: negative, neutral, positive, or 1 to 5 stars."""

    text: str
    label: str
    source: str
    kind: str = ""


@dataclass(frozen=True)
class Options:
    """Write train, val and test as JSON lines, and report.json with the numbers of texts."""

    labelled: Path
    """The folder of labelled short texts, one file for each source."""
    reviews: Path
    """The folder of the default model's reviews and grammar, with train.jsonl and val.jsonl."""
    held_out: tuple[Path, ...]
    """Files of texts that no training text may share wording with."""
    output: Path
    """The folder to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    sources = tomllib.loads(SOURCES.read_text(encoding="utf-8"))
    parts: dict[str, list[Example]] = {"train": [], "val": [], "test": []}
    for name, about in sources.items():
        if about["use"] != "neither":
            for part, example in split(options.labelled / f"{name}.jsonl.xz"):
                if part != "train" or about["use"] == "weights":
                    parts[part].append(example)
    parts["train"] = capped(parts["train"], sources)
    reviews = [read(options.reviews / f"{part}.jsonl") for part in ("train", "val")]
    parts["train"] += dict.fromkeys(reviews[0])  # each sentence of SST once
    parts["val"] += reviews[1]
    report: dict[str, Any] = {"before": counted(parts["train"])}
    held_out = held_out_texts(options.held_out, [*parts["val"], *parts["test"]])
    for name, held in zip(("test set", "val or test tenth"), held_out, strict=True):
        shared = [held.shares_with(example.text) for example in parts["train"]]
        pairs = list(zip(parts["train"], shared, strict=True))
        report[f"shares wording with a {name}"] = counted(e for e, is_shared in pairs if is_shared)
        parts["train"] = [example for example, is_shared in pairs if not is_shared]
    options.output.mkdir(parents=True, exist_ok=True)
    for part, examples in parts.items():
        report[part] = counted(examples)
        write(options.output / f"{part}.jsonl", examples)
    write_json(options.output / "report.json", {**report, "origin": describe_origin()}, "a result")
    print({part: len(examples) for part, examples in parts.items()})


def split(path: Path) -> Iterator[tuple[str, Example]]:
    """Yield the texts of a source, each with its part: a hash of its words decides."""
    for line in lzma.decompress(path.read_bytes()).splitlines():
        row = json.loads(line)
        if row["label"] not in ANSWERS:
            raise InputError(f"{path}: label {row['label']!r}; known: {', '.join(ANSWERS)}")
        words = " ".join(re.findall(r"\w+", row["text"].lower()))
        tenth = int.from_bytes(sha256(words.encode()).digest()[:4]) % 10
        part = {0: "test", 1: "val"}.get(tenth, "train")
        yield part, Example(row["text"], row["label"], row["source"], row.get("kind") or "")


def capped(examples: Sequence[Example], sources: dict[str, Any]) -> list[Example]:
    """Return the examples without the neutral ones above a source's `most_neutral`."""
    seen: Counter[str] = Counter()
    kept = []
    for example in examples:
        if example.label == "neutral":
            seen[example.source] += 1
            if seen[example.source] > sources[example.source].get("most_neutral", len(examples)):
                continue
        kept.append(example)
    return kept


def read(path: Path) -> list[Example]:
    """Read examples that `main`, or the code of the default model's texts, wrote."""
    with path.open(encoding="utf-8") as file:
        return [Example(**json.loads(line)) for line in file]


def write(path: Path, examples: Iterable[Example]) -> None:
    """Write examples as JSON lines."""
    lines = (json.dumps(example._asdict()) + "\n" for example in examples)
    path.write_text("".join(lines), encoding="utf-8")


def held_out_texts(tests: Sequence[Path], others: Iterable[Example]) -> tuple[HeldOut, HeldOut]:
    """Return what no training text may share wording with: files of tests, and other examples."""
    whole = HeldOut(read_texts(tests, None, ReadingReport(), strict=False), run=RUN)
    return whole, HeldOut((example.text for example in others), run=RUN, shortest=RUN)


def counted(examples: Iterable[Example]) -> dict[str, dict[str, int]]:
    """Return the number of texts of each source and label."""
    counts: dict[str, Counter[str]] = {}
    for example in examples:
        counts.setdefault(example.source, Counter())[example.label] += 1
    return {source: dict(sorted(labels.items())) for source, labels in counts.items()}


def kinds_of(example: Example) -> list[str]:
    """Return the hard kinds that a text is of."""
    text = example.text
    kinds = {
        "question": text.rstrip().endswith("?"),
        "negation": DENIALS.search(text) is not None,
        "emoji": bool(EMOTICON.search(text)) or any(unicodedata.category(c) == "So" for c in text),
        "sarcasm": example.kind == "sarcasm",
        "bug": example.kind == "bug",
        "request": example.kind in ("request", "feature_request"),
    }
    return [kind for kind, holds in kinds.items() if holds]


if __name__ == "__main__":
    command.run(main)
