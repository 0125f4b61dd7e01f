"""The threshold of a class, chosen on the validation set by that class's F1 or by accuracy."""

from typing import Literal

import numpy as np

_STANDARD_ERRORS = 2.0


def choose_threshold(
    probabilities: np.ndarray, labels: np.ndarray, metric: Literal["f1", "accuracy"] = "accuracy"
) -> float:
    """Return the threshold above which an example has the class.

    probabilities: float64 [N]; labels [N], 0 or 1. The best cut by the metric; of equally good
    cuts, the one nearest 0.5. Returns 0.5 if all labels are equal, and for accuracy also if the
    gain over 0.5 is within chance.
    """
    negatives, positives = (np.sort(probabilities[labels == label]) for label in (0, 1))
    if not len(positives) or not len(negatives):
        return 0.5
    ends = np.concatenate([[0.0], np.unique(probabilities), [1.0]])
    # One between every two neighbours, one outside each end, and one half.
    cuts = np.append((ends[:-1] + ends[1:]) / 2, 0.5)
    tp = len(positives) - np.searchsorted(positives, cuts, side="right")
    tn = np.searchsorted(negatives, cuts, side="right")
    if metric == "accuracy":
        scores = tp + tn  # a whole number
    else:
        fp, fn = len(negatives) - tn, len(positives) - tp
        scores = 2 * tp / np.maximum(2 * tp + fp + fn, 1)
    best = cuts[scores == scores.max()]
    cut = float(best[np.abs(best - 0.5).argmin()])
    if metric == "accuracy":
        changed = (probabilities > cut) != (probabilities > 0.5)
        gain = int(scores.max() - scores[-1])
        return cut if gain > _STANDARD_ERRORS * np.sqrt(changed.sum()) else 0.5
    return cut
