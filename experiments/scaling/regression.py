"""Step times from measured runs alone: regression on CM-DARE's features.

Li et al. 2020 (arXiv:2004.03072) predict the seconds of a step from the model's operations and the
GPU's speed; we add the bytes that a rank sends and the number of ranks. The error of such a model
is measured on runs that it has not seen: each run is left out once.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, mean_absolute_percentage_error
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVR

from configs.toml_file import load_config
from model.errors import InputError
from scaling.planner import PlanOptions, read_plan
from scaling.planning import Plan
from scaling.workload import Workload
from training.runs.rows import read_rows

_FEWEST_RUNS = 5
_MOST_LOGARITHM = 100.0  # of predicted seconds: from similar runs, extrapolation may go anywhere
_RELATIVE_TUBE = 0.01  # of SVR, in natural logarithms of seconds: 1 %


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """A measured run: the features for the regression, and its result."""

    operations: float
    """Operations of a step, on one GPU."""
    operations_per_second: float
    """Speed of that GPU: peak or sustained, but the same kind for all runs."""
    bytes: float
    """Bytes that a rank sends in a step."""
    gpus: int
    seconds: float
    """Seconds of a step: what the regression predicts."""

    @property
    def features(self) -> list[float]:
        """Operations over speed (their Model/GPU ratio), bytes, ranks."""
        return [self.operations / self.operations_per_second, self.bytes, float(self.gpus)]


@dataclass(frozen=True)
class RunRegression:
    """A fitted kind of regression and its error on runs left out."""

    kind: str
    mean_absolute_percentage_error: float
    mean_absolute_error_seconds: float
    estimator: Any

    def seconds(self, run: MeasuredRun) -> float:
        """Predict the seconds of a step; `run.seconds` is not used."""
        return float(self.estimator.predict(np.array([run.features]))[0])


LINEAR = "linear"
_KINDS = (LINEAR, "power law", "svr")  # the latter two on logarithms


def regress(runs: Sequence[MeasuredRun]) -> list[RunRegression]:
    """Fit every kind to the runs; the one with the least error first."""
    if len(runs) < _FEWEST_RUNS:
        raise InputError(
            f"{len(runs)} measured runs are too few for a regression; give at least {_FEWEST_RUNS}"
        )
    fitted = [_fit_kind(kind, runs) for kind in _KINDS]
    return sorted(fitted, key=lambda regression: regression.mean_absolute_percentage_error)


def _fit_kind(kind: str, runs: Sequence[MeasuredRun]) -> RunRegression:
    """Fit one kind, and find its error with every run left out once."""
    estimator = _make_estimator(kind)
    features = np.array([run.features for run in runs])
    seconds = np.array([run.seconds for run in runs])
    left_out = cross_val_predict(estimator, features, seconds, cv=LeaveOneOut())
    return RunRegression(
        kind,
        mean_absolute_percentage_error(seconds, left_out),
        mean_absolute_error(seconds, left_out),
        estimator.fit(features, seconds),
    )


def _make_estimator(kind: str) -> Any:
    """Return an unfitted estimator of seconds from the features of runs, [runs, 3].

    For their SVR, Li et al. used C from 10 to 100 and radial basis functions.
    """
    if kind == LINEAR:
        return make_pipeline(StandardScaler(), LinearRegression())
    last = SVR(C=100, epsilon=_RELATIVE_TUBE) if kind == "svr" else LinearRegression()
    steps = make_pipeline(FunctionTransformer(_logarithms), StandardScaler(), last)
    return TransformedTargetRegressor(steps, func=np.log, inverse_func=_exponentials)


def _logarithms(features: np.ndarray) -> np.ndarray:
    """Return the logarithms of features [runs, 3]; a rank alone sends 0 bytes, which count as 1."""
    ratio, size, gpus = features.T
    return np.stack([np.log(ratio), np.log1p(size), np.log(gpus)], axis=1)


def _exponentials(values: np.ndarray) -> np.ndarray:
    """Return the exponentials, clipped so that even huge logarithms give finite ones."""
    return np.asarray(np.exp(np.clip(values, -_MOST_LOGARITHM, _MOST_LOGARITHM)))


def predict_step(options: PlanOptions, folders: Sequence[Path]) -> dict[str, Any]:
    """Return predictions of a planned step from run directories, and their errors on each other.

    The runs are assumed to have used the cluster's first kind of GPU.
    """
    planned = planned_run(read_plan(options))
    runs = [measured_run(folder, planned.operations_per_second) for folder in folders]
    kinds = {
        kind.kind: {
            "step_seconds": kind.seconds(planned),
            "mean_absolute_percentage_error": kind.mean_absolute_percentage_error,
            "mean_absolute_error_seconds": kind.mean_absolute_error_seconds,
        }
        for kind in regress(runs)
    }
    columns = zip(*(run.features for run in runs), strict=True)
    names = ("operations_over_speed", "bytes", "gpus")
    beyond = [
        name
        for name, value, column in zip(names, planned.features, columns, strict=True)
        if not min(column) <= value <= max(column)
    ]
    return {"runs": len(runs), "outside_of_what_was_measured": beyond, "kinds": kinds}


def lines(prediction: Mapping[str, Any]) -> list[str]:
    """Return the predictions as lines for people."""
    beyond = ", ".join(prediction["outside_of_what_was_measured"])
    return [
        *(
            f"  by {kind:<15}{facts['step_seconds']:.3f} s per step; leave-one-out error "
            f"{facts['mean_absolute_percentage_error']:.0%}"
            for kind, facts in prediction["kinds"].items()
        ),
        *([f"  beyond what was measured in {beyond}"] if beyond else []),
    ]


def planned_run(plan: Plan) -> MeasuredRun:
    """Return a planned step, with the performance model's seconds."""
    tokens = plan.lanes / plan.gpus * plan.run.data.window * plan.how.windows
    sent = plan.how.bytes_per_parameter * plan.workload.parameters
    return MeasuredRun(
        operations=plan.workload.operations_per_token * tokens,
        operations_per_second=plan.pools[0].node.operations_per_second,
        bytes=2 * (plan.gpus - 1) / plan.gpus * sent,
        gpus=plan.gpus,
        seconds=plan.step.seconds * plan.how.windows,
    )


def measured_run(folder: Path, operations_per_second: float) -> MeasuredRun:
    """Return the median step of a run directory, without its first row of metrics, the warm-up.

    Characters are counted, since a token may stand for several. Raises InputError if the rows do
    not show a step.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such run directory")
    config, metrics = load_config(folder / "config.toml"), folder / "metrics.jsonl"
    rows = read_rows(metrics)
    if len(rows) < 2 or config.data.lanes is None:
        raise InputError(f"{folder}: too few rows of metrics to measure a step; train longer")
    try:
        gpus = len(rows[-1].get("rank_characters_per_second") or [None])
        sent = statistics.median(row.get("sent_bytes", 0.0) for row in rows[1:])
        seconds = statistics.median(
            (row["characters"] - before["characters"])
            / (row["step"] - before["step"])
            / row["characters_per_second"]
            for before, row in pairwise(rows)
        )
    except (KeyError, TypeError, ArithmeticError) as error:
        raise InputError(f"{metrics}: a row has no speed ({error!r}); remove it") from error
    if not (0 < seconds < math.inf and 0 <= sent < math.inf):
        raise InputError(f"{metrics}: impossible steps of {seconds:g} s that send {sent:g} bytes")
    tokens = config.data.lanes * config.data.window * config.parallel.windows_per_step
    return MeasuredRun(
        operations=Workload.of(config.model).operations_per_token * tokens / gpus,
        operations_per_second=operations_per_second,
        bytes=sent,
        gpus=gpus,
        seconds=seconds,
    )
