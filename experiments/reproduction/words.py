"""Measure the bag of words on the published sets: the baseline that reads no model.

python -m experiments.reproduction.words --data DATA

It is measured once for a set, and stands in the table of every model:
results/tfidf/<task>.json beside the folders of the models. Remove a file to measure it again.
"""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from configs import command
from data_utils.provenance import describe_origin
from data_utils.published_sets.registry import SETS, PublishedTask, present
from model.files.storage import read_json, write_json
from transfer.baselines import tfidf_accuracy

from .accuracy import over_folds, sizes
from .emotions import by_words, scores_of
from .pairs import paraphrases_by_words, relatedness_by_words

HERE = Path(__file__).resolve().parent
FOLDER = "tfidf"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure the bag of words on the published sets."""

    data: Path
    """The folder that holds a folder for each set: sst/, mr/, ..."""
    tasks: tuple[Literal[*SETS], ...] = ()
    """Names of sets; absent, those whose files exist."""
    results: Path = HERE / "results"
    """The folder of the models' results."""


def main() -> None:
    options = command.parse(Options, __doc__)
    for name in options.tasks or present(options.data):
        found = measure_words(SETS[name].read(options.data), options.results)
        print(name, found["tfidf"], flush=True)


def measure_words(task: PublishedTask, results: Path) -> dict[str, Any]:
    """Return the result of a bag of words on a task, measured now if it is not kept yet."""
    path = results / FOLDER / f"{task.name}.json"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        started = perf_counter()
        found = {"task": task.name, "examples": sizes(task.folds[0]), "tfidf": by_kind(task)}
        seconds = perf_counter() - started
        write_json(path, {**found, "seconds": seconds, "origin": describe_origin()})
    return read_json(path)


def kept_words(results: Path, name: str) -> dict[str, Any] | None:
    """Return the kept result of a task, or None."""
    path = results / FOLDER / f"{name}.json"
    return read_json(path) if path.is_file() else None


def by_kind(task: PublishedTask) -> dict[str, Any]:
    """Return the measures of a bag of words on a task of any kind."""
    measure = {
        "classes": accuracy_by_words,
        "emotions": f1_by_words,
        "paraphrases": paraphrases_by_words,
        "relatedness": relatedness_by_words,
    }[SETS[task.name].kind]
    return measure(task)


def accuracy_by_words(task: PublishedTask) -> dict[str, Any]:
    """Return the accuracy over all folds."""
    accuracies = [
        tfidf_accuracy(*(task.texts.subset(rows) for rows in (fold.train, fold.val, fold.test)))
        for fold in task.folds
    ]
    return over_folds(accuracies, task.folds)


def f1_by_words(tweets: PublishedTask) -> dict[str, Any]:
    """Return the measures of E-c."""
    (fold,) = tweets.folds
    return scores_of(tweets.texts.labels[fold.test], by_words(tweets.sets))


if __name__ == "__main__":
    command.run(main)
