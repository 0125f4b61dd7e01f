"""L1 logistic regression on features, and the one unit that matters most.

The protocol of Radford et al. 2017 (train_with_reg_cv in their utils.py): C from 2^-8 to 2^0,
chosen by accuracy on the validation set, fitted on the training set alone.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from model.errors import InputError

C_GRID = tuple(2.0**exponent for exponent in range(-8, 1))
MAX_ITERATIONS = 100  # as in Radford et al.; Puri et al.'s code stopped at 5 or 40
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Examples:
    """Features [N, F] and labels [N], 0 or 1."""

    features: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Regression:
    """A fitted regression."""

    c: float
    coefficients: np.ndarray  # [F]
    intercept: float
    val_accuracy: float
    converged: bool

    def decide(self, features: np.ndarray) -> np.ndarray:
        """Return log-odds [N] of the positive class."""
        return features @ self.coefficients + self.intercept

    def accuracy(self, examples: Examples) -> float:
        """Return the fraction of examples classified rightly."""
        return float(((self.decide(examples.features) > 0) == examples.labels).mean())


@dataclass(frozen=True)
class Neuron:
    """The unit with the largest weight, and a regression on it alone."""

    index: int
    polarity: int  # 1 where a high value means positive, -1 where it means negative
    regression: Regression

    def column(self, examples: Examples) -> Examples:
        """Return the examples with this unit as their only feature."""
        return _column(examples, self.index)


def fit_regression(train: Examples, val: Examples, seed: int = 0) -> Regression:
    """Fit for every C and return the best on val; the smallest C wins ties."""
    check_two_classes(train.labels)
    fits = [_fit(train, val, c, seed) for c in C_GRID]
    return fits[int(np.argmax([fit.val_accuracy for fit in fits]))]


def check_two_classes(labels: np.ndarray) -> None:
    """Refuse labels of one class, from which nothing can be learned."""
    if len(np.unique(labels)) != 2:
        raise InputError("the training labels hold a single class; two are needed")


def _fit(train: Examples, val: Examples, c: float, seed: int) -> Regression:
    # l1_ratio=1.0 is the L1 penalty's spelling since scikit-learn 1.8.
    model = LogisticRegression(
        l1_ratio=1.0, solver="liblinear", C=c, random_state=seed, max_iter=MAX_ITERATIONS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported as `converged`
        model.fit(train.features, train.labels)
    converged = int(model.n_iter_.max()) < MAX_ITERATIONS
    val_accuracy = float(model.score(val.features, val.labels))
    return Regression(c, model.coef_[0], float(model.intercept_[0]), val_accuracy, converged)


def find_neuron(regression: Regression, train: Examples, val: Examples, seed: int = 0) -> Neuron:
    """Take the unit of largest weight and regress on it alone, with a C search of its own.

    Where the penalty has zeroed every weight, the unit that correlates most with the label.
    """
    importance = np.abs(regression.coefficients)
    if not importance.any():
        importance = np.abs(_correlations(train))
    index = int(np.argmax(importance))
    alone = fit_regression(_column(train, index), _column(val, index), seed)
    sign = regression.coefficients[index] or _correlations(train)[index]
    return Neuron(index, 1 if sign > 0 else -1, alone)


def _column(examples: Examples, index: int) -> Examples:
    return Examples(examples.features[:, [index]], examples.labels)


def _correlations(examples: Examples) -> np.ndarray:
    centered = examples.features - examples.features.mean(0)
    signs = np.where(examples.labels == 1, 1.0, -1.0)
    return signs @ centered / (np.sqrt((centered**2).sum(0)) + 1e-12)


def accuracy_interval(accuracy: float, count: int) -> list[float]:
    """Return the 95 % Wilson interval of an accuracy over `count` examples."""
    test = binomtest(round(accuracy * count), count)
    interval = test.proportion_ci(CONFIDENCE, method="wilson")
    return [float(interval.low), float(interval.high)]
