"""Accuracy by the number of labels, as in the figure of Radford et al. 2017.

A draw shuffles the training set, with the classes evenly spread, and fits on its first n examples.
C is chosen on the whole validation set, whose labels are not counted; the test set is the same for
every point. A unit known beforehand keeps the weight fitted on all labels of train; only its
intercept is fitted on the first n. If the model was fine-tuned on labels before, its features
depend on those labels, which are not counted either.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from data_utils.labelled import LabelledSet
from mlstm_sentiment.reading.progress import ProgressBar

from ..baselines import tfidf_accuracy
from ..intervals import BAND, over_draws
from ..regression import Examples, Regression, find_neuron, fit_regression


def label_efficiency(
    sets: Sequence[LabelledSet],
    examples: Sequence[Examples],
    unit: int,
    *,
    counts: Sequence[int],
    draws: int,
    seed: int = 0,
) -> dict[str, Any]:
    """Measure test accuracy with few labels, by all units, by one, and by a bag of words.

    sets and examples: train, val, test. unit: the one known beforehand, with its weight from all of
    train; the labels fit its intercept. `found_unit` is the one that these labels alone would
    choose.
    """
    train, val, test = examples
    on_all_labels = fit_regression(train.units([unit]), val.units([unit]))
    orders = [stratified_order(sets[0].labels, seed + draw) for draw in range(draws)]
    curves: dict[str, list[dict[str, Any]]] = {}
    tested, whole = len(sets[2].labels), len(sets[0].labels)
    with ProgressBar("labels", len(counts) * draws, unit=" draws") as progress:
        for count in counts:
            drawn = orders if count < whole else orders[:1]  # with all labels there is one draw
            points = []
            for rows in (order[:count] for order in drawn):
                few = train.subset(rows)
                refit = refit_intercept(on_all_labels, few.units([unit]))
                regression = fit_regression(few, val)
                found = find_neuron(regression, few, val)
                points.append({
                    "known_unit": refit.accuracy(test.units([unit])),
                    "all_units": regression.accuracy(test),
                    "found_unit": found.regression.accuracy(found.column(test)),
                    "tfidf": tfidf_accuracy(sets[0].subset(rows), *sets[1:]),
                })  # fmt: skip
            for name in points[0]:
                row = over_draws([point[name] for point in points], tested)
                curves.setdefault(name, []).append(row)
            progress.advance(draws)
    return {
        "counts": list(counts),
        "draws": draws,
        "band_percentiles": list(BAND),
        "curves": curves,
    }


def stratified_order(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return a random order of all examples in which every prefix has the classes in proportion.

    labels [N], 0 to C - 1. The first C examples are one of each class.
    """
    rng = np.random.default_rng(seed)
    places = np.empty(len(labels))
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        places[rows] = (np.arange(len(rows)) + rng.random(len(rows))) / len(rows)
        places[rows[0]] -= 1
    return places.argsort(kind="stable")


def refit_intercept(regression: Regression, examples: Examples) -> Regression:
    """Return the regression with its intercept refitted by maximum likelihood, its weights kept.

    At that intercept, the mean probability of the positive class equals its fraction. Raises
    ValueError if a class has no example.
    """
    fraction = float(examples.labels.mean())
    if not 0 < fraction < 1:
        raise ValueError("a class has no example; it has no likeliest intercept")
    scores = examples.features @ regression.coefficients
    far = 1 - np.log(min(fraction, 1 - fraction))  # expit(-far) < fraction < expit(far)
    intercept = brentq(
        lambda b: expit(scores + b).mean() - fraction, -far - scores.max(), far - scores.min()
    )
    return replace(regression, intercept=float(intercept))
