"""Measure the accuracy on SST's validation set at the checkpoints of a run.

python -m experiments.shipped.probe runs/amazon_1024 --train sst/train.csv --val sst/val.csv \\
    --output experiments/shipped/results/curve.json --follow
"""

import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from configs import command
from data_utils.labelled import LabelledSet, read_labelled_sets
from data_utils.provenance import describe_origin
from model.errors import InputError
from model.files.storage import read_json, step_folders, write_json
from model.files.weights import load_model
from training.checkpoint import TRAINING_FILE
from training.metrics import read_rows
from transfer.experiment import fit_transfer
from transfer.features import FeatureCache

REMOVAL_SECONDS = 2.0  # longest time in which a run removes a checkpoint


@dataclass(frozen=True)
class Options:
    """Score the checkpoints of a run that have no score yet; the test set is never read."""

    run: Annotated[Path, tyro.conf.Positional]
    """The directory of a run, which may still be training."""
    train: Path
    """Labelled texts for fitting."""
    val: Path
    """Labelled texts for scoring."""
    output: Path
    """The JSON file of points; an existing file is continued."""
    apart: int = 5_000_000
    """Fewest characters between two points."""
    follow: bool = False
    """Wait for more checkpoints until interrupted."""


def main() -> None:
    options = command.parse(Options, __doc__)
    sets = read_labelled_sets([options.train, options.val])
    while True:
        add_points(options.run / "checkpoint", sets, options)
        if not options.follow:
            return
        time.sleep(60)


def add_points(folder: Path, sets: list[LabelledSet], options: Options) -> None:
    """Score the checkpoints of a run, which may meanwhile add and remove checkpoints."""
    last = ""
    while later := [path for path in step_folders(folder) if path.name > last]:
        last = later[0].name
        try:
            add_point(later[0], sets, options)
        except (InputError, OSError):
            time.sleep(REMOVAL_SECONDS)
            if later[0].exists():
                raise  # the run has not removed it, so the error is real


def add_point(checkpoint: Path, sets: list[LabelledSet], options: Options) -> None:
    """Score one checkpoint and write the point, unless the last point is too near."""
    points = read_json(options.output)["points"] if options.output.exists() else []
    characters = read_json(checkpoint / TRAINING_FILE)["progress"]["characters"]
    if points and characters < points[-1]["characters"] + options.apart:
        return
    point = {
        "characters": characters,
        **bits_at(options.run, characters),
        **score(checkpoint, sets),
    }
    print(point, flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_json(options.output, {"points": [*points, point], "origin": describe_origin()})


def bits_at(run: Path, characters: int) -> dict[str, float]:
    """Return the last bits per character before so many characters."""
    bits = {}
    for row in read_rows(run / "metrics.jsonl"):
        for key in ("train_bits_per_character", "valid_bits_per_character"):
            if key in row and row["characters"] <= characters:
                bits[key] = row[key]
    return bits


def score(checkpoint: Path, sets: list[LabelledSet]) -> dict[str, Any]:
    """Return the accuracies on val of all units and of the top unit alone."""
    loaded = load_model(checkpoint, compute_dtype=torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        transfer = fit_transfer(loaded, sets, FeatureCache(Path(folder)))
    return {
        "val_accuracy": transfer.regression.val_accuracy,
        "neuron_val_accuracy": transfer.neuron.regression.val_accuracy,
        "neuron": transfer.neuron.index,
        "nonzero": int((transfer.regression.coefficients != 0).sum()),
        "standard_error": math.sqrt(0.25 / len(sets[1].labels)),
    }


if __name__ == "__main__":
    command.run(main)
