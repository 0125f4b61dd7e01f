"""Prepare a model for shipping: weights in few bits, and a classifier fitted to their features.

python -m experiments.models.ship runs/amazon_1024 --name amazon_1024 \\
    --train sst/train.csv --val sst/val.csv --classes negative positive
"""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import torch

from configs import command
from data_utils.labelled import read_labelled_sets
from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import SHIPPED_MODELS, WEIGHTS_FILE
from mlstm_sentiment.head.head import Head, HeadUnit
from mlstm_sentiment.head.head_files import CHANCE, FOLDER
from mlstm_sentiment.text.tokenizer import BYTES
from model.inference.weights import load_model, save_model
from transfer.experiment import as_classifier, save_transferred
from transfer.features import FeatureCache
from transfer.regression import Examples, Transfer
from transfer.unit_auc import per_feature_auc

LARGEST = 24 * 2**20  # most bytes that a model may add to the repository
DECODER_BITS = 6  # at most, of a large vocabulary's decoder: no state depends on it
LICENCE = "LICENSE"  # the licence of the weights; each model has a copy


@dataclass(frozen=True)
class Options:
    """Write weights, licence, description and classifier to mlstm_sentiment/pretrained/NAME."""

    model: Annotated[str, Argument(positional=True)]
    """A model directory or a run directory."""
    name: str
    """Name of the shipped model."""
    train: Path
    """Labelled texts for fitting the classifier."""
    val: Path
    """Labelled texts for choosing C and the threshold."""
    classes: tuple[str, str] | None = None
    """Names of the two labels, the negative one first. Default: as in the texts."""
    bits: Literal[8, 6, 5] = 8
    """Bits of each matrix weight; those of a vocabulary's decoder have 6 at most."""
    neuron: int | None = None
    """The classifier's sentiment unit. Default: the unit with the largest weight."""
    work: Path = Path("runs/shipped")
    """Folder where features are kept."""
    output: Path = SHIPPED_MODELS
    """The folder of shipped models."""


def main() -> None:
    options = command.parse(Options, __doc__)
    options.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.work) as workplace:
        folder = Path(workplace) / options.name
        size = write_quantized(options.model, folder, options.bits)
        shipped = Engine.load(folder)  # whose features the classifier will get
        if options.neuron is not None:
            shipped.architecture.check_unit(options.neuron, -1)
        sets = read_labelled_sets([options.train, options.val])
        transfer = Transfer.fitted(FeatureCache(options.work).examples(shipped, sets))
        classes = options.classes or sets[0].classes
        classifier, _ = as_classifier(transfer, classes, shipped.digest())
        if options.neuron is not None:
            classifier = with_neuron(classifier, options.neuron, transfer.examples[0])
        save_transferred(folder / FOLDER, classifier, transfer, sets)
        shutil.copy(SHIPPED_MODELS / LICENCE, folder)
        place = options.output / options.name
        shutil.copytree(folder, place, dirs_exist_ok=True)  # an existing card stays
    print(
        f"{place}: {size:,} bytes; val accuracy {transfer.regression.val_accuracy:.4f}, "
        f"unit {classifier.neuron}, threshold {classifier.threshold:.3f}"
    )


def with_neuron(classifier: Head, unit: int, train: Examples) -> Head:
    """Set another sentiment unit; train decides whether it is high for the last class."""
    last = len(classifier.classes) - 1
    (area,) = per_feature_auc(train.features[:, [unit]], train.labels == last)
    return replace(classifier, unit=HeadUnit(unit, 1 if area > CHANCE else -1))


def write_quantized(model: str, folder: Path, bits: int = 8) -> int:
    """Write a model's weights in few bits; return their size in bytes, or refuse a large model."""
    full = load_model(model, compute_dtype=torch.float32)
    decoder_bits = bits if full.tokenizer.kind == BYTES.kind else min(bits, DECODER_BITS)
    save_model(
        folder, full.model, full.profile, full.provenance,
        tokenizer=full.tokenizer, quantized=True, bits=bits, decoder_bits=decoder_bits,
    )  # fmt: skip
    size = (folder / WEIGHTS_FILE).stat().st_size
    if size > LARGEST:
        raise InputError(f"{model}: {size:,} bytes in {bits} bits; at most {LARGEST:,} are shipped")
    return size


if __name__ == "__main__":
    command.run(main)
