"""Step times from measured runs alone: regression on CM-DARE's features.

Li et al. 2020 (arXiv:2004.03072) predict the seconds of a step from the model's operations and the
GPU's speed; we add the bytes that a rank sends and the number of ranks. The error of such a model
is measured on runs that it has not seen: each run is left out once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from model.errors import InputError

FEWEST_RUNS = 5
MOST_LOGARITHM = 100.0  # of predicted seconds: runs that hardly differ extrapolate to anything
RELATIVE_TUBE = 0.01  # of SVR, in natural logarithms of seconds: 1 %


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """A measured run: the features for the regression, and its result."""

    operations: float
    """Of a step, on one GPU."""
    operations_per_second: float
    """Of that GPU: its peak or what it sustains, in the same way for all runs."""
    bytes: float
    """That a rank sends in a step."""
    gpus: int
    seconds: float
    """Seconds of a step: what the regression predicts."""

    @property
    def features(self) -> list[float]:
        """Operations over speed (their Model/GPU ratio), bytes, ranks."""
        return [self.operations / self.operations_per_second, self.bytes, float(self.gpus)]

    @property
    def logarithms(self) -> list[float]:
        """The same for kinds that work on logarithms; a rank alone sends nothing."""
        ratio, size, gpus = self.features
        return [math.log(ratio), math.log1p(size), math.log(gpus)]


@dataclass(frozen=True)
class RunRegression:
    """A fitted kind of regression and its error on runs left out."""

    kind: str
    mean_absolute_percentage_error: float
    mean_absolute_error_seconds: float
    estimator: Any

    def seconds(self, run: MeasuredRun) -> float:
        """Predict the seconds of a step; `run.seconds` is not used."""
        number = float(self.estimator.predict(inputs(self.kind, [run]))[0])
        return number if self.kind == LINEAR else float(seconds_of(number))


LINEAR = "linear"
KINDS = (LINEAR, "power law", "svr")  # the latter two on logarithms


def regress(runs: Sequence[MeasuredRun]) -> list[RunRegression]:
    """Fit every kind to the runs; the one with the least error first."""
    if len(runs) < FEWEST_RUNS:
        raise InputError(
            f"{len(runs)} measured runs are too few for a regression; give at least {FEWEST_RUNS}"
        )
    fitted = [fit_kind(kind, runs) for kind in KINDS]
    return sorted(fitted, key=lambda regression: regression.mean_absolute_percentage_error)


def fit_kind(kind: str, runs: Sequence[MeasuredRun]) -> RunRegression:
    """Fit one kind, and find its error with every run left out once."""
    estimator, x = make_estimator(kind), inputs(kind, runs)
    seconds = np.array([run.seconds for run in runs])
    targets = seconds if kind == LINEAR else np.log(seconds)
    left_out = cross_val_predict(estimator, x, targets, cv=LeaveOneOut())
    left_out = left_out if kind == LINEAR else seconds_of(left_out)
    return RunRegression(
        kind,
        float(np.mean(np.abs(left_out / seconds - 1))),
        float(np.mean(np.abs(left_out - seconds))),
        estimator.fit(x, targets),
    )


def seconds_of(logarithms: Any) -> np.ndarray:
    """Return the exponentials, which are finite also where the logarithms are huge."""
    return np.exp(np.clip(logarithms, -MOST_LOGARITHM, MOST_LOGARITHM))


def inputs(kind: str, runs: Sequence[MeasuredRun]) -> np.ndarray:
    """Return what a kind is fitted to, [runs, 3]."""
    return np.array([run.features if kind == LINEAR else run.logarithms for run in runs])


def make_estimator(kind: str) -> Any:
    """Return an unfitted estimator: theirs had C from 10 to 100, radial basis functions."""
    last = SVR(C=100, epsilon=RELATIVE_TUBE) if kind == "svr" else LinearRegression()
    return make_pipeline(StandardScaler(), last)
