"""Measure the accuracy on a task of classes, fold by fold, and its baselines."""

from pathlib import Path
from typing import Any

import numpy as np

from experiments.intervals import fold_interval, packed_answers
from experiments.published_sets import Fold, PublishedTask
from mlstm_sentiment.files.writer import write_json
from model.inference.weights import LoadedModel, untrained_like
from transfer.baselines import majority_accuracy
from transfer.features import FeatureCache
from transfer.intervals import over_draws
from transfer.plots import draw_histogram, legend, save_png, unit_histogram
from transfer.regression import Examples, accuracy_interval, find_neuron, fit_regression


def measure_accuracy(
    task: PublishedTask, loaded: LoadedModel, cache: FeatureCache, untrained: int, folder: Path
) -> dict[str, Any]:
    """Fit and test on every fold; return the accuracies over all that was tested.

    The histogram of the top unit on the first fold is written to `folder`.
    """
    examples = features_of(task, loaded, cache)
    right: dict[str, list[np.ndarray]] = {}
    neurons = []
    texts = task.texts
    for fold in task.folds:
        train, val, test = (examples.subset(rows) for rows in (fold.train, fold.val, fold.test))
        regression = fit_regression(train, val)
        neuron = find_neuron(regression, train, val)
        neurons.append(neuron)
        correct = {
            "all_units": regression.correct(test),
            "one_unit": neuron.regression.correct(neuron.column(test)),
        }
        for name, answers in correct.items():
            right.setdefault(name, []).append(answers)
    first = examples.subset(task.folds[0].test)
    shown = neurons[0]
    histogram = unit_histogram(shown.index, first, legend(task.texts.classes))
    write_json(folder / f"{task.name}_neuron.json", histogram, "a result")
    figure = draw_histogram(histogram, shown.index, polarity=shown.polarity, cut=shown.cut)
    save_png(figure, folder / f"{task.name}_neuron.png")
    tested = sum(len(fold.test) for fold in task.folds)
    majority = [
        majority_accuracy(texts.subset(fold.train), texts.subset(fold.test)) for fold in task.folds
    ]
    blank = [untrained_accuracies(task, loaded, cache, seed) for seed in range(untrained)]
    learned_nothing = {
        name: over_draws([each[name] for each in blank], tested)
        for name in (blank[0] if blank else ())
    }
    return {
        "task": task.name,
        "folds": len(task.folds),
        "tested": tested,
        "examples": sizes(task.folds[0]),
        "characters": sum(map(len, task.texts.texts)),
        **{name: over_folds(answers, task.folds) for name, answers in right.items()},
        "majority": accuracy_over(majority, task.folds),
        **learned_nothing,
        "neurons": [neuron.index for neuron in neurons],
    }


def features_of(
    task: PublishedTask, loaded: LoadedModel, cache: FeatureCache, model: LoadedModel | None = None
) -> Examples:
    """Return the features of all texts, from the loaded model or another of its shape."""
    sequences = list(map(loaded.encode, task.texts.texts))
    features = cache.features(model or loaded, sequences, task.name)
    return Examples(features, task.texts.labels)


def untrained_accuracies(
    task: PublishedTask, loaded: LoadedModel, cache: FeatureCache, seed: int
) -> dict[str, float]:
    """Return the accuracies of an untrained model over all folds: of all units, and of one."""
    blank = untrained_like(loaded, seed)
    examples = features_of(task, loaded, cache, blank)
    right = {"untrained": 0.0, "untrained_one_unit": 0.0}
    for fold in task.folds:
        train, val, test = (examples.subset(rows) for rows in (fold.train, fold.val, fold.test))
        regression = fit_regression(train, val)
        neuron = find_neuron(regression, train, val)
        right["untrained"] += float(regression.correct(test).sum())
        alone = neuron.regression.correct(neuron.column(test))
        right["untrained_one_unit"] += float(alone.sum())
    tested = sum(len(fold.test) for fold in task.folds)
    return {name: count / tested for name, count in right.items()}


def over_folds(right: list[np.ndarray], folds: list[Fold]) -> dict[str, Any]:
    """Return the accuracy over all that was tested, and which texts were classified correctly.

    right: of each fold, bool [its tested texts]. `right` of the result is in the texts' order.
    """
    rows = np.concatenate([fold.test for fold in folds])
    answers = np.concatenate(right)[np.argsort(rows)]
    accuracies = [float(part.mean()) for part in right]
    return {**accuracy_over(accuracies, folds), "right": packed_answers(answers)}


def accuracy_over(accuracies: list[float], folds: list[Fold]) -> dict[str, Any]:
    """Return the accuracy over all that was tested, its interval, and each fold's."""
    counts = [len(fold.test) for fold in folds]
    accuracy = float(np.average(accuracies, weights=counts))
    return {
        "test_accuracy": accuracy,
        "test_interval": fold_interval(accuracies, accuracy_interval(accuracy, sum(counts))),
        "by_fold": accuracies,
    }


def sizes(fold: Fold) -> dict[str, int]:
    """Return the numbers of examples for fitting, choosing and testing."""
    return {"train": len(fold.train), "val": len(fold.val), "test": len(fold.test)}
