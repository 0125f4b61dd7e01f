"""Test one method of classifying sentiment on everyday remarks and on four test sets.

python -m experiments.default_model.study --method default --data DATA
python -m experiments.default_model.study --method nb --data DATA --texts data/anew
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from configs import command
from data_utils.labelled import read_label_columns, read_labelled_sets
from data_utils.provenance import describe_origin
from experiments.default_model.everyday import APART, everyday_sentences
from experiments.default_model.methods import METHODS, Answers
from experiments.default_model.remarks import measure_remarks, summary
from experiments.intervals import packed_answers
from experiments.published_sets import SETS
from experiments.results import write_result
from transfer.regression import accuracy_interval

FILMS = 2000  # reviews drawn from IMDB's test set, half of them of each label
SEED = 0  # draws them
BINS = 15  # of equal width, as in Guo et al. 2017 (arXiv 1706.04599)
PLEASANT = ("joy", "love", "optimism", "trust")
UNPLEASANT = ("anger", "disgust", "fear", "pessimism", "sadness")
TIMED = 500  # texts of SST on which the speed is measured


class TestSet(NamedTuple):
    """Texts that are positive, negative or neither."""

    texts: list[str]
    labels: np.ndarray  # float [N]: 1 positive, 0 negative, 0.5 neither


@dataclass(frozen=True)
class Options:
    """Classify the test sets by one method, and write its accuracy."""

    method: str
    """The name of a shipped model, tfidf, nb, words_and_characters, minilm, vader or textblob."""
    data: Path
    """The folder that holds sst/, imdb/, cr/, semeval/ and everyday/test.tsv."""
    texts: Path | None = None
    """A folder with train.jsonl and val.jsonl (keys text, label, source); baselines of words and
    minilm learn from it."""


def main() -> None:
    options = command.parse(Options, __doc__)
    method = METHODS.get(options.method, METHODS["default"])(options.method, options.texts)
    sets = test_sets(options.data)
    results: dict[str, Any] = {"method": options.method, "megabytes": method.megabytes}
    results["sets"] = {
        name: describe(method.answer(part.texts), part) for name, part in sets.items()
    }
    results["everyday"] = everyday(method.answer([s.text for s in everyday_sentences()]))
    results["remarks"] = measure_remarks(method, options.data)
    results |= seconds_per_thousand(method.answer, sets["sst"].texts[:TIMED])
    settings = {"films": FILMS, "seed": SEED, "method": method.settings}
    results |= {"config": settings, "origin": describe_origin()}
    write_result("default_model", options.method, results)
    for name, row in results["sets"].items():
        print(f"{name}: {row['accuracy']:.4f}, calibration error {row['calibration_error']:.4f}")
    print(summary(results["remarks"]))


def test_sets(data: Path) -> dict[str, TestSet]:
    """Read SST's test set, a part of IMDB's, all of CR, and SemEval's tweets that have one side."""
    (sst,) = read_labelled_sets([data / "sst/test.csv"])
    (films,) = read_labelled_sets([data / "imdb/imdb_test.jsonl.gz"])
    rows = drawn_films(films.labels)
    customers = SETS["cr"].read(data).texts
    return {
        "sst": TestSet(list(sst.texts), sst.labels.astype(float)),
        "imdb": TestSet([one_line(films.texts[r]) for r in rows], films.labels[rows].astype(float)),
        "cr": TestSet(list(customers.texts), customers.labels.astype(float)),
        "semeval": tweets(data / "semeval/val.csv"),
    }


def drawn_films(labels: np.ndarray) -> list[int]:
    """Return the rows of the reviews that are tested, from the labels of IMDB's test set."""
    chooser = random.Random(SEED)
    return [
        row
        for label in (0, 1)
        for row in chooser.sample(np.flatnonzero(labels == label).tolist(), FILMS // 2)
    ]


def tweets(path: Path) -> TestSet:
    """Return the tweets that have only pleasant or only unpleasant emotions."""
    (emotions,) = read_label_columns([path], "Tweet", (*PLEASANT, *UNPLEASANT))
    columns = [list(emotions.classes).index(name) for name in (*PLEASANT, *UNPLEASANT)]
    labels = emotions.labels[:, columns].astype(bool)
    pleasant, unpleasant = labels[:, : len(PLEASANT)], labels[:, len(PLEASANT) :]
    pleasant, unpleasant = np.any(pleasant, axis=1), np.any(unpleasant, axis=1)
    rows = np.flatnonzero(pleasant != unpleasant)
    return TestSet([emotions.texts[row] for row in rows], pleasant[rows].astype(float))


def describe(answers: Answers, test_set: TestSet) -> dict[str, Any]:
    """Return accuracy and calibration on texts that are positive or negative.

    The choice is forced: an answer of exactly a half counts as negative.
    """
    right = is_right(answers.positive, test_set.labels)
    accuracy = float(right.mean())
    bins = reliability(answers.positive, test_set.labels)
    result = {
        "texts": len(test_set.texts),
        "accuracy": accuracy,
        "accuracy_interval": accuracy_interval(accuracy, len(test_set.texts)),
        "silent": float((answers.positive == 0.5).mean()),
        "calibration_error": calibration_error(bins),
        "reliability": bins,
        "right": packed_answers(right),
    }
    if answers.unsure is not None:
        result["unsure"] = float(answers.unsure.mean())
        result["accuracy_where_sure"] = float(right[~answers.unsure].mean())
    if answers.unfamiliar is not None:
        result["unfamiliar"] = float(answers.unfamiliar.mean())
    if answers.neutral is not None:
        result["neutral"] = float(answers.neutral.mean())
    return result


def one_line(text: str) -> str:
    """Return a review without HTML line breaks, with single spaces."""
    return " ".join(text.replace("<br />", " ").split())


def is_right(positive: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return bool [N]: whether the label is positive where the probability is above a half."""
    return (positive > 0.5) == (labels > 0.5)


def reliability(positive: np.ndarray, labels: np.ndarray) -> list[dict[str, float]]:
    """Return `binned` answers; one of exactly a half claims nothing, and is half right."""
    confidence = np.maximum(positive, 1 - positive)
    right = np.where(positive == 0.5, 0.5, is_right(positive, labels))
    return binned(confidence, right, BINS)


def binned(confidence: np.ndarray, right: np.ndarray, count: int) -> list[dict[str, float]]:
    """Return the part of right answers in each of `count` bins of confidence, of equal width."""
    places = np.minimum((confidence * count).astype(int), count - 1)
    bins = pd.DataFrame({"confidence": confidence, "right": right}).groupby(places)
    return bins.mean().assign(share=bins.size() / len(right)).to_dict("records")


def calibration_error(bins: Sequence[dict[str, float]]) -> float:
    """Return the expected calibration error: the weighted mean of |confidence - right|."""
    return sum(row["share"] * abs(row["confidence"] - row["right"]) for row in bins)


def everyday(answers: Answers) -> dict[str, Any]:
    """Return the accuracies on our own sentences by kind, and every failure.

    The answer for a neutral sentence is right if the method is unsure.
    """
    sentences = everyday_sentences()
    labels = np.array([{"positive": 1.0, "negative": 0.0}.get(s.label, 0.5) for s in sentences])
    unsure = answers.positive == 0.5 if answers.unsure is None else answers.unsure
    right = np.where(labels == 0.5, unsure, is_right(answers.positive, labels))
    if answers.unfamiliar is not None:
        strange = np.array([sentence.kind == "unfamiliar" for sentence in sentences])
        right = np.where(strange, answers.unfamiliar, right)
    kinds = np.array([sentence.kind for sentence in sentences])
    included = ~np.isin(kinds, APART)
    accuracy = float(right[included].mean())
    result: dict[str, Any] = {
        "accuracy": accuracy,
        "accuracy_interval": accuracy_interval(accuracy, int(included.sum())),
        "sided_accuracy": float(right[included & (labels != 0.5)].mean()),
        "kinds": {
            kind: {
                "texts": int((kinds == kind).sum()),
                "accuracy": float(right[kinds == kind].mean()),
            }
            for kind in dict.fromkeys(kinds.tolist())
        },
        "failures": [
            {
                "kind": sentence.kind,
                "label": sentence.label,
                "text": sentence.text,
                "positive": round(float(answers.positive[row]), 3),
            }
            for row, sentence in enumerate(sentences)
            if not right[row]
        ],
    }
    if answers.unfamiliar is not None:
        result["falsely_unfamiliar"] = float(answers.unfamiliar[included].mean())
    return result


def seconds_per_thousand(answer: Any, texts: list[str]) -> dict[str, float]:
    """Return the seconds by the clock and of the processor for a thousand texts."""
    clock, processor = time.perf_counter(), time.process_time()
    answer(texts)
    scale = 1000 / len(texts)
    return {
        "seconds_per_thousand": (time.perf_counter() - clock) * scale,
        "processor_seconds_per_thousand": (time.process_time() - processor) * scale,
    }


if __name__ == "__main__":
    command.run(main)
