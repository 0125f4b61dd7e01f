"""Make a model ready to travel: 8-bit weights, and a classifier fitted on what they compute.

python -m experiments.shipped.ship runs/amazon_1024 --name amazon_1024 \\
    --train sst/train.csv --val sst/val.csv
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from configs import command
from data_utils.labelled import read_labelled_sets
from model.classifier import FOLDER, save_classifier
from model.errors import InputError
from model.weights import SHIPPED_MODELS, WEIGHTS_FILE, load_model, save_model
from transfer.experiment import as_classifier, fit_transfer
from transfer.features import FeatureCache

LARGEST = 24 * 2**20  # bytes that a model may add to the repository


@dataclass(frozen=True)
class Options:
    """Write model/pretrained/NAME: weights, description, classifier; its card is made by hand."""

    model: Annotated[str, tyro.conf.Positional]
    """A model directory or a run directory."""
    name: str
    """What users will call it."""
    train: Path
    """Labelled texts to fit the classifier on."""
    val: Path
    """Labelled texts to choose C and the threshold on."""
    work: Path = Path("runs/shipped")
    """Where features are kept."""


def main() -> None:
    options = command.parse(Options, __doc__)
    full = load_model(options.model, compute_dtype=torch.float32)
    folder = SHIPPED_MODELS / options.name
    save_model(
        folder,
        full.model,
        full.profile,
        full.provenance,
        tokenizer=full.tokenizer,
        quantized=True,
    )
    size = (folder / WEIGHTS_FILE).stat().st_size
    if size > LARGEST:
        shutil.rmtree(folder)
        raise InputError(
            f"{options.model}: {size:,} bytes in 8 bits; at most {LARGEST:,} are shipped"
        )
    shipped = load_model(folder, compute_dtype=torch.float32)
    sets = read_labelled_sets([options.train, options.val])
    transfer = fit_transfer(shipped, sets, FeatureCache(options.work))
    classifier = as_classifier(transfer, shipped, sets[0].classes)
    save_classifier(folder / FOLDER, classifier)
    print(
        f"{folder}: {size:,} bytes; val accuracy {transfer.regression.val_accuracy:.4f}, "
        f"unit {classifier.neuron}, threshold {classifier.threshold:.3f}"
    )


if __name__ == "__main__":
    command.run(main)
