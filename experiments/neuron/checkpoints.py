"""Follow the best unit through the checkpoints of a training: its AUC, its values in two texts.

python -m experiments.neuron.checkpoints 8.6:runs/mine/checkpoint/step-00000300 \\
    79:runs/mine/checkpoint/step-00002760 --metrics runs/mine/metrics.jsonl --data DATA \\
    --output docs/notebooks/checkpoints.json
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from configs import command
from data_utils.provenance import describe_origin
from experiments.published_sets import SETS
from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.files.writer import write_json
from mlstm_sentiment.units.unit_traces import read_texts
from transfer.unit_auc import per_unit_auc, per_unit_limit

TEXTS = [
    "The first chapters are boring, but the ending is beautiful and I loved it.",
    "I loved it at first, then it broke. A waste of money.",
]


@dataclass(frozen=True)
class Options:
    """Write the best unit of each checkpoint, and its values after each word of two texts."""

    checkpoints: Annotated[tuple[str, ...], Argument(positional=True)]
    """Millions of characters, a colon, a folder with weights; in order."""
    data: Path
    """The folder that holds sst/{train,val,test}.csv: train chooses the unit, val measures it."""
    metrics: Path
    """The metrics.jsonl of a training with a probe: the most accurate unit at each evaluation."""
    output: Path
    """The JSON file to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    train, val, _ = SETS["sst"].read(options.data).sets
    found = []
    for each in options.checkpoints:
        millions, _, folder = each.partition(":")
        loaded = Engine.load(folder)
        found.append({"million_characters": float(millions), **best_unit(loaded, train, val)})
    result = {"texts": TEXTS, "checkpoints": found, "probe": probed(options.metrics)}
    write_json(options.output, {**result, "origin": describe_origin()}, "a result")


def probed(metrics: Path) -> list[dict[str, Any]]:
    """Return the most accurate unit at each evaluation of a training, and its accuracy on val."""
    rows = map(json.loads, metrics.read_text(encoding="utf-8").splitlines())
    return [
        {
            "million_characters": round(row["characters"] / 1e6, 1),
            "unit": row["probe_unit"],
            "accuracy": round(row["probe_unit_accuracy"], 3),
        }
        for row in rows
        if "probe_unit" in row
    ]


def best_unit(loaded: Engine, train: Any, val: Any) -> dict[str, Any]:
    """Return the unit with the best AUC on train, its AUC on val, and its values after words.

    The values are fractions of the unit's limit on train; high ones are positive.
    """
    learned, held_out = (
        loaded.read(list(part.texts), ("last",), state="cell").features(("last",))
        for part in (train, val)
    )
    areas = per_unit_auc(learned, train.labels, learned.shape[1])
    unit = int(np.abs(areas - 0.5).argmax())
    sign = 1 if areas[unit] > 0.5 else -1
    scale = sign / per_unit_limit(learned[:, [unit]], 1)[0]
    traces = read_texts(loaded, TEXTS, [unit], show_progress=False).traces
    return {
        "unit": unit,
        "auc": round(float(per_unit_auc(sign * held_out[:, [unit]], val.labels, 1)[0]), 3),
        "values": [after_words(trace.text, scale * trace.values[:, 0]) for trace in traces],
    }


def after_words(text: str, values: np.ndarray) -> list[float]:
    """Return the value after the last letter of each word."""
    ends = np.cumsum([len(word) + 1 for word in text.split(" ")]) - 2
    return [round(value, 2) for value in values[ends].tolist()]


if __name__ == "__main__":
    command.run(main)
