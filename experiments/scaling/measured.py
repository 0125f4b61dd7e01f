"""Fit the performance model to a measured sweep, and show its errors.

python -m experiments.scaling.measured --sweep runs/sweep --output runs/sweep_fit.json \\
    --figure runs/sweep_fit.png
"""

from dataclasses import dataclass
from pathlib import Path

from configs import command
from data_utils.provenance import describe_origin
from model.bounds import PositiveFloat
from model.errors import InputError
from model.files.storage import write_json

from .measuring.explanation import Observation, SweepModel
from .measuring.report import describe, tables
from .measuring.results import read_sweep


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fit the parameters that the points of a sweep determine."""

    sweep: Path
    """The folder of points that experiments.scaling.sweep wrote."""
    link_bandwidth: PositiveFloat | None = None
    """Bytes per second of a large all-reduce within a node, such as the bus bandwidth of
    nccl-tests; absent, it is fitted."""
    network_bandwidth: PositiveFloat | None = None
    """The same for several nodes."""
    output: Path | None = None
    """JSON file for the result."""
    figure: Path | None = None
    """PNG to draw."""


def main() -> None:
    explain(command.parse(Options, __doc__))


def explain(options: Options) -> None:
    """Fit the model to a sweep; print its tables, and write and draw them where asked."""
    command.prepare_output(options.output, options.figure)
    results = read_sweep(options.sweep)
    measured = [result for result in results if result["summary"] is not None]
    if not measured:
        raise InputError(f"{options.sweep}: all points failed; see `failure` in their files")
    if any(result["settings"] != results[0]["settings"] for result in results):
        raise InputError(
            f"{options.sweep}: points have different settings; fit them in separate folders"
        )
    observations = [Observation.of(result) for result in measured]
    model = SweepModel(observations, link=options.link_bandwidth, network=options.network_bandwidth)
    result = describe(model, model.fit(), measured)
    print(tables(result))
    if options.figure is not None:
        from .measuring.figure import draw  # with matplotlib: a second

        draw(options.figure, result["points"])
    if options.output is not None:
        given = {key: str(value) for key, value in vars(options).items()}
        write_json(options.output, {**result, "options": given, "origin": describe_origin()})


if __name__ == "__main__":
    command.run(main)
