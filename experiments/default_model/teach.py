"""Label sentences of reviews by teachers, for a model to learn from.

python -m experiments.default_model.teach data/selected.jsonl data/films.jsonl data/things.jsonl \\
    --texts data/parts --output data/taught --held-out sst/val.csv sst/test.csv
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np

from configs import command
from data_utils.provenance import describe_origin
from experiments.default_model.heads import of_each_star
from experiments.default_model.methods import METHODS, accuracy_by_source, sided
from experiments.default_model.sentences.everyday import everyday_wordings
from experiments.default_model.sentences.examples import (
    Example,
    counts_of,
    normalized,
    read_examples,
    write_examples,
)
from experiments.default_model.sentences.rare import SENTENCE_END, cue_of
from experiments.default_model.ship import WEIGHTED_ON, sided_rows, slopes
from experiments.default_model.texts import one_line
from experiments.models.overlap import HeldOut
from experiments.models.select_reviews import SEPARATOR
from model.bounds import Argument, PositiveInt
from model.classifiers.kinds import STAR_WEIGHTS
from model.classifiers.sentiment_classifier import SentimentClassifier
from model.classifiers.steps import positive_log_odds, tilted
from model.files.storage import write_json
from model.reading.texts import ReadingReport, read_texts

LENGTHS = (12, 160)  # characters of a taught text
TWO_SENTENCES = 0.3  # of the drawn texts have two sentences, if these are short enough


@dataclass(frozen=True)
class Options:
    """Write train.jsonl with five probabilities as labels, and a report."""

    inputs: Annotated[tuple[Path, ...], Argument(positional=True)]
    """Files of reviews; their labels are not read."""
    texts: Path
    """The folder of experiments.default_model.texts: its val decides the teachers' weights."""
    held_out: tuple[Path, ...]
    """Files of texts that must not occur."""
    output: Path
    """The folder to write."""
    models: tuple[str, ...] = ("default",)
    """Models that predict stars; MiniLM is one more teacher."""
    seed: int = 0
    """Draws the sentences."""
    each: PositiveInt = 20_000
    """Texts from each file, half of them with a cue of `sentences/rare.py`."""


def main() -> None:
    options = command.parse(Options, __doc__)
    val = read_examples(options.texts / "val.jsonl")
    others = read_texts(options.held_out, None, ReadingReport(), strict=False)
    held_out = HeldOut([*others, *(example.text for example in val)])
    wordings = set(everyday_wordings())
    chooser = random.Random(options.seed)
    drawn = [
        Example(text, "", f"taught_{path.stem}")
        for path in options.inputs
        for text in sentences_of(path, options.each, held_out, wordings, chooser)
    ]
    teachers = Teachers(options.models, options.texts, val)
    each = teachers.label([example.text for example in drawn])  # [N, 5]
    taught = [
        example._replace(label=" ".join(f"{p:.4f}" for p in row))
        for example, row in zip(drawn, each, strict=True)
    ]
    options.output.mkdir(parents=True, exist_ok=True)
    write_examples(options.output / "train.jsonl", taught)
    report = {"train": counts_of(taught), "teachers": teachers.report, "origin": describe_origin()}
    write_json(options.output / "report.json", report)
    print(report["train"], report["teachers"])


def sentences_of(
    path: Path, count: int, held_out: HeldOut, wordings: set[str], chooser: random.Random
) -> list[str]:
    """Draw different texts of one or two sentences, half of them with a cue; adds to `wordings`."""
    plain: list[str] = []
    cued: list[str] = []
    for text in pieces_of(path, chooser):
        wording = normalized(text)
        group = plain if cue_of(text) == "neither" else cued
        if wording in wordings or len(group) == count // 2 or held_out.shares_with(text):
            continue
        wordings.add(wording)
        group.append(text)
        if len(plain) + len(cued) == 2 * (count // 2):
            break
    return plain + cued


def pieces_of(path: Path, chooser: random.Random) -> Iterator[str]:
    """Yield one or two sentences of each review, without its title, drawn at random."""
    for review in read_texts([path], None, ReadingReport(), strict=False):
        sentences = SENTENCE_END.split(one_line(review.partition(SEPARATOR)[0]))
        for _ in range(2):
            place = chooser.randrange(len(sentences))
            both = " ".join(sentences[place : place + 2])
            is_double = chooser.random() < TWO_SENTENCES and len(both) <= LENGTHS[1]
            text = both if is_double else sentences[place]
            if LENGTHS[0] <= len(text) <= LENGTHS[1]:
                yield text


def positive(of_each_star: np.ndarray) -> np.ndarray:
    """Return the log-odds [N] of positive, for probabilities of one to five stars [N, 5]."""
    return positive_log_odds(of_each_star, STAR_WEIGHTS)


class Teachers:
    """Models that predict stars and a sentence transformer, weighted by val."""

    def __init__(self, names: Sequence[str], texts: Path, val: Sequence[Example]):
        self.classifiers = [SentimentClassifier.from_pretrained(name) for name in names]
        self.minilm = METHODS["minilm"]("minilm", texts)
        rows, labels, sources = sided_rows(val, WEIGHTED_ON)
        each, log_odds = self.answers([example.text for example in val])
        columns = np.column_stack([*map(positive, each), log_odds])  # [N, K + 1]
        self.slopes = slopes(columns[rows], labels[rows], sources[rows])
        assert min(self.slopes) > 0, f"slopes {self.slopes}: a teacher misleads"
        judged = labels >= 0
        together = positive(self.mixed(each, log_odds))
        titles = ("all", *(Path(name).name for name in names), "minilm")
        self.report = {
            "slopes": self.slopes,
            "val_accuracy": {
                title: accuracy_by_source(((column > 0) == (labels == 1))[judged], sided(val))
                for title, column in zip(titles, (together, *columns.T), strict=True)
            },
        }

    def answers(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return each model's probabilities of the stars [K, N, 5], MiniLM's log-odds [N]."""
        each = [c._found(texts, partial(of_each_star, c.fitted)) for c in self.classifiers]
        positive = self.minilm.answer(texts).positive.clip(1e-6, 1 - 1e-6)
        return np.stack(each), np.log(positive / (1 - positive))

    def mixed(self, each: np.ndarray, log_odds: np.ndarray) -> np.ndarray:
        """Return probabilities of the stars [N, 5] by all."""
        *own, other = self.slopes
        flat = np.exp(np.tensordot(own, np.log(each), 1))
        return tilted(flat / flat.sum(1, keepdims=True), other * log_odds, STAR_WEIGHTS)

    def label(self, texts: Sequence[str]) -> np.ndarray:
        return self.mixed(*self.answers(texts))


if __name__ == "__main__":
    command.run(main)
