"""The uncertainty of a number: over several draws, or as a difference on the same examples."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import hypot
from typing import Any

import numpy as np
from scipy.stats import norm, t

from .regression import CONFIDENCE, accuracy_interval, with_interval

BAND = (10, 90)  # percentiles of the draws


def over_draws(accuracies: Sequence[float], tested: int) -> dict[str, Any]:
    """Return mean, band and intervals of several draws' accuracies on one test set.

    tested: the number of test examples. `draw_interval` predicts one more draw on other examples.
    `mean_interval` is the 95 % t interval of the mean on these examples, cut to 0 and 1; None for
    one draw. `test_interval` is Wilson's at the mean, for other examples: more draws do not narrow
    it. `band`, the middle four fifths of the draws, is not an interval: for one draw it is a point.
    """
    values = np.array(accuracies)
    mean = float(values.mean())
    return {
        **with_interval("test", mean, tested),
        "draw_interval": draw_interval(accuracies, tested),
        "mean_interval": mean_interval(values) if len(values) > 1 else None,
        "band": np.percentile(values, BAND).tolist(),
        "accuracies": values.tolist(),
    }


def accuracy_table(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the lines of a table: test accuracies by name, and their intervals."""
    yield f"{'test accuracy':<36}{'':>8}  95 % interval"
    for name, row in rows:
        low, high = row["test_interval"]
        yield f"{name:<36}{row['test_accuracy']:>8.4f}  {low:.4f} to {high:.4f}"


def mean_interval(values: np.ndarray) -> list[float]:
    """Return the 95 % t interval of the mean of several accuracies, cut to 0 and 1."""
    mean, margin = float(values.mean()), mean_margin(values)
    return [max(mean - margin, 0.0), min(mean + margin, 1.0)]


def mean_margin(values: np.ndarray) -> float:
    """Return half the width of the 95 % t interval of the mean of several values."""
    count = len(values)
    return float(t.ppf(0.5 + CONFIDENCE / 2, count - 1) * values.std(ddof=1) / count**0.5)


def draw_interval(accuracies: Sequence[float], tested: int) -> list[float]:
    """Return a 95 % interval for one more draw's accuracy on the population of test examples.

    accuracies: of D draws on the same `tested` examples. On either side of the mean, the squares of
    two margins add up (Zou and Donner 2008): Wilson's, for the choice of test examples, and that of
    the t interval of one more draw, s sqrt(1 + 1/D), for normally distributed draws. With a single
    draw, whose spread is unknown, it is Wilson's interval for that draw.
    """
    values = np.array(accuracies)
    mean, count = float(values.mean()), len(values)
    margin = 0.0
    if count > 1:
        spread = float(values.std(ddof=1))
        margin = float(t.ppf(0.5 + CONFIDENCE / 2, count - 1)) * spread * (1 + 1 / count) ** 0.5
    low, high = accuracy_interval(mean, tested)
    return [max(mean - hypot(margin, mean - low), 0.0), min(mean + hypot(margin, high - mean), 1.0)]


def paired_difference(before: np.ndarray, after: np.ndarray) -> dict[str, Any]:
    """Return the accuracy lost between two classifiers on the same examples, with its interval.

    before, after: bool [N], which examples each has right. The 95 % interval is Wald's for paired
    proportions. If all examples change in the same way, Wald's interval would be a point. Then the
    interval is Agresti and Min's (2005, Statistics in Medicine 24): Wald's with a half added to
    each of the four counts.
    """
    change = before.astype(np.float64) - after
    lost = float(change.mean())
    if change.min() == change.max():
        # The four halves add two examples; one of them counts as a change.
        count = len(change) + 2
        middle = len(change) * lost / count
        spread = ((abs(lost) * len(change) + 1) / count - middle**2) ** 0.5
        low, high = wald(middle, spread, count)
        return {"lost": lost, "lost_interval": [max(low, -1.0), min(high, 1.0)]}
    return {"lost": lost, "lost_interval": wald(lost, float(change.std()), len(change))}


def wald(mean: float, spread: float, count: int = 1) -> list[float]:
    """Return the 95 % interval of a normally distributed mean of `count` draws.

    spread: the standard deviation of a draw.
    """
    margin = float(norm.ppf(0.5 + CONFIDENCE / 2)) * spread / count**0.5
    return [mean - margin, mean + margin]
