"""Answers to single texts in few characters, and intervals that only studies need."""

from collections.abc import Sequence
from math import hypot
from typing import Any

import numpy as np

from transfer.intervals import mean_interval


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
