"""Keep the evaluations of the trainings with weight decay.

python -m experiments.models.start_again runs/decay01 runs/decay005 runs/fall01 \\
    --beginning curve.jsonl
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.results import write_result
from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.files.storage import read_json

KEPT = (
    *("step", "characters", "learning_rate", "valid_bits_per_character"),
    *("probe_accuracy", "probe_last_accuracy", "probe_unit", "probe_unit_accuracy"),
)


@dataclass(frozen=True)
class Options:
    """Write the rows of metrics.jsonl that have an evaluation; characters count from the first."""

    runs: Annotated[tuple[Path, ...], Argument(positional=True)]
    """Run directories that began from the same weights."""
    beginning: Path
    """The rows of the training that made those weights."""


def main() -> None:
    options = command.parse(Options, __doc__)
    runs: dict[str, Any] = {}
    for run in options.runs:
        provenance = read_json(run / "model" / "config.json")["provenance"]
        begun = provenance["began_from"]["characters"]
        runs[run.name] = {
            "git_revision": provenance["git_revision"],
            "rows": evaluations(run / "metrics.jsonl", begun),
        }
    first = [row for row in evaluations(options.beginning, 0) if row["characters"] <= begun]
    write_result(
        "models",
        "start_again",
        {"beginning": first, "runs": runs, "origin": describe_origin()},
    )


def evaluations(path: Path, begun: int) -> list[dict[str, Any]]:
    """Return the rows with an evaluation; begun: characters before the first step."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        {
            **{name: round(row[name], 6) for name in KEPT if name in row},
            "characters": row["characters"] + begun,
        }
        for row in rows
        if "valid_bits_per_character" in row
    ]


if __name__ == "__main__":
    command.run(main)
