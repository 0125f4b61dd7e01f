"""How far probabilities are from what is true, and how far chance alone would put them."""

import numpy as np

BINS = 10  # of probability, of equal width
SIMULATED = 1000  # sets of labels as perfect calibration would give them


def error_and_null(chances: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return the calibration error, and its 95 % quantile if the probabilities were right.

    chances: [N]; truth: whether each is true, or 0 and 1, [N].
    """
    draw = np.random.default_rng(0)
    perfect = draw.random((SIMULATED, len(chances))) < chances
    null = np.quantile([_error(chances, row) for row in perfect], 0.95)
    return _error(chances, truth), float(null)


def _error(chances: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean distance of the probabilities from what is true, by bins."""
    places = np.minimum((chances * BINS).astype(int), BINS - 1)
    gaps = np.bincount(places, weights=chances - truth)
    return float(np.abs(gaps).sum() / len(chances))
