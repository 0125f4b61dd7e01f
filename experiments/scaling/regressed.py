"""What regression alone foretells of step times, from the repository's measured recurrences.

python -m experiments.scaling.regressed --output experiments/scaling/results/regressed.json
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.tables import markdown
from model.files.storage import read_json, write_json
from scaling.fitting.regression import MeasuredRun, regress
from scaling.workload import FORWARD_AND_BACKWARD

from .tables import keep_tables

MEASURED = Path(__file__).resolve().parent.parent / "recurrence" / "results"
OPERATIONS_PER_SECOND = 300e9  # of the two cores in fp32, as measured there for large products


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fit the regressions to training's recurrences in fp32, of all sizes that were measured."""

    measured: Path = MEASURED
    """The folder that experiments/recurrence wrote."""
    runs: Path | None = None
    """JSON list of the runs, as scripts/plan.py takes it."""
    output: Path | None = None
    """JSON file for the result."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    runs = runs_of(options.measured)
    kinds = [
        {
            "kind": fitted.kind,
            "mean_absolute_percentage_error": fitted.mean_absolute_percentage_error,
            "mean_absolute_error_seconds": fitted.mean_absolute_error_seconds,
        }
        for fitted in regress(runs)
    ]
    print(table(kinds))
    if options.output is not None:
        listed = [asdict(run) for run in runs]
        write_json(options.output, {"kinds": kinds, "runs": listed, "origin": describe_origin()})
        keep_tables(options.output, table(kinds))


def runs_of(folder: Path) -> list[MeasuredRun]:
    """Return the measured recurrences, forward and backward in fp32, as runs of a single rank."""
    results = [read_json(path) for path in sorted(folder.glob("*.json"))]
    return [run_of(result) for result in results if is_training_in_fp32(result)]


def is_training_in_fp32(result: dict[str, Any]) -> bool:
    """Say whether a result is of the kind that is fitted."""
    options = result["options"]  # a whole step's have no `inference`
    return options.get("inference") is False and options["dtype"] == "fp32"


def run_of(result: dict[str, Any]) -> MeasuredRun:
    """Return a measured recurrence as a run: its own products, nothing sent."""
    options = result["options"]
    H, tokens = options["hidden_size"], options["batch"] * options["window"]
    return MeasuredRun(
        operations=FORWARD_AND_BACKWARD * 5 * H * H * tokens,
        operations_per_second=OPERATIONS_PER_SECOND,
        bytes=0.0,
        gpus=1,
        seconds=tokens / result["chars_per_second"]["fused"],
    )


def table(kinds: Sequence[dict[str, Any]]) -> str:
    """Return each kind's errors."""
    return markdown(["left out one by one", "MAPE", "MAE, s"], [cells(kind) for kind in kinds])


def cells(kind: dict[str, Any]) -> list[str]:
    """Return a line of the table."""
    return [
        kind["kind"],
        f"{kind['mean_absolute_percentage_error']:.0%}",
        f"{kind['mean_absolute_error_seconds']:.3f}",
    ]


if __name__ == "__main__":
    command.run(main)
