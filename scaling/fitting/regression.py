"""Step times from measured runs alone: regression on CM-DARE's features.

Li et al. 2020 (arXiv:2004.03072) predict the seconds of a step from the model's operations and the
GPU's speed; we add the bytes that a rank sends and the number of ranks. The error of such a model
is measured on runs that it has not seen: each run is left out once.
"""

import json
import math
import reprlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from configs.toml_file import load_config
from model.bounds import Bound
from model.errors import InputError
from training.metrics import read_rows

from ..workload import Workload

FEWEST_RUNS = 5
LIMITS = {  # of the numbers of a run, far beyond any that was measured
    "operations": Bound(min=1, max=1e30),
    "operations_per_second": Bound(min=1, max=1e30),
    "bytes": Bound(min=0, max=1e18),
    "gpus": Bound(min=1, max=1e15),
    "seconds": Bound(min=1e-9, max=1e9),
}
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


def read_runs(path: Path, operations_per_second: float) -> list[MeasuredRun]:
    """Read measured runs: a run directory, or a JSON list of objects with MeasuredRun's keys.

    operations_per_second: of the GPUs, where a run directory does not say.
    """
    if path.is_dir():
        return [run_of_directory(path, operations_per_second)]
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file or run directory") from error
    except (ValueError, RecursionError) as error:  # also a number of 5,000 digits, deep nesting
        raise InputError(f"{path}: not JSON ({error})") from error
    if not isinstance(rows, list):
        raise InputError(f"{path}: expected a list of runs, found {type(rows).__name__}")
    return [run_of_row(row, f"{path}, run {number}") for number, row in enumerate(rows)]


def run_of_row(row: Any, place: str) -> MeasuredRun:
    """Check an object's keys and numbers."""
    names = [item.name for item in fields(MeasuredRun)]
    if not isinstance(row, dict) or set(row) != set(names):
        raise InputError(f"{place}: expected an object with {', '.join(names)}")
    for name, value in row.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not LIMITS[name].admits(value):
            said = reprlib.repr(value)
            raise InputError(f"{place}: {name} is {said}; it must be a number, {LIMITS[name]}")
    return MeasuredRun(**row)


def run_of_directory(path: Path, operations_per_second: float) -> MeasuredRun:
    """Return the median over the rows of metrics without the first, which includes preparations."""
    config, metrics = load_config(path / "config.toml"), path / "metrics.jsonl"
    first, *rows = read_rows(metrics) or [{}]
    if not rows or config.data.lanes is None:
        raise InputError(f"{path}: too few rows of metrics to measure a step; train longer")
    try:
        gpus = len(rows[-1].get("rank_characters_per_second") or [None])
        seconds = statistics.median(map(seconds_of_a_step, [first, *rows], rows))
        sent_bytes = statistics.median(row.get("sent_bytes", 0.0) for row in rows)
    except (KeyError, TypeError, ArithmeticError) as error:
        raise InputError(f"{metrics}: a row has no speed ({error!r}); remove it") from error
    tokens = config.data.lanes * config.data.window * config.parallel.windows_per_step
    measured = MeasuredRun(
        operations=Workload.of(config.model).operations_per_token * tokens / gpus,
        operations_per_second=operations_per_second,
        bytes=sent_bytes,
        gpus=gpus,
        seconds=seconds,
    )
    return run_of_row(vars(measured), str(path))


def seconds_of_a_step(before: dict[str, Any], row: dict[str, Any]) -> float:
    """Return the mean between two rows of metrics.

    Characters are counted, since a token may stand for several of them.
    """
    characters = row["characters"] - before["characters"]
    return characters / (row["step"] - before["step"]) / row["characters_per_second"]
