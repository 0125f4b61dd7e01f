"""Where between two classes to cut: the threshold of a probability, chosen on the validation set.

Only the cut is calibrated: the probabilities come from a logistic loss, which is a proper score,
and refitting them (Platt 1999) on the set that chose C would spend it twice. Cuts between the
probabilities of a few hundred examples are many and their accuracies noisy, so one half stays
unless another cut mends more decisions than it spoils by twice the standard error of that count
(McNemar's test).
"""

import numpy as np

STANDARD_ERRORS = 2.0


def calibrate_threshold(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the threshold above which an example is positive.

    probabilities: float64 [N], of the positive class; labels [N], 0 or 1. The cut of highest
    accuracy, of equal ones that nearest one half.
    """
    values = np.unique(probabilities)
    cuts = np.append((values[:-1] + values[1:]) / 2, 0.5)
    # Right below a cut: the negatives not above it and the positives above it.
    negatives, positives = (np.sort(probabilities[labels == label]) for label in (0, 1))
    right = np.searchsorted(negatives, cuts, side="right") + (
        len(positives) - np.searchsorted(positives, cuts, side="right")
    )
    best = cuts[right == right.max()]
    cut = float(best[np.abs(best - 0.5).argmin()])
    changed = (probabilities > cut) != (probabilities > 0.5)
    gain = int(right.max() - right[-1])
    return cut if gain > STANDARD_ERRORS * np.sqrt(changed.sum()) else 0.5
