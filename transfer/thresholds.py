"""A threshold for every class of a classifier, chosen on the validation set by a named metric.

It is the cut of the class's probability at which the metric of that class alone is highest; so the
metric's mean over classes is highest, too. Nothing is tuned across classes for a pooled metric.
"""

from typing import Literal

import numpy as np

STANDARD_ERRORS = 2.0

ThresholdMetric = Literal["f1", "mcc", "jaccard", "accuracy"]


def choose_thresholds(
    probabilities: np.ndarray, labels: np.ndarray, metric: ThresholdMetric
) -> tuple[float, ...]:
    """Return a threshold per class for probabilities float64 [N, C] and labels [N, C], 0 or 1."""
    columns = zip(probabilities.T, labels.T, strict=True)
    return tuple(choose_threshold(column, truth, metric) for column, truth in columns)


def choose_threshold(
    probabilities: np.ndarray, labels: np.ndarray, metric: ThresholdMetric = "accuracy"
) -> float:
    """Return the threshold above which an example has the class.

    probabilities: float64 [N]; labels [N], 0 or 1. The best cut by the metric; of equally good
    cuts, the one nearest 0.5. Returns 0.5 if all labels are equal, and for accuracy also if the
    gain over 0.5 is within chance.
    """
    negatives, positives = (np.sort(probabilities[labels == label]) for label in (0, 1))
    if not len(positives) or not len(negatives):
        return 0.5
    cuts = candidate_cuts(probabilities)
    tp = len(positives) - np.searchsorted(positives, cuts, side="right")
    tn = np.searchsorted(negatives, cuts, side="right")
    scores = _score(metric, tp, len(negatives) - tn, len(positives) - tp, tn)
    best = cuts[scores == scores.max()]
    cut = float(best[np.abs(best - 0.5).argmin()])
    if metric == "accuracy":
        changed = (probabilities > cut) != (probabilities > 0.5)
        gain = int(scores.max() - scores[-1])
        return cut if gain > STANDARD_ERRORS * np.sqrt(changed.sum()) else 0.5
    return cut


def candidate_cuts(probabilities: np.ndarray) -> np.ndarray:
    """Return a cut between every two neighbouring probabilities, one outside each end, and 0.5."""
    ends = np.concatenate([[0.0], np.unique(probabilities), [1.0]])
    return np.append((ends[:-1] + ends[1:]) / 2, 0.5)


def _score(
    metric: ThresholdMetric, tp: np.ndarray, fp: np.ndarray, fn: np.ndarray, tn: np.ndarray
) -> np.ndarray:
    """Return the metric for each cut, from its counts; 0 where it is not defined.

    Accuracy is the number of correct examples, a whole number.
    """
    if metric == "accuracy":
        return tp + tn
    if metric == "mcc":
        product = (tp + fp).astype(float) * (tp + fn) * (tn + fp) * (tn + fn)
        return (tp * tn - fp * fn) / np.sqrt(np.where(product > 0, product, np.inf))
    weight = 2 if metric == "f1" else 1
    return weight * tp / np.maximum(weight * tp + fp + fn, 1)
