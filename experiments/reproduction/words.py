"""Measure the bag of words on the published sets: the baseline that reads no model.

python -m experiments.reproduction.words --data DATA

It is measured once for a set, and stands in the table of every model:
results/tfidf/<task>.json beside the folders of the models. This command measures it anew.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from configs import command
from data_utils.provenance import describe_origin
from data_utils.published_sets.registry import SETS, PublishedTask, present
from model.files.storage import read_json, write_json
from transfer.baselines import bag_of_words, tfidf_accuracy

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


def words_of(task: PublishedTask, results: Path) -> dict[str, Any]:
    """Return the result of a bag of words on a task, measured now unless it is kept.

    A kept result counts only if it is of the same texts, labels and folds.
    """
    kept = kept_words(results, task.name)
    if kept is not None and kept.get("digest") == digest_of(task):
        return kept
    return measure_words(task, results)


def measure_words(task: PublishedTask, results: Path) -> dict[str, Any]:
    """Measure the bag of words on a task; return and keep the result."""
    started = perf_counter()
    found = {
        "task": task.name,
        "examples": sizes(task.folds[0]),
        "tfidf": by_kind(task),
        "digest": digest_of(task),
        "seconds": perf_counter() - started,
        "origin": describe_origin(),
    }
    path = path_of(results, task.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, found)
    return found


def kept_words(results: Path, name: str) -> dict[str, Any] | None:
    """Return the kept result of a task, or None."""
    path = path_of(results, name)
    return read_json(path) if path.is_file() else None


def path_of(results: Path, name: str) -> Path:
    """Return the file of a task's result."""
    return results / FOLDER / f"{name}.json"


def digest_of(task: PublishedTask) -> str:
    """Return a digest of what is measured: the kind of words, and every part of every fold."""
    parts = [part.digest for fold in task.folds for part in task.parts_of(fold)]
    content = " ".join([repr(bag_of_words().get_params()), *parts])
    return hashlib.sha256(content.encode()).hexdigest()


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
    accuracies = [tfidf_accuracy(*task.parts_of(fold)) for fold in task.folds]
    return over_folds(accuracies, task.folds)


def f1_by_words(tweets: PublishedTask) -> dict[str, Any]:
    """Return the measures of E-c."""
    (fold,) = tweets.folds
    return scores_of(tweets.texts.labels[fold.test], by_words(tweets.sets))


if __name__ == "__main__":
    command.run(main)
