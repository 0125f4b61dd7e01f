"""L1 logistic regression on features, and the one unit that matters most.

The protocol of Radford et al. 2017 (train_with_reg_cv in their utils.py): C from 2^-8 to 2^0,
chosen by accuracy on the validation set, fitted on the training set alone. For more than two
classes, there is one regression of each against the rest, all with the same C.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.version import check_version

C_GRID = tuple(2.0**exponent for exponent in range(-8, 1))
MAX_ITERATIONS = 100  # as in Radford et al.; Puri et al.'s code stopped at 5 or 40
CONFIDENCE = 0.95


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
        """Return which examples are classified correctly: bool [N]."""
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


def fit_regression(train: Examples, val: Examples, seed: int = 0) -> Regression:
    """Fit for every C and return the best on val; the smallest C wins ties.

    Raises InputError unless train has every class, numbered from 0, and more than one.
    """
    check_classes(train.labels)
    if missing := set(range(int(train.labels.max()) + 1)) - set(train.labels.tolist()):
        raise InputError(f"the training labels lack class {min(missing)}; give examples of it")
    fits = [_fit(train, val, c, seed) for c in C_GRID]
    return fits[int(np.argmax([fit.val_accuracy for fit in fits]))]


def check_classes(labels: np.ndarray, name: str = "training", remedy: str = "") -> None:
    """Refuse labels of a single class; name, remedy: for the message."""
    if len(np.unique(labels)) < 2:
        raise InputError(f"the {name} labels hold a single class; two are needed{remedy}")


def l1_regression(c: float, seed: int = 0) -> LogisticRegression:
    """Return an L1 logistic regression between two classes, yet to be fitted."""
    # l1_ratio=1.0 is the L1 penalty's spelling since scikit-learn 1.8.
    check_version("scikit-learn", "1.8", "an older one fits an L2 penalty instead of L1")
    return LogisticRegression(
        l1_ratio=1.0, solver="liblinear", C=c, random_state=seed, max_iter=MAX_ITERATIONS
    )


def _fit(train: Examples, val: Examples, c: float, seed: int) -> Regression:
    model = OneVsRestClassifier(l1_regression(c, seed))  # one fit for two classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported as `converged`
        model.fit(train.features, train.labels)
    converged = all(int(fit.n_iter_.max()) < MAX_ITERATIONS for fit in model.estimators_)
    val_accuracy = float(model.score(val.features, val.labels))
    coefficients = np.concatenate([fit.coef_ for fit in model.estimators_])
    intercepts = np.concatenate([fit.intercept_ for fit in model.estimators_])
    if len(intercepts) == 1:
        return Regression(c, coefficients[0], float(intercepts[0]), val_accuracy, converged)
    return Regression(c, coefficients, intercepts, val_accuracy, converged)


def find_neuron(regression: Regression, train: Examples, val: Examples, seed: int = 0) -> Neuron:
    """Take the unit of largest weight and regress on it alone, with its own search for C.

    If the penalty zeroed every weight, it is the unit that correlates most with the last class.
    """
    importance = regression.importance()
    if not importance.any():
        importance = np.abs(_correlations(train))
    return regress_on_unit(int(np.argmax(importance)), regression, train, val, seed)


def regress_on_unit(
    index: int, regression: Regression, train: Examples, val: Examples, seed: int = 0
) -> Neuron:
    """Regress on one unit alone, with its own search for C; the polarity is its weight's sign."""
    alone = fit_regression(train.units([index]), val.units([index]), seed)
    sign = regression.positive_weights()[index] or _correlations(train)[index]
    return Neuron(index, 1 if sign > 0 else -1, alone)


def _correlations(examples: Examples) -> np.ndarray:
    centered = examples.features - examples.features.mean(0)
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
