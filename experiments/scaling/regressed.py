"""Predict step times by regression alone, from the recurrences that this repository measured.

python -m experiments.scaling.regressed --output experiments/scaling/results/regressed.json
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.tables import markdown
from model.files.storage import read_json, write_json
from scaling.regression import MeasuredRun, regress
from scaling.workload import FORWARD_AND_BACKWARD

MEASURED = Path(__file__).resolve().parent.parent / "recurrence" / "results"
OPERATIONS_PER_SECOND = 300e9  # of two cores in fp32, measured on large matrix products


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fit the regressions to the training recurrences in fp32, one for each measured size."""

    output: Path | None = None
    """JSON file for the result."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    runs = runs_of(MEASURED)
    kinds = [
        {
            "kind": fitted.kind,
            "mean_absolute_percentage_error": fitted.mean_absolute_percentage_error,
            "mean_absolute_error_seconds": fitted.mean_absolute_error_seconds,
        }
        for fitted in regress(runs)
    ]
    listed = [asdict(run) for run in runs]
    result = {"kinds": kinds, "runs": listed, "origin": describe_origin()}
    print(tables(result))
    if options.output is not None:
        write_json(options.output, result)


def runs_of(folder: Path) -> list[MeasuredRun]:
    """Return the measured forward and backward passes in fp32 as runs of a single rank."""
    results = [read_json(path) for path in sorted(folder.glob("*.json"))]
    wanted = {"inference": False, "dtype": "fp32"}  # a result of a whole step has no `inference`
    return [run_of(r) for r in results if wanted.items() <= r.get("options", {}).items()]


def run_of(result: dict[str, Any]) -> MeasuredRun:
    """Return a measured recurrence as a run that sends nothing."""
    options = result["options"]
    H, tokens = options["hidden_size"], options["batch"] * options["window"]
    return MeasuredRun(
        operations=FORWARD_AND_BACKWARD * 5 * H * H * tokens,
        operations_per_second=OPERATIONS_PER_SECOND,
        bytes=0.0,
        gpus=1,
        seconds=tokens / result["chars_per_second"]["fused"],
    )


def tables(result: Mapping[str, Any]) -> str:
    """Return the errors of each kind of regression."""
    rows = [
        [
            kind["kind"],
            f"{kind['mean_absolute_percentage_error']:.0%}",
            f"{kind['mean_absolute_error_seconds']:.3f}",
        ]
        for kind in result["kinds"]
    ]
    return markdown(["left out one by one", "MAPE", "MAE, s"], rows)


if __name__ == "__main__":
    command.run(main)
