"""How sure a number is: over several draws, and of a difference on the same examples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import norm, t

from .regression import CONFIDENCE, accuracy_interval

BAND = (10, 90)  # percentiles of the draws


def over_draws(accuracies: Sequence[float], tested: int) -> dict[str, Any]:
    """Return mean, band and intervals of the accuracies that several draws have on one test set.

    tested: its examples. `band` is where the middle four fifths of the draws lie; `mean_interval`
    the 95 % t interval of their mean, of one draw None; `test_interval` Wilson's at the mean: for
    other test examples, so that more draws do not make it smaller.
    """
    values = np.array(accuracies)
    mean, count = float(values.mean()), len(values)
    interval = None
    if count > 1:
        margin = float(t.ppf(0.5 + CONFIDENCE / 2, count - 1) * values.std(ddof=1) / count**0.5)
        interval = [mean - margin, mean + margin]
    return {
        "test_accuracy": mean,
        "test_interval": accuracy_interval(mean, tested),
        "mean_interval": interval,
        "band": np.percentile(values, BAND).tolist(),
        "accuracies": values.tolist(),
    }


def paired_difference(before: np.ndarray, after: np.ndarray) -> dict[str, Any]:
    """Return the accuracy lost between two classifiers on the same examples, with its interval.

    before, after: bool [N], which examples each has right. 95 %, Wald's for paired proportions.
    """
    change = before.astype(np.float64) - after
    margin = float(norm.ppf(0.5 + CONFIDENCE / 2) * change.std() / len(change) ** 0.5)
    lost = float(change.mean())
    return {"lost": lost, "lost_interval": [lost - margin, lost + margin]}
