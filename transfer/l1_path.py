"""L1 logistic regression at increasing strengths C, each solution the start of the next.

The objective is liblinear's: |w|_1 + |b| + C * sum_n log(1 + exp(-y_n (x_n w + b))), so the
intercept is penalized like a weight. Newton's method (Lee, Sun and Saunders 2014) replaces the sum
by a quadratic function of the few units that have a weight or want one; an active-set method (Lee
et al. 2007, feature-sign search, where several units may enter at once) minimizes that exactly.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

_TOLERANCE = 1e-6  # of each unit's optimality condition, in which the penalty's slope is 1
MOST_STEPS = 100  # of Newton's method at one C; five are typical
_MOST_CHANGES = 1000  # of the active set in one step; after them, the next step goes on
_LEAST_CURVATURE = 1e-9  # of one example; it is 0 where a probability is rounded to 0 or 1
_ROUNDING = 1e-12  # of the objective
_RIDGE = 1e-10  # of a unit's own curvature, so that two equal units have one solution


@dataclass(frozen=True)
class Solution:
    """Weights [F] and intercept at one C; converged: whether they are optimal to TOLERANCE."""

    c: float
    weights: np.ndarray
    intercept: float
    converged: bool

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return each example's probability of the positive class: [N]."""
        return expit(features @ self.weights + self.intercept)


def l1_path(features: np.ndarray, positive: np.ndarray, grid: Iterable[float]) -> list[Solution]:
    """Fit the regression between two classes for every C; features [N, F], positive: bool [N].

    Example:
        path = l1_path(features, labels == 1, [0.25, 0.5, 1.0])
        path[-1].weights
    """
    columns = np.ones((features.shape[1] + 1, len(features)))  # the last one is the intercept's
    columns[:-1] = features.T
    signs = np.where(positive, 1.0, -1.0)
    weights, path = np.zeros(len(columns)), []
    for c in grid:
        weights, converged = _newton(columns, signs, c, weights)
        path.append(Solution(c, weights[:-1], float(weights[-1]), converged))
    return path


def _newton(
    columns: np.ndarray, signs: np.ndarray, c: float, weights: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Return the solution at C, and whether it converged; columns [F, N], weights [F]: a start."""

    def objective(weights: np.ndarray, margins: np.ndarray) -> float:
        return float(np.abs(weights).sum() + c * np.logaddexp(0, -margins).sum())

    margins = signs * (weights @ columns)
    value = objective(weights, margins)
    for _ in range(MOST_STEPS):
        wrong = expit(-margins)
        gradient = -c * (columns @ (signs * wrong))
        violation = _violations(gradient, weights).max()
        if violation <= _TOLERANCE:
            return weights, True
        units = np.flatnonzero((weights != 0) | (np.abs(gradient) > 1))
        rows = columns[units]
        scaled = rows * np.sqrt(c * np.maximum(wrong * (1 - wrong), _LEAST_CURVATURE))
        curvature = scaled @ scaled.T
        curvature[np.diag_indices_from(curvature)] *= 1 + _RIDGE
        goal = np.zeros_like(weights)
        goal[units] = _least_quadratic(curvature, gradient[units], weights[units], violation / 10)
        step = goal - weights
        moved = signs * (step[units] @ rows)
        slope = gradient @ step + np.abs(goal).sum() - np.abs(weights).sum()
        limit, size = value * (1 + _ROUNDING), 1.0
        while (new := objective(weights + size * step, margins + size * moved)) > (
            limit + 1e-4 * size * slope
        ):
            size /= 2
            if size < _ROUNDING:
                return weights, False
        weights = goal if size == 1 else weights + size * step  # exact zeros
        margins, value = margins + size * moved, new
    return weights, False


def _violations(gradient: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return by how much each unit misses the condition of optimality."""
    slack = np.maximum(np.abs(gradient) - 1, 0)
    return np.where(weights != 0, np.abs(gradient + np.sign(weights)), slack)


def _least_quadratic(
    curvature: np.ndarray, gradient: np.ndarray, start: np.ndarray, tolerance: float
) -> np.ndarray:
    """Minimize g (w - start) + (w - start) H (w - start) / 2 + |w|_1 over w."""
    weights = start.copy()
    for _ in range(_MOST_CHANGES):
        slopes = gradient + curvature @ (weights - start)
        if _violations(slopes, weights).max() <= tolerance:
            break
        signs = np.sign(weights)
        entering = (weights == 0) & (np.abs(slopes) > 1)
        signs[entering] = -np.sign(slopes[entering])
        while True:  # as long as a unit would enter on the wrong side; one at least is right
            active = np.flatnonzero(signs)
            factor = cho_factor(curvature[np.ix_(active, active)], check_finite=False)
            step = cho_solve(factor, -(slopes + signs)[active], check_finite=False)
            astray = (weights[active] == 0) & (step * signs[active] < 0)
            if not astray.any():
                break
            signs[active[astray]] = 0
        size, stopped = _line_minimum(weights[active], step, float((slopes + signs)[active] @ step))
        weights[active] += size * step
        weights[active[stopped]] = 0
    return weights


def _line_minimum(weights: np.ndarray, step: np.ndarray, slope: float) -> tuple[float, np.ndarray]:
    """Return the best multiple of a Newton step, at most 1, and which weights are 0 there.

    Along the step, the slope grows from `slope` to 0, and jumps where a weight changes its sign.
    """
    crossing = np.full(len(step), np.inf)
    turning = weights * step < 0
    crossing[turning] = -weights[turning] / step[turning]
    places = np.sort(crossing[crossing < 1])
    order = np.argsort(crossing)[: len(places)]
    jumps = np.cumsum(2 * np.abs(step[order]))
    rising = slope * (1 - places) + jumps >= 0
    if not len(places):
        return 1.0, crossing == 1
    last = int(rising.argmax()) if rising.any() else len(places)
    size = 1 + (jumps[last - 1] if last else 0.0) / slope
    if last < len(places):
        size = min(size, float(places[last]))
    return float(size), crossing == size
