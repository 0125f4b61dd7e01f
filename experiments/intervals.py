"""Answers to single texts in few characters, intervals that only studies need, and one rule.

The rule gives README, docs and experiments their words: a value is *ahead* of another one, or
*behind* it, if the 95 % interval of their difference leaves out zero; else it is *level*.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, t

from transfer.intervals import mean_interval, mean_margin, paired_difference, wald
from transfer.neuron.ranking import area_variance, fractions_below
from transfer.regression import CONFIDENCE

WORDS = ("ahead", "level", "behind")


class Difference(NamedTuple):
    """A difference with its 95 % interval. More must be better: turn bits around."""

    value: float
    interval: tuple[float, float]

    @property
    def word(self) -> str:
        """The rule."""
        low, high = self.interval
        return "ahead" if low > 0 else "behind" if high < 0 else "level"

    def widened(self, margin: float) -> "Difference":
        """Return the difference with one more margin; the squares of margins add up."""
        low, high = (hypot(end - self.value, margin) for end in self.interval)
        return Difference(self.value, (self.value - low, self.value + high))


@dataclass(frozen=True)
class Measured:
    """Which texts a method classifies correctly, bool [N], and its accuracies by draw.

    draws: of fits to other draws of its labels, or of other trainings; empty if there are none.
    """

    right: np.ndarray
    draws: Sequence[float] = ()

    @property
    def margin(self) -> float:
        """How far the mean of all draws may lie from this one: t times their deviation, 95 %."""
        if len(self.draws) < 2:
            return 0.0
        spread = float(np.std(self.draws, ddof=1))
        return float(t.ppf(0.5 + CONFIDENCE / 2, len(self.draws) - 1)) * spread


def compare(first: Measured, second: Measured) -> Difference:
    """Return how far the first method is ahead of the second on the same texts.

    The squares of the margins add up: of the choice of texts (paired), and of each method's draws.
    """
    paired = paired_difference(first.right, second.right)
    low, high = paired["lost_interval"]
    return Difference(paired["lost"], (low, high)).widened(hypot(first.margin, second.margin))


def compare_draws(own: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> Difference:
    """Return how far the mean of a method's draws is ahead of another one's, on the same texts.

    own, others: which texts are classified correctly, bool [N] each.
    """
    if len(own) == len(others) == 1:
        return compare(Measured(own[0]), Measured(others[0]))
    apart = np.mean(own, axis=0) - np.mean(others, axis=0)
    value, text_margin = float(apart.mean()), float(norm.ppf(0.5 + CONFIDENCE / 2))
    text_margin *= float(apart.std()) / len(apart) ** 0.5
    margin = hypot(text_margin, *map(_margin_of_mean, (own, others)))
    return Difference(value, (value - margin, value + margin))


def _margin_of_mean(draws: Sequence[np.ndarray]) -> float:
    return Measured(draws[0], [each.mean() for each in draws]).margin / len(draws) ** 0.5


def compare_with_published(value: float, interval: Sequence[float], published: float) -> Difference:
    """Return how far a value is ahead of a published one, of which no answers are known.

    Two samples: the published value has our margins, since it was measured on as many texts.
    """
    low, high = (2**0.5 * abs(end - value) for end in interval)
    difference = value - published
    return Difference(difference, (difference - low, difference + high))


def fold_interval(accuracies: Sequence[float], interval: Sequence[float]) -> list[float]:
    """Return the wider of two 95 % intervals of the accuracy over all folds.

    accuracies: one per fold. interval: Wilson's over all examples, valid if folds differ by chance
    alone. The other is the t interval of the folds' mean, cut to 0 and 1, which is wider if the fit
    differs from fold to fold. It is still a little too narrow, since folds share training examples.
    `interval` itself is returned if it is already the wider one, as in new results.
    """
    if len(accuracies) < 2:
        return list(interval)
    of_folds = mean_interval(np.array(accuracies))
    return max(list(interval), of_folds, key=lambda ends: ends[1] - ends[0])


def wider(apart: Difference, own: Sequence[float], others: Sequence[float]) -> Difference:
    """Return a difference over all folds with the wider one of two 95 % intervals.

    own, others: both methods' accuracies, one per fold. The other interval is the t interval of
    their differences, for fits that differ from fold to fold, as in `fold_interval`.
    """
    if len(own) < 2:
        return apart
    margin = mean_margin(np.subtract(own, others))
    of_folds = Difference(apart.value, (apart.value - margin, apart.value + margin))
    return max(apart, of_folds, key=lambda each: each.interval[1] - each.interval[0])


def packed_answers(right: np.ndarray) -> str:
    """Pack which examples were answered correctly, bool [N], into a hex digit for each four."""
    return np.packbits(right).tobytes().hex()


def unpacked_answers(packed: str, count: int) -> np.ndarray:
    """Return what `packed_answers` was given, bool [count], to compare classifiers in pairs."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(packed), np.uint8), count=count).astype(bool)


def separate_difference(
    first: tuple[float, Sequence[float]], second: tuple[float, Sequence[float]]
) -> dict[str, Any]:
    """Return the first accuracy minus the second, with a 95 % interval.

    first, second: an accuracy with Wilson's interval. The result is Newcombe's interval (1998,
    method 10), for different examples. On the same examples, where classifiers tend to agree, it is
    wider than necessary: use `paired_difference` if the answers are known.
    """
    (mean, (low, high)), (other, (other_low, other_high)) = first, second
    difference = mean - other
    interval = [
        difference - hypot(mean - low, other_high - other),
        difference + hypot(high - mean, other - other_low),
    ]
    return {"difference": difference, "difference_interval": interval}


def area_difference(first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Return the first unit's AUC minus the second's, with its 95 % interval on the same examples.

    first, second, labels [N]; high values must mean positive. By DeLong et al. (1988): if the units
    err on the same examples, the difference is more certain than their two intervals suggest.
    """
    pairs = zip(*(fractions_below(values, labels) for values in (first, second)), strict=True)
    apart = [one - other for one, other in pairs]
    difference = float(apart[0].mean())
    interval = wald(difference, area_variance(apart) ** 0.5)
    return {"difference": difference, "difference_interval": interval}
