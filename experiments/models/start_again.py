"""Keep the evaluations of the trainings with weight decay, and the AUCs of their units.

python -m experiments.models.start_again runs/decay01 runs/decay005 runs/fall01 runs/mean \\
    --beginning curve.jsonl --data DATA --corpus data/everything

Runs that were measured before, and are not named, stay in the result.

The unit is named as the rule of start_again.selection.json has it: by the last state, on all of
SST's train and val sentences. Of networks, the rule compares the AUC of that unit on val alone.
"""

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from configs import command
from data_utils.corpus import open_corpus
from data_utils.provenance import describe_origin
from experiments.intervals import area_difference
from experiments.models.mean import SCORE
from experiments.models.tables import characters_read
from experiments.neuron.axes import read_sst
from experiments.results import find_result, write_result
from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.scoring import score_split
from mlstm_sentiment.files.shipped import find_model
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.text.split import Split
from training.evaluation import EvaluateConfig
from transfer.neuron.ranking import area_interval
from transfer.unit_auc import per_feature_auc

KEPT = (
    *("step", "characters", "learning_rate", "valid_bits_per_character"),
    *("probe_accuracy", "probe_last_accuracy", "probe_unit", "probe_unit_accuracy"),
)

SHIPPED = "amazon_subword_1024"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write the rows of metrics.jsonl that have an evaluation; characters count from the first."""

    runs: Annotated[tuple[Path, ...], Argument(positional=True)]
    """Run directories; of a mean of weights, only `model/`."""
    beginning: Path | None = None
    """The rows of the training that made the weights from which runs began."""
    data: Path
    """The folder that holds sst/{train,val}.csv."""
    corpus: Path
    """The corpus, on whose valid split means of weights are scored."""


def main() -> None:
    options = command.parse(Options, __doc__)
    result = find_result("models", "start_again") or {"runs": {}, "gains": {}, "shipped": {}}
    shipped = Unit.of(find_model(SHIPPED), options.data)
    units: list[Unit] = []
    starts: list[int] = []
    valid = open_corpus(options.corpus).splits["valid"]
    for run in options.runs:
        provenance = read_json(run / "model" / "config.json")["provenance"]
        before = characters_read(provenance) - provenance["characters"]
        unit = Unit.of(run / "model", options.data)
        starts.append(before)
        units.append(unit)
        measured = {
            "git_revision": provenance["git_revision"],
            "characters": before + provenance["characters"],
            "against": shipped.weights,
            "unit": {**unit.described(), "to_shipped": unit.ahead_of(shipped)},
            "val": {
                **unit.on_val().described(),
                "to_shipped": unit.on_val().ahead_of(shipped.on_val()),
            },
            "bits": provenance.get(SCORE) or bits_of(run / "model", valid),
            "rows": evaluations(run / "metrics.jsonl", before),
            "origin": describe_origin(),
        }
        print(run.name, {**measured, "rows": measured["rows"][-1:]})
        result["runs"][run.name] = measured
    for (begin, first), (end, later) in pairwise(zip(options.runs, units, strict=True)):
        if result["runs"][begin.name]["characters"] < result["runs"][end.name]["characters"]:
            result["gains"][f"{begin.name}, {end.name}"] = later.ahead_of(first)
    if options.beginning is not None:
        begun, rows = min(filter(None, starts), default=0), evaluations(options.beginning, 0)
        result["beginning"] = [row for row in rows if row["characters"] <= begun]
    val, origin = shipped.on_val().described(), describe_origin()
    result["shipped"][shipped.weights] = {**shipped.described(), "val": val, "origin": origin}
    write_result("models", "start_again", result)


def bits_of(model: Path, valid: Split) -> float:
    """Return the bits per character of a model on the valid split, as a training scores it."""
    lanes = EvaluateConfig().lanes
    return score_split(Engine.load(model), valid, lanes=lanes).bits_per_character


@dataclass(frozen=True)
class Unit:
    """The unit of a model that separates SST's train and val sentences best."""

    number: int
    values: np.ndarray  # [N], high for positive sentences
    positive: np.ndarray  # bool [N]
    held_out: int  # sentences of val, at the end
    weights: str  # the beginning of the model's digest

    @classmethod
    def of(cls, model: Path, data: Path) -> "Unit":
        """Read the sentences with a model, and choose its unit."""
        engine, *parts = read_sst(str(model), data)
        states = np.concatenate([part.states for part in parts])
        positive = np.concatenate([part.labels for part in parts]) == 1
        beyond = per_feature_auc(states, positive) - 0.5
        number = int(np.abs(beyond).argmax())
        values = states[:, number] * np.sign(beyond[number])
        return cls(number, values, positive, len(parts[-1].labels), engine.digest()[:8])

    def on_val(self) -> "Unit":
        """Return the same unit on val's sentences alone."""
        rows = slice(-self.held_out, None)
        return replace(self, values=self.values[rows], positive=self.positive[rows])

    def ahead_of(self, other: "Unit") -> dict[str, Any]:
        """Return the AUC less that of another unit, on the same sentences."""
        return area_difference(self.values, other.values, self.positive)

    def described(self) -> dict[str, Any]:
        (area,) = per_feature_auc(self.values[:, None], self.positive)
        interval = area_interval(self.values, self.positive)
        return {"unit": self.number, "area": float(area), "interval": interval}


def evaluations(path: Path, begun: int) -> list[dict[str, Any]]:
    """Return the rows with an evaluation; begun: characters before the first step."""
    if not path.is_file():
        return []
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
