"""L1 logistic regression on features, and the one unit that matters most.

The protocol of Radford et al. 2017 (train_with_reg_cv in their utils.py): C from 2^-8 to 2^0,
chosen by accuracy on the validation set, fitted on the training set alone. For more than two
classes, there is one regression of each against the rest, all with the same C. Where the published
code starts anew for each C, ours follows a path to the same optimum (`l1_path`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from scipy.stats import binomtest

from mlstm_sentiment.errors import InputError

SPLITS = ("train", "val", "test")
C_GRID = tuple(2.0**exponent for exponent in range(-8, 1))
CONFIDENCE = 0.95
_TOLERANCE = 1e-6  # of each unit's optimality condition, in which the penalty's slope is 1
MOST_STEPS = 100  # of Newton's method at one C; five are typical
_MOST_CHANGES = 1000  # of the active set in one step; after them, the next step goes on
_LEAST_CURVATURE = 1e-9  # of one example; it is 0 where a probability is rounded to 0 or 1
_ROUNDING = 1e-12  # of the objective
_RIDGE = 1e-10  # of a unit's own curvature, so that two equal units have one solution


@dataclass(frozen=True)
class Examples:
    """Features [N, F] and labels [N], 0 to C - 1."""

    features: np.ndarray
    labels: np.ndarray

    def subset(self, rows: np.ndarray) -> "Examples":
        return Examples(self.features[rows], self.labels[rows])

    def units(self, units: np.ndarray | list[int]) -> "Examples":
        return Examples(self.features[:, units], self.labels)


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


@dataclass(frozen=True)
class Regression:
    """A fitted regression; for more than two classes one for each."""

    c: float
    coefficients: np.ndarray  # [F]; of more than two classes [C, F]
    intercept: float | np.ndarray  # of more than two classes [C]
    val_accuracy: float
    converged: bool

    def decide(self, features: np.ndarray) -> np.ndarray:
        """Return log-odds: [N] of the positive one of two classes, [N, C] for more classes."""
        return features @ self.coefficients.T + self.intercept

    def correct(self, examples: Examples) -> np.ndarray:
        scores = self.decide(examples.features)
        choices = scores > 0 if scores.ndim == 1 else scores.argmax(1)
        return choices == examples.labels

    def accuracy(self, examples: Examples) -> float:
        return float(self.correct(examples).mean())

    def importance(self) -> np.ndarray:
        """Return each unit's largest absolute weight in any class: [F]."""
        return np.abs(np.atleast_2d(self.coefficients)).max(0)

    def positive_weights(self) -> np.ndarray:
        """Return the weights [F] for the last class (of two, the positive one)."""
        return np.atleast_2d(self.coefficients)[-1]


@dataclass(frozen=True)
class Neuron:
    """The unit with the largest weight, and a regression on it alone."""

    index: int
    polarity: int  # 1 if a high value means the last class, -1 if a low value does
    regression: Regression

    @property
    def cut(self) -> float | None:
        """The value at which the predicted class of two changes; None if it never does."""
        (weight,) = self.regression.coefficients.ravel()[:1]
        return -float(self.regression.intercept) / float(weight) if weight else None

    def column(self, examples: Examples) -> Examples:
        return examples.units([self.index])


@dataclass(frozen=True)
class Transfer:
    """A model's features on labelled sets, and what was fitted on the first two."""

    examples: list[Examples]  # train, val, and test if given
    regression: Regression
    neuron: Neuron

    @classmethod
    def fitted(cls, examples: list[Examples]) -> "Transfer":
        """Fit the regression on all units, and the one on the unit that matters most."""
        train, val = examples[:2]
        regression = fit_regression(train, val)
        return cls(examples, regression, find_neuron(regression, train, val))


def fit_regression(train: Examples, val: Examples) -> Regression:
    """Fit for every C and return the best on val; the smallest C wins ties.

    Raises InputError unless train has every class, numbered from 0, and more than one.
    """
    check_classes(train.labels)
    classes = range(int(train.labels.max()) + 1)
    if missing := set(classes) - set(train.labels.tolist()):
        raise InputError(f"the training labels lack class {min(missing)}; give examples of it")
    paths = [
        l1_path(train.features, train.labels == label, C_GRID)
        for label in (classes if len(classes) > 2 else classes[1:])
    ]
    fits = [_validated(solutions, val) for solutions in zip(*paths, strict=True)]
    return fits[int(np.argmax([fit.val_accuracy for fit in fits]))]


def check_classes(labels: np.ndarray, name: str = "training", remedy: str = "") -> None:
    """Refuse labels of a single class; name, remedy: for the message."""
    if len(np.unique(labels)) < 2:
        raise InputError(f"the {name} labels hold a single class; two are needed{remedy}")


def _validated(solutions: Sequence[Solution], val: Examples) -> Regression:
    first, *more = solutions
    fit = Regression(
        first.c,
        np.stack([solution.weights for solution in solutions]) if more else first.weights,
        np.array([solution.intercept for solution in solutions]) if more else first.intercept,
        np.nan,
        all(solution.converged for solution in solutions),
    )
    return replace(fit, val_accuracy=fit.accuracy(val))


def find_neuron(regression: Regression, train: Examples, val: Examples) -> Neuron:
    """Take the unit of largest weight and regress on it alone, with its own search for C.

    If the penalty zeroed every weight, it is the unit that correlates most with the last class.
    """
    importance = regression.importance()
    if not importance.any():
        importance = np.abs(_correlations(train))
    return regress_on_unit(int(np.argmax(importance)), regression, train, val)


def regress_on_unit(index: int, regression: Regression, train: Examples, val: Examples) -> Neuron:
    """Regress on one unit alone, with its own search for C; the polarity is its weight's sign."""
    alone = fit_regression(train.units([index]), val.units([index]))
    sign = regression.positive_weights()[index] or _correlations(train)[index]
    return Neuron(index, 1 if sign > 0 else -1, alone)


def _correlations(examples: Examples) -> np.ndarray:
    features = examples.features.astype(np.float64)  # fp32 would not center a constant unit to 0
    centered = features - features.mean(0)
    signs = np.where(examples.labels == examples.labels.max(), 1.0, -1.0)
    return signs @ centered / (np.sqrt((centered**2).sum(0)) + 1e-12)


def accuracy_interval(accuracy: float, count: int) -> list[float]:
    """Return the 95 % Wilson interval of an accuracy over `count` examples."""
    test = binomtest(round(accuracy * count), count)
    interval = test.proportion_ci(CONFIDENCE, method="wilson")
    return [float(interval.low), float(interval.high)]


def accuracy_on(name: str, regression: Regression, examples: Examples) -> dict[str, Any]:
    """Return NAME_accuracy and its 95 % interval, NAME_interval."""
    return with_interval(name, regression.accuracy(examples), len(examples.labels))


def with_interval(name: str, accuracy: float, count: int) -> dict[str, Any]:
    """Return an accuracy over `count` examples as NAME_accuracy, and its interval."""
    interval = accuracy_interval(accuracy, count)
    return {f"{name}_accuracy": accuracy, f"{name}_interval": interval}


def describe_transfer(transfer: Transfer) -> dict[str, Any]:
    """Return the regression on all units and its accuracy on every set."""
    regression, results = transfer.regression, dict[str, Any]()
    for name, examples in zip(SPLITS, transfer.examples, strict=True):
        results |= accuracy_on(name, regression, examples)
    return {
        **results,
        "c": regression.c,
        "converged": regression.converged,
        "nonzero": int((regression.coefficients != 0).sum()),
    }


def l1_path(features: np.ndarray, positive: np.ndarray, grid: Iterable[float]) -> list[Solution]:
    """Fit the regression between two classes for increasing C, each from the one before.

    features: [N, F]; positive: bool [N]. The objective is liblinear's:
    |w|_1 + |b| + C * sum_n log(1 + exp(-y_n (x_n w + b))), so the intercept is penalized like a
    weight. Newton's method (Lee, Sun and Saunders 2014) replaces the sum by a quadratic function of
    the few units that have a weight or want one; an active-set method (Lee et al. 2007,
    feature-sign search, where several units may enter while they do not block each other) minimizes
    that exactly.

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
    weights, most = start.copy(), len(start)
    for _ in range(_MOST_CHANGES):
        slopes = gradient + curvature @ (weights - start)
        violations = _violations(slopes, weights)
        if violations.max() <= tolerance:
            break
        signs = np.sign(weights)
        outside = np.flatnonzero((weights == 0) & (np.abs(slopes) > 1))
        entering = outside[np.argsort(-violations[outside], kind="stable")[:most]]
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
        most = 2 * most if size == 1 else 1  # may enter next: together, units can block each other
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
