"""Predicts a planned step from measured runs alone, beside the performance model."""

from typing import Any

from ..planning import Plan
from .regression import MeasuredRun, RunRegression


def regression_answers(
    plan: Plan, runs: list[MeasuredRun], fitted: list[RunRegression]
) -> dict[str, Any]:
    """Return predictions of the step from measured runs, with their errors on each other."""
    pool = plan.pools[0]
    sent = plan.job.how.bytes_per_parameter * plan.workload.parameters
    wanted = MeasuredRun(
        operations=plan.workload.operations_per_token
        * plan.job.tokens_per_gpu
        * plan.job.how.windows,  # measured runs are of whole steps
        operations_per_second=pool.node.operations_per_second,
        bytes=2 * (plan.job.gpus - 1) / plan.job.gpus * sent,
        gpus=plan.job.gpus,
        seconds=plan.timing.step.seconds,
    )
    names = ("operations_over_speed", "bytes", "gpus")
    seen = [run.features for run in runs]
    beyond = [
        name
        for name, value, column in zip(names, wanted.features, zip(*seen, strict=True), strict=True)
        if not min(column) <= value <= max(column)
    ]
    return {
        "runs": len(runs),
        "outside_of_what_was_measured": beyond,
        "kinds": {
            kind.kind: {
                "step_seconds": kind.seconds(wanted),
                "mean_absolute_percentage_error": kind.mean_absolute_percentage_error,
                "mean_absolute_error_seconds": kind.mean_absolute_error_seconds,
            }
            for kind in fitted
        },
    }
