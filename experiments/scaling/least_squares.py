"""Least squares on relative errors, and how well the data determine the fitted values.

On request the fit goes on until the worst error is least (minimax).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares, minimize

Values = Mapping[str, float]
RESTARTS = 20
STARTS = 4  # of the search; all but the first are up to ten times away from it
FARTHEST = np.log(1e9)  # from the start: a bandwidth must not become 0
LOWER = 1 - 1e-6  # of a sum of squares: by less, another place is not taken for a better one


@dataclass(frozen=True)
class Fit:
    """Fitted values, and the residuals."""

    values: dict[str, float]
    errors: np.ndarray  # [observations]: predicted / observed - 1
    influence: np.ndarray  # [values, observations]: change of a value per relative change of each

    @property
    def worst(self) -> float:
        """The largest relative error."""
        return float(np.abs(self.errors).max())

    @property
    def rms(self) -> float:
        """The root mean square of the relative errors."""
        return float(np.sqrt(np.mean(self.errors**2)))

    def deviations(self, reading: np.ndarray | None = None) -> dict[str, float]:
        """Return each value's standard deviation, in its own unit.

        reading: the relative standard deviation of each observation; None estimates it from the
        residuals and their degrees of freedom.
        """
        if reading is None:
            freedom = max(len(self.errors) - len(self.values), 1)
            reading = np.full(len(self.errors), np.sqrt(np.sum(self.errors**2) / freedom))
        spread = np.sqrt(np.sum((self.influence * reading) ** 2, axis=1))
        return dict(zip(self.values, spread.tolist(), strict=True))

    def correlation(self, one: str, other: str) -> float:
        """Return the correlation of two values' errors: near 1 or -1, one stands for the other."""
        names = list(self.values)
        a, b = self.influence[names.index(one)], self.influence[names.index(other)]
        return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def fit(
    predict: Callable[[Values], Sequence[float]],
    observed: Sequence[float],
    starts: Values,
    *,
    minimax: bool = False,
) -> Fit:
    """Find the positive values that minimise the squared relative errors.

    predict: values by name to as many numbers as are observed. starts: where the search begins; it
    begins anew from places around, since it finds the least of a neighbourhood only.
    minimax: minimise the worst relative error instead, beginning from the least squares.
    """
    names, target = list(starts), np.asarray(observed)
    first = np.log(list(starts.values()))

    def named(logarithms: np.ndarray) -> dict[str, float]:
        near = np.clip(logarithms, first - FARTHEST, first + FARTHEST)
        return dict(zip(names, np.exp(near).tolist(), strict=True))

    def errors(logarithms: np.ndarray) -> np.ndarray:
        return np.asarray(predict(named(logarithms))) / target - 1

    # Logarithms: values stay positive, and a bandwidth weighs as much as a second.
    away = np.random.default_rng(0).uniform(-1, 1, (STARTS - 1, len(names))) * np.log(10)
    solution = least_squares(errors, first, method="lm")
    for place in first + away:
        if np.isfinite(errors(place)).all():
            other = least_squares(errors, place, method="lm")
            solution = other if other.cost < LOWER * solution.cost else solution
    influence = np.linalg.pinv(solution.jac) * np.exp(solution.x)[:, None]
    place = solution.x
    if minimax:
        for _ in range(RESTARTS):  # the simplex collapses on an edge, and goes on from there
            place = minimize(lambda x: np.abs(errors(x)).max(), place, method="Nelder-Mead").x
    return Fit(named(place), errors(place), influence)
