"""Measure the baselines on the published sets that read no model, only words or characters.

They are measured once for a set, by the first model's `run`, and stand in the table of every model:
results/tfidf/<task>.json next to the folders of the models. Remove it to measure again.
"""

import hashlib
from pathlib import Path
from time import perf_counter
from typing import Any

from data_utils.provenance import describe_origin
from experiments.baselines import BASELINES
from experiments.published_sets import SETS, PublishedTask
from experiments.results import result_at
from mlstm_sentiment.files.writer import write_json
from transfer.baselines import Baseline, baseline_choices

from .accuracy import over_folds, sizes
from .emotions import by_words, scores_of

FOLDER = "tfidf"


def words_of(task: PublishedTask, results: Path) -> dict[str, Any]:
    """Return the results of the baselines on a task, measured now unless they are kept.

    A kept result counts only if it is of the same texts, labels and folds.
    """
    saved = saved_words(results, task.name)
    if saved is not None and saved.get("digest") == digest_of(task):
        return saved
    return measure_words(task, results)


def measure_words(task: PublishedTask, results: Path) -> dict[str, Any]:
    """Measure the baselines on a task; return and keep the results."""
    started = perf_counter()
    result = {
        "task": task.name,
        "examples": sizes(task.folds[0]),
        **by_kind(task),
        "digest": digest_of(task),
        "seconds": perf_counter() - started,
        "origin": describe_origin(),
    }
    path = path_of(results, task.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, result, "a result")
    return result


def saved_words(results: Path, name: str) -> dict[str, Any] | None:
    """Return the kept result of a task, or None."""
    return result_at(path_of(results, name))


def path_of(results: Path, name: str) -> Path:
    """Return the file of a task's result."""
    return results / FOLDER / f"{name}.json"


def digest_of(task: PublishedTask) -> str:
    """Return a digest of what is measured: the baselines, and every part of every fold."""
    parts = [part.digest for fold in task.folds for part in task.parts_of(fold)]
    content = " ".join([*map(description, BASELINES.values()), *parts])
    return hashlib.sha256(content.encode()).hexdigest()


def description(baseline: Baseline) -> str:
    """Return the settings of a baseline that decide its result."""
    return repr((baseline.features(), baseline.regression(1.0), baseline.grid))


def by_kind(task: PublishedTask) -> dict[str, Any]:
    """Return the measures of the baselines on a task of any kind."""
    measure = accuracy_by_words if SETS[task.name].kind == "classes" else f1_by_words
    return {name: measure(task, baseline) for name, baseline in BASELINES.items()}


def accuracy_by_words(task: PublishedTask, baseline: Baseline) -> dict[str, Any]:
    """Return the accuracy over all folds."""
    right = []
    for fold in task.folds:
        parts = task.parts_of(fold)
        right.append(baseline_choices(baseline, *parts) == parts[-1].labels)
    return over_folds(right, task.folds)


def f1_by_words(tweets: PublishedTask, baseline: Baseline) -> dict[str, Any]:
    """Return the measures of E-c."""
    (fold,) = tweets.folds
    return scores_of(tweets.texts.labels[fold.test], by_words(tweets.sets, baseline))
