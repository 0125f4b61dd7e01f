"""Ways to fit a linear classifier on features: the penalty, and whether they are standardised."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from transfer.regression import C_GRID, Examples, accuracy_interval, l1_regression

L2_GRID = tuple(4.0**exponent for exponent in range(-8, 2))
MAX_ITERATIONS = 300


@dataclass(frozen=True)
class Way:
    """How to fit."""

    name: str
    penalty: str  # "l1" or "l2"
    standardised: bool  # each feature to mean 0 and variance 1 of the training set

    def candidates(self) -> dict[float, LogisticRegression]:
        """Return a classifier for every strength of the penalty, yet to be fitted."""
        if self.penalty == "l1":
            return {c: l1_regression(c) for c in C_GRID}
        return {c: LogisticRegression(C=c, max_iter=MAX_ITERATIONS) for c in L2_GRID}


WAYS = (
    Way("L1", "l1", standardised=False),  # the published protocol
    Way("L2", "l2", standardised=False),
    Way("L2, standardised", "l2", standardised=True),
)


@dataclass(frozen=True)
class Fit:
    """A classifier whose penalty was chosen on val."""

    c: float
    pipeline: Pipeline
    val_accuracy: float

    def accuracy(self, examples: Examples) -> float:
        """Return the fraction that is classified correctly."""
        return float(self.pipeline.score(examples.features, examples.labels))

    @property
    def used(self) -> int:
        """How many features have a weight that is not zero."""
        return int(np.count_nonzero(self.pipeline[-1].coef_))


def fit_way(way: Way, train: Examples, val: Examples) -> Fit:
    """Fit for every strength of the penalty; return the best on val, of equals the strongest."""
    fits = []
    for c, classifier in way.candidates().items():
        scaler = StandardScaler(with_mean=way.standardised, with_std=way.standardised)
        pipeline = make_pipeline(scaler, classifier)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the published fits stop so, too
            pipeline.fit(train.features, train.labels)
        fits.append(Fit(c, pipeline, float(pipeline.score(val.features, val.labels))))
    return max(fits, key=lambda fit: fit.val_accuracy)


def tested(accuracy: float, texts: int) -> dict[str, Any]:
    """Return a test accuracy with its interval."""
    return {"test_accuracy": accuracy, "test_interval": accuracy_interval(accuracy, texts)}
