"""Fit the performance model to a measured sweep, and show its errors.

python -m experiments.scaling.measured --sweep runs/sweep --output runs/sweep_fit.json
"""

from dataclasses import dataclass
from pathlib import Path

from configs import command
from data_utils.provenance import describe_origin
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_json

from .measuring.explanation import Observation, SweepModel
from .measuring.report import describe, tables
from .measuring.results import read_sweep


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fit the parameters that the points of a sweep determine."""

    sweep: Path
    """The folder of points that experiments.scaling.sweep wrote."""
    output: Path | None = None
    """JSON file for the result."""


def main() -> None:
    explain(command.parse(Options, __doc__))


def explain(options: Options) -> None:
    """Fit the model to a sweep; print its tables, and write them where asked."""
    command.prepare_output(options.output)
    results = read_sweep(options.sweep)
    measured = [result for result in results if result["summary"] is not None]
    if not measured:
        raise InputError(f"{options.sweep}: all points failed; see `failure` in their files")
    if any(result["settings"] != results[0]["settings"] for result in results):
        raise InputError(
            f"{options.sweep}: points have different settings; fit them in separate folders"
        )
    observations = [Observation.of(result) for result in measured]
    model = SweepModel(observations)
    result = describe(model, model.fit(), measured)
    print(tables(result))
    if options.output is not None:
        values = {key: str(value) for key, value in vars(options).items()}
        result = {**result, "options": values, "origin": describe_origin()}
        write_json(options.output, result, "a result")


if __name__ == "__main__":
    command.run(main)
