"""Prepare the default model for shipping: weights in 8 bits, and a calibrated head.

python -m experiments.default_model.ship runs/default/step-00002251 --texts data/default \\
    --name stars_1024
"""

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight

from configs import command
from data_utils.provenance import describe_origin
from experiments.default_model.fit_ngrams import DESCRIPTION, as_read
from experiments.default_model.methods import accuracy_by_source, sided, sides_of
from experiments.default_model.sentences.examples import Example, read_examples
from experiments.default_model.train import head_of
from experiments.models.ship import LICENCE, write_quantized
from model.bounds import Argument
from model.classifiers.classifier import FOLDER, UNSURE, Familiarity
from model.classifiers.heads import HeadsConfig, build_heads
from model.classifiers.ngrams import BagOfNgrams, load_ngrams
from model.classifiers.stars import (
    FEATURES,
    STARS,
    Calibration,
    StarsClassifier,
    positive_log_odds,
    save_stars,
)
from model.errors import InputError
from model.files.shipped import SHIPPED_MODELS
from model.files.storage import read_json, write_json
from model.files.weights import LoadedModel, find_model, load_model, load_tensors, model_digest
from model.inference.features import ModelOutput, read_in_order

CALIBRATED_ON = ("sst", "imdb", "amazon")  # each has the same weight
WEIGHTED_ON = (*CALIBRATED_ON, "titles", "everyday")  # the bag of n-grams, against the head
LONG = 100  # bytes; in longer texts bits per byte hardly depend on the length
ADMITTED = 0.99  # part of the familiar texts that must be called familiar
WIDTHS = np.arange(0.05, 0.41, 0.01)  # distances from a half within which a text may be unsure


@dataclass(frozen=True)
class Options:
    """Write weights, licence, description and classifier to model/pretrained/NAME."""

    model: Annotated[str, Argument(positional=True)]
    """The folder of a step of experiments.default_model.train, or the name of a shipped model with
    such a head."""
    texts: Path
    """The folder of texts; its val.jsonl determines calibration and limits."""
    name: str
    """Name of the shipped model."""
    ngrams: Path | None = None
    """The folder that experiments.default_model.fit_ngrams wrote; absent, the model alone."""
    output: Path = SHIPPED_MODELS
    """The folder of shipped models."""
    report: Path | None = None
    """A file for the origin of the classifier, with its accuracies on val."""


def main() -> None:
    options = command.parse(Options, __doc__)
    val = read_examples(options.texts / "val.jsonl")
    with tempfile.TemporaryDirectory() as workplace:
        folder = Path(workplace) / options.name
        size = write_quantized(options.model, folder)
        shipped = load_model(folder, compute_dtype=torch.float32)
        sequences = [shipped.tokens(example.text) for example in val]
        outputs = read_in_order(shipped.model, sequences, kind=FEATURES)
        plain = uncalibrated(shipped, find_model(options.model))
        if options.ngrams is not None:
            bag = load_ngrams(options.ngrams, read_json(options.ngrams / DESCRIPTION))
            plain, outputs = with_ngrams(plain, outputs, bag, as_read(val))
        sizes = np.array([len(shipped.profile.encode(example.text)) for example in val])
        known, report = settled(plain, outputs, sizes, val)
        data = {part: described(options.texts / f"{part}.jsonl") for part in ("train", "val")}
        origin = {**describe_origin(), "data": data, "val_accuracy": report}
        if options.ngrams is not None:
            origin["ngrams"] = read_json(options.ngrams / DESCRIPTION)
        save_stars(folder / FOLDER, known, origin)
        if options.report is not None:
            write_json(options.report, {"origin": origin})
        shutil.copy(SHIPPED_MODELS / LICENCE, folder)
        shutil.copytree(folder, options.output / options.name, dirs_exist_ok=True)
    print(f"{options.name}: {size:,} bytes; {known.calibration}, {known.familiarity}, {report}")


def described(path: Path) -> dict[str, Any]:
    """Return the size and the digest of a file of texts."""
    content = path.read_bytes()
    return {"examples": content.count(b"\n"), "sha256": hashlib.sha256(content).hexdigest()}


def uncalibrated(shipped: LoadedModel, folder: Path) -> StarsClassifier:
    """Return the head in a model's folder as it was learned, for the rounded weights."""
    path = head_of(folder)
    if path is None:
        raise InputError(f"{folder}: has no head that predicts stars")
    heads = build_heads(HeadsConfig(), FEATURES.size(shipped.model.config), STARS, seed=0)
    heads.load_state_dict(load_tensors(path))
    return StarsClassifier(
        heads=heads.eval(),
        classes=("negative", "positive"),
        model_digest=model_digest(shipped.model),
        calibration=Calibration(),
        familiarity=None,
        unsure=UNSURE,
    )


def with_ngrams(
    plain: StarsClassifier, outputs: ModelOutput, bag: BagOfNgrams, val: Sequence[Example]
) -> tuple[StarsClassifier, ModelOutput]:
    """Return the head with a bag of n-grams, whose weight against it val decides; and features."""
    rows, labels, sources = sided_rows(val, WEIGHTED_ON)
    texts = [example.text for example in val]
    odds = positive_log_odds(plain.of_each_star(outputs.features))
    both = np.column_stack([odds, bag.log_odds(texts)])[rows]
    head, ngrams = slopes(both, labels[rows], sources[rows])
    assert min(head, ngrams) > 0, f"slopes {head} and {ngrams}: one of the two misleads"
    bag = replace(bag, scale=bag.scale * ngrams / head)
    features = np.column_stack([outputs.features, bag.log_odds(texts)])
    return replace(plain, ngrams=bag), outputs._replace(features=features)


def sided_rows(
    val: Sequence[Example], names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which texts of these sources have a side, bool [N]; labels, -1 for none; sources."""
    sources = np.array([example.source for example in val])
    labels = sides_of(val)
    return (labels >= 0) & np.isin(sources, names), labels, sources


def settled(
    plain: StarsClassifier, outputs: ModelOutput, lengths: np.ndarray, val: list[Example]
) -> tuple[StarsClassifier, dict[str, float]]:
    """Return the head, with calibration and limits from val, and its accuracy there by source.

    lengths: of the texts as the model reads them, bytes [N]. The head has not learned from these
    texts.
    """
    rows, labels, sources = sided_rows(val, CALIBRATED_ON)
    odds = positive_log_odds(plain.of_each_star(outputs.features))
    # There is no offset, so that a text at a half stays there.
    (slope,) = slopes(odds[rows, None], labels[rows], sources[rows])
    known = replace(plain, calibration=Calibration(slope=slope))
    positive = known.probabilities(outputs.features)
    known = replace(
        known, familiarity=familiar(outputs.bits, lengths), unsure=doubt(positive, labels, sources)
    )
    right = (positive > 0.5) == (labels == 1)
    return known, accuracy_by_source(right[labels >= 0], sided(val))


def slopes(odds: np.ndarray, labels: np.ndarray, sources: np.ndarray) -> list[float]:
    """Return the slope of each of K log-odds, [N, K], in the sum that calibrates them.

    Each source has the same weight.
    """
    weights = compute_sample_weight("balanced", sources)
    fit = LogisticRegression(C=np.inf, fit_intercept=False)
    return [float(slope) for slope in fit.fit(odds, labels, sample_weight=weights).coef_[0]]


def familiar(bits: np.ndarray, lengths: np.ndarray) -> Familiarity:
    """Return the limits that admit the familiar texts: for long texts, of bits per byte."""
    long = lengths >= LONG
    each = float(np.quantile(bits[long] / lengths[long], ADMITTED))
    besides = float(np.quantile(bits - each * lengths, ADMITTED))
    return Familiarity(bits_per_character=each, bits=max(besides, 0.0))


def doubt(positive: np.ndarray, labels: np.ndarray, sources: np.ndarray) -> tuple[float, float]:
    """Return the two probabilities, equally far from a half, that separate neutral texts best.

    They maximize the part of the neutral texts between them minus the part of the texts with a
    side, the mean over the sources of the calibration. positive, labels, sources: [N]; a label
    of neither side is -1.
    """
    distances = np.abs(positive - 0.5)
    neutral = distances[(sources == "grammar") & (labels < 0)]
    sided = [distances[(sources == name) & (labels >= 0)] for name in CALIBRATED_ON]

    def gain(width: float) -> float:
        return (neutral <= width).mean() - np.mean([(part <= width).mean() for part in sided])

    best = float(max(WIDTHS, key=gain))
    return round(0.5 - best, 2), round(0.5 + best, 2)


if __name__ == "__main__":
    command.run(main)
