"""The classifier's accuracy with few units, and without one of them."""

from typing import Any

import numpy as np

from mlstm_sentiment.reading.progress import ProgressBar

from ..intervals import paired_difference
from ..regression import Examples, Regression, accuracy_on, fit_regression


def round_counts(most: int, first: int = 1) -> list[int]:
    """Return 1, 2, 5, 10, 20, ... from `first` to below `most`, and `most`."""
    counts = [digit * 10**power for power in range(len(str(most))) for digit in (1, 2, 5)]
    return [count for count in counts if first <= count < most] + [most]


def accuracy_by_units(
    orders: dict[str, np.ndarray],
    sets: tuple[Examples, Examples, Examples],
    whole: Regression,
) -> dict[str, list[dict[str, Any]]]:
    """Regress on the first k units of each order, each time with its own search for C.

    orders: int64 [F] each; sets: train, val, test; whole: the regression on all units, which is
    the last point of every order.
    """
    counts = round_counts(sets[0].features.shape[1])
    curves: dict[str, list[dict[str, Any]]] = {}
    total = len(orders) * (len(counts) - 1)
    with ProgressBar("units kept", total, unit=" regressions") as progress:
        for name, order in orders.items():
            curves[name] = []
            for count in counts[:-1]:
                train, val, test = (part.units(order[:count]) for part in sets)
                measured = describe_fit(fit_regression(train, val), test)
                curves[name].append({"kept": count, **measured})
                progress.advance(1)
            curves[name].append({"kept": counts[-1], **describe_fit(whole, sets[2])})
    return curves


def describe_fit(regression: Regression, test: Examples) -> dict[str, Any]:
    """Return what was chosen for a regression, and its accuracies on val and test."""
    return {
        "c": regression.c,
        "converged": regression.converged,
        "nonzero": int((regression.importance() != 0).sum()),
        "val_accuracy": regression.val_accuracy,
        **accuracy_on("test", regression, test),
    }


def without_unit(
    unit: int, sets: tuple[Examples, Examples, Examples], whole: Regression
) -> dict[str, Any]:
    """Return the accuracy without a unit, once refitted on the others and once unchanged.

    `refitted`: a regression on all other units, C chosen again. `held`: the regression on all
    units, with this one clamped to its mean over train in every text. `lost` is the accuracy lost
    on the same texts, `lost_interval` its 95 % interval for paired proportions.
    """
    train, val, test = sets
    rest = np.delete(np.arange(train.features.shape[1]), unit)
    refitted = fit_regression(train.units(rest), val.units(rest))
    features = test.features.copy()
    features[:, unit] = train.features[:, unit].mean()
    clamped = Examples(features, test.labels)
    right, others = whole.correct(test), test.units(rest)
    return {
        "refitted": {
            **describe_fit(refitted, others),
            **paired_difference(right, refitted.correct(others)),
        },
        "held": {
            **describe_fit(whole, clamped),
            **paired_difference(right, whole.correct(clamped)),
        },
    }
