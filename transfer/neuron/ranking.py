"""How well each single unit's value, with one threshold, separates two classes.

A unit's cut and direction are the most accurate ones on the training set, found by sorting its
values. The units are also ordered on the training set, so their accuracies on val and test are free
of selection.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ..intervals import wald
from ..regression import Examples, Regression, accuracy_interval, with_interval
from ..unit_auc import blocks_of, per_feature_auc


@dataclass(frozen=True)
class Cuts:
    """For each unit the value of the cut, and the side that means the positive class."""

    values: np.ndarray  # float64 [F]
    polarity: np.ndarray  # int64 [F]: 1 where values above the cut are positive, -1 where below

    def accuracies(self, examples: Examples) -> np.ndarray:
        """Return float64 [F], the fraction of examples on the right side of each unit's cut."""
        positive = examples.labels[:, None] == 1
        fractions = [
            ((block > self.values[units]) == positive).mean(0)
            for units, block in blocks_of(examples.features)
        ]
        above = np.concatenate(fractions)
        return np.where(self.polarity > 0, above, 1 - above)


@dataclass(frozen=True)
class Ranking:
    """All units, measured on the training set one by one."""

    cuts: Cuts
    accuracies: np.ndarray  # float64 [F], each at its own cut
    areas: np.ndarray  # float64 [F], AUC; below one half if low is positive
    weights: np.ndarray  # float64 [F], in the L1 regression on all units

    def orders(self) -> dict[str, np.ndarray]:
        """Return three orders of the units, the best first: int64 [F] each.

        Ties in accuracy are broken by AUC; units without weight are ordered by accuracy.
        """
        distance = np.abs(self.areas - 0.5)
        return {
            "accuracy": np.lexsort((-distance, -self.accuracies)),
            "area": np.argsort(-distance, kind="stable"),
            "weight": np.lexsort((-self.accuracies, -np.abs(self.weights))),
        }


def rank_units(train: Examples, regression: Regression) -> Ranking:
    cuts = fit_cuts(train)
    areas = per_feature_auc(train.features, train.labels == 1)
    return Ranking(cuts, cuts.accuracies(train), areas, regression.positive_weights())


def fit_cuts(train: Examples) -> Cuts:
    """Return each unit's cut of highest accuracy; of equal ones the lowest."""
    blocks = [_fit_block(block, train.labels) for _, block in blocks_of(train.features)]
    values, polarity = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return Cuts(values, polarity)


def _fit_block(values: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    count = len(labels)
    order = values.argsort(axis=0)  # [N, b]
    ordered = np.take_along_axis(values, order, axis=0).astype(np.float64)
    # A cut right below the i-th value leaves i values under it; the first one leaves none.
    under = np.arange(count)[:, None]
    positives_under = np.cumsum(labels[order], axis=0) - labels[order]
    right = (under - positives_under) + (labels.sum() - positives_under)
    gain = np.abs(2 * right - count)  # compared with the other direction
    gain[1:][np.diff(ordered, axis=0) == 0] = -1  # no threshold separates equal values
    best, column = gain.argmax(0), np.arange(values.shape[1])
    lower = np.where(best > 0, ordered[best - 1, column], ordered[0] - 2)
    cuts = (lower + ordered[best, column]) / 2
    return cuts, np.where(2 * right[best, column] >= count, 1, -1)


def area_interval(values: np.ndarray, labels: np.ndarray) -> list[float]:
    """Return the 95 % interval of one unit's AUC (DeLong et al. 1988); values, labels [N].

    If the unit separates the classes perfectly, or is constant, DeLong's variance is 0 and the
    interval a point (Obuchowski and Lieber 2002). It is then Wilson's, for as many examples as the
    smaller class has: pairing each of them with a different one of the larger class gives that many
    independent pairs, each in order with a chance of AUC. This is conservative: more pairs exist.
    """
    fractions = fractions_below(values, labels)
    area, variance = float(fractions[0].mean()), area_variance(fractions)
    if variance == 0:
        return accuracy_interval(area, min(map(len, fractions)))
    low, high = wald(area, variance**0.5)
    return [max(low, 0.0), min(high, 1.0)]


def fractions_below(values: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """Return, for each example of class 1, then of 0, the fraction of the other class below it."""
    everyone, fractions = rankdata(values), []
    for label in (1, 0):
        own = labels == label
        fractions.append((everyone[own] - rankdata(values[own])) / (~own).sum())
    return fractions


def area_variance(fractions: list[np.ndarray]) -> float:
    """Return DeLong's variance of the mean of `fractions_below`."""
    return float(sum(f.var(ddof=1) / len(f) if len(f) > 1 else 0.25 for f in fractions))


def describe_ranking(ranking: Ranking, val: Examples, test: Examples, top: int) -> dict[str, Any]:
    """Return the numbers of all units, and a row for each that is among the `top` of an order."""
    orders = ranking.orders()
    chosen = list(dict.fromkeys(int(unit) for order in orders.values() for unit in order[:top]))
    chosen.sort(key=list(orders["accuracy"]).index)
    return {
        "units": [describe_unit(unit, ranking, val, test) for unit in chosen],
        "train_accuracy": _rounded(ranking.accuracies),
        "train_area": _rounded(ranking.areas),
        "weight": _rounded(ranking.weights),
    }


def describe_unit(unit: int, ranking: Ranking, val: Examples, test: Examples) -> dict[str, Any]:
    """Return the accuracies, at the cut chosen on train, and the AUC of one unit by itself."""
    column = slice(unit, unit + 1)
    cut = Cuts(ranking.cuts.values[column], ranking.cuts.polarity[column])
    alone = [part.units([unit]) for part in (val, test)]
    val_accuracy, test_accuracy = (float(cut.accuracies(part)[0]) for part in alone)
    return {
        "unit": unit,
        "polarity": int(cut.polarity[0]),
        "cut": float(cut.values[0]),
        "train_accuracy": float(ranking.accuracies[unit]),
        "val_accuracy": val_accuracy,
        **with_interval("test", test_accuracy, len(test.labels)),
        "train_area": float(ranking.areas[unit]),
        "test_area": float(per_feature_auc(alone[1].features, test.labels == 1)[0]),
        "test_area_interval": area_interval(test.features[:, unit], test.labels),
        "weight": float(ranking.weights[unit]),
        "rank": {
            name: int(np.flatnonzero(order == unit)[0]) + 1
            for name, order in ranking.orders().items()
        },
    }


def _rounded(values: np.ndarray) -> list[float]:
    return np.round(values.astype(np.float64), 6).tolist()
