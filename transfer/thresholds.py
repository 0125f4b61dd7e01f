"""A threshold for every class of a classifier, chosen on the validation set by a named metric.

It is the cut of the class's probability at which the metric of that class alone is highest; so the
metric's mean over classes is highest, too. Nothing is tuned across classes for a pooled metric.
"""

from typing import Literal

import numpy as np

STANDARD_ERRORS = 2.0


def calibrate_threshold(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the threshold above which an example is positive.

    probabilities: float64 [N], of the positive class; labels [N], 0 or 1. The cut with the highest
    accuracy; of equally good cuts, the one nearest 0.5. Returns 0.5 if the gain is within chance or
    if all labels are equal.
    """
    if len(np.unique(labels)) < 2:
        return 0.5
    cuts = candidate_cuts(probabilities)
    # A cut gets right the negatives not above it and the positives above it.
    negatives, positives = (np.sort(probabilities[labels == label]) for label in (0, 1))
    right = np.searchsorted(negatives, cuts, side="right") + (
        len(positives) - np.searchsorted(positives, cuts, side="right")
    )
    best = cuts[right == right.max()]
    cut = float(best[np.abs(best - 0.5).argmin()])
    changed = (probabilities > cut) != (probabilities > 0.5)
    gain = int(right.max() - right[-1])
    return cut if gain > STANDARD_ERRORS * np.sqrt(changed.sum()) else 0.5


ThresholdMetric = Literal["f1", "mcc", "jaccard", "accuracy"]


def choose_thresholds(
    probabilities: np.ndarray, labels: np.ndarray, metric: ThresholdMetric
) -> tuple[float, ...]:
    """Return a threshold per class for probabilities float64 [N, C] and labels [N, C], 0 or 1."""
    columns = zip(probabilities.T, labels.T, strict=True)
    return tuple(choose_threshold(column, truth, metric) for column, truth in columns)


def choose_threshold(
    probabilities: np.ndarray, labels: np.ndarray, metric: ThresholdMetric
) -> float:
    """Return the threshold above which an example has the class.

    probabilities: float64 [N]; labels [N], 0 or 1. The best cut by the metric; of equally good
    cuts, the one nearest 0.5. Returns 0.5 if all labels are equal. For accuracy,
    `calibrate_threshold` decides: 0.5 unless another cut is better by more than chance.
    """
    if metric == "accuracy":
        return calibrate_threshold(probabilities, labels)
    positives, negatives = (np.sort(probabilities[labels == label]) for label in (1, 0))
    if not len(positives) or not len(negatives):
        return 0.5
    cuts = candidate_cuts(probabilities)
    tp = len(positives) - np.searchsorted(positives, cuts, side="right")
    fp = len(negatives) - np.searchsorted(negatives, cuts, side="right")
    scores = _score(metric, tp, fp, len(positives) - tp, len(negatives) - fp)
    best = cuts[scores == scores.max()]
    return float(best[np.abs(best - 0.5).argmin()])


def candidate_cuts(probabilities: np.ndarray) -> np.ndarray:
    """Return a cut between every two neighbouring probabilities, one outside each end, and 0.5."""
    ends = np.concatenate([[0.0], np.unique(probabilities), [1.0]])
    return np.append((ends[:-1] + ends[1:]) / 2, 0.5)


def _score(
    metric: ThresholdMetric, tp: np.ndarray, fp: np.ndarray, fn: np.ndarray, tn: np.ndarray
) -> np.ndarray:
    """Return the metric for each cut, from its counts; 0 where it is not defined."""
    if metric == "mcc":
        product = (tp + fp).astype(float) * (tp + fn) * (tn + fp) * (tn + fn)
        return (tp * tn - fp * fn) / np.sqrt(np.where(product > 0, product, np.inf))
    weight = 2 if metric == "f1" else 1
    return weight * tp / np.maximum(weight * tp + fp + fn, 1)
