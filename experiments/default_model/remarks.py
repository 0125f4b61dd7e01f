"""Judge a method by everyday remarks that another author wrote, by one rule for all methods.

Each method gives a text a score between 0, negative, and 1, positive. A text is neutral if its
score is within a band, whose ends are fitted to our own everyday sentences. The texts with a side
are also judged without the band: positive if the score is above a half, else negative. A method
that answers neutral is also judged by its own answers.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.default_model.everyday import everyday_sentences
from experiments.default_model.methods import Answers, Method
from experiments.intervals import packed_answers
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.records import read_records
from transfer.metrics import as_indicators, bootstrap_intervals
from transfer.regression import accuracy_interval

FILE = "everyday/test.tsv"
CLASSES = ("negative", "neutral", "positive")
NAMES = {"neg": "negative", "neutral": "neutral", "pos": "positive"}  # in the file


class Remarks(NamedTuple):
    """Texts, the kind of each, and its class, int64 [N], a place in CLASSES."""

    texts: list[str]
    kinds: list[str]
    classes: np.ndarray


class Band(NamedTuple):
    """The lowest and the highest score of a neutral text."""

    low: float
    high: float

    def choose(self, scores: np.ndarray) -> np.ndarray:
        """Return the class of each score, int64 [N]."""
        return np.where(scores < self.low, 0, np.where(scores > self.high, 2, 1))


def measure_remarks(method: Method, data: Path) -> dict[str, Any]:
    """Return the accuracies on our own sentences and on the other author's remarks."""
    remarks = read_remarks(data / FILE)
    answers, own = method.answer(remarks.texts), method.answer(own_remarks().texts)
    return describe_remarks(answers, own, remarks)


def summary(result: dict[str, Any]) -> str:
    """Return the main numbers in a line."""
    test, answers = result["test"], result.get("own_answers", {}).get("test")
    by_itself = f", by its own answers {answers['accuracy']:.4f}" if answers else ""
    sided, accuracy = test["sided_accuracy"], test["accuracy"]
    return f"everyday remarks: sided {sided:.4f}, of 3 {accuracy:.4f}{by_itself}"


def read_remarks(path: Path) -> Remarks:
    """Read a table with the columns label, kind and text."""
    records = read_records(path, strict=True)
    keys = ("label", "kind", "text")
    rows = [(r.place, *(str(r.get(key) or "") for key in keys)) for r in records]
    for place, label, _, _ in rows:
        if label not in NAMES:
            raise InputError(f"{place}: label {label!r}; it must be one of {', '.join(NAMES)}")
    classes = np.array([CLASSES.index(NAMES[label]) for _, label, _, _ in rows])
    return Remarks([row[3] for row in rows], [row[2] for row in rows], classes)


def own_remarks() -> Remarks:
    """Return our own everyday sentences of all kinds that have a class."""
    sentences = [s for s in everyday_sentences() if s.label in CLASSES]
    classes = np.array([CLASSES.index(sentence.label) for sentence in sentences])
    return Remarks([s.text for s in sentences], [s.kind for s in sentences], classes)


def fit_band(scores: np.ndarray, classes: np.ndarray) -> Band:
    """Return the band of highest macro-F1; of several the narrowest."""
    ends = np.unique(scores)
    under = np.array([[(scores[classes == c] < end).sum() for end in ends] for c in range(3)])
    to_end = np.array([[(scores[classes == c] <= end).sum() for end in ends] for c in range(3)])
    totals = np.bincount(classes, minlength=3)
    best, chosen = (-1.0, 0), (0, 0)
    for low in range(len(ends)):
        high = np.arange(low, len(ends))
        predicted = (
            np.full(len(high), under[:, low].sum()),
            (to_end[:, high] - under[:, [low]]).sum(0),
            len(scores) - to_end[:, high].sum(0),
        )
        right = (
            np.full(len(high), under[0, low]),
            to_end[1, high] - under[1, low],
            totals[2] - to_end[2, high],
        )
        f1 = np.mean(
            [2 * r / (t + n) for r, t, n in zip(right, predicted, totals, strict=True)], axis=0
        )
        place = int(f1.argmax())
        if (f1[place], low - high[place]) > best:
            best, chosen = (float(f1[place]), int(low - high[place])), (low, int(high[place]))
    return Band(float(ends[chosen[0]]), float(ends[chosen[1]]))


def judged(scores: np.ndarray, remarks: Remarks, band: Band) -> dict[str, Any]:
    """Return the accuracies of three classes and of the texts with a side, also by kind."""
    choices, classes = band.choose(scores), remarks.classes
    right, sided = choices == classes, classes != 1
    forced = (scores[sided] > 0.5) == (classes[sided] == 2)
    kinds, kinds_sided = np.array(remarks.kinds), np.array(remarks.kinds)[sided]
    return {
        **three_classes(choices, classes),
        "right": packed_answers(right),
        "sided": int(sided.sum()),
        "sided_accuracy": float(forced.mean()),
        "sided_interval": accuracy_interval(float(forced.mean()), int(sided.sum())),
        "sided_right": packed_answers(forced),
        "kinds": {
            kind: {
                "texts": int((kinds == kind).sum()),
                "accuracy": float(right[kinds == kind].mean()),
                "sided": int((kinds_sided == kind).sum()),
                "sided_right": int(forced[kinds_sided == kind].sum()),
            }
            for kind in dict.fromkeys(remarks.kinds)
        },
    }


def three_classes(choices: np.ndarray, classes: np.ndarray) -> dict[str, Any]:
    """Return accuracy and macro-F1 with their intervals; int64 [N] each."""
    truth, predicted = (as_indicators(values, len(CLASSES)) for values in (classes, choices))
    accuracy = float((choices == classes).mean())
    both, either = (truth & predicted).sum(0), truth.sum(0) + predicted.sum(0)
    return {
        "texts": len(classes),
        "accuracy": accuracy,
        "accuracy_interval": accuracy_interval(accuracy, len(classes)),
        "macro_f1": float((2 * both / np.maximum(either, 1)).mean()),
        "macro_f1_interval": bootstrap_intervals(truth, predicted, 0)["f1_macro_interval"],
    }


def describe_remarks(answers: Answers, own: Answers, remarks: Remarks) -> dict[str, Any]:
    """Return the band, and the accuracies on our own sentences and on the other author's.

    answers: about the other author's texts; own: about our own sentences. If the method says that
    it is unsure, `as_shipped` counts these texts as neutral instead of those in the band. If it
    answers neutral, `own_answers` counts these.
    """
    validation = own_remarks()
    band = fit_band(own.positive, validation.classes)
    result: dict[str, Any] = {
        "band": list(band),
        "validation": judged(own.positive, validation, band),
        "test": judged(answers.positive, remarks, band),
    }
    if answers.unsure is not None:
        choices = sides_but_neutral(answers.positive, answers.unsure)
        result["as_shipped"] = three_classes(choices, remarks.classes)
    if answers.neutral is not None and own.neutral is not None:
        result["own_answers"] = {
            "validation": by_answers(own.positive, own.neutral, validation.classes),
            "test": by_answers(answers.positive, answers.neutral, remarks.classes),
        }
    return result


def by_answers(scores: np.ndarray, neutral: np.ndarray, classes: np.ndarray) -> dict[str, Any]:
    """Return the accuracy of three classes, and which answers are right; neutral: bool [N]."""
    choices = sides_but_neutral(scores, neutral)
    return {**three_classes(choices, classes), "right": packed_answers(choices == classes)}


def sides_but_neutral(scores: np.ndarray, neutral: np.ndarray) -> np.ndarray:
    """Return the class of each score, int64 [N], but neutral where that is true."""
    return np.where(neutral, 1, np.where(scores > 0.5, 2, 0))
