"""Prepare the default model for shipping: weights in 8, 6 or 5 bits, and a calibrated head.

python -m experiments.default_model.ship runs/default/step-00002251 --texts data/default \\
    --ngrams runs/ngrams --name stars_1024
python -m experiments.default_model.ship stars_1024 --texts data/default --name stars_1024

The second command calibrates the neutral answers of a shipped model, and changes nothing else.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight

from configs import command
from data_utils.provenance import describe_origin
from experiments.default_model.fit_ngrams import DESCRIPTION, as_read
from experiments.default_model.heads import of_each_star, part, with_part
from experiments.default_model.methods import accuracy_by_source, sided, sides_of
from experiments.default_model.remarks import CLASSES
from experiments.default_model.sentences.examples import Example, read_examples
from experiments.default_model.study import binned, calibration_error
from experiments.default_model.train import head_of
from experiments.models.ship import LICENCE, write_quantized
from model.bounds import Argument
from model.classifiers.answers import three_answers
from model.classifiers.head import UNSURE, Familiarity, Head
from model.classifiers.head_files import CONFIG_FILE, FOLDER, load_head, save_head
from model.classifiers.kinds import STAR_POOLING, STAR_STATE, STAR_WEIGHTS, star_steps
from model.classifiers.old_formats import load_ngrams
from model.classifiers.steps import (
    Calibration,
    Neutral,
    Ngrams,
    neutral_log_odds,
    positive_log_odds,
)
from model.engine.features import read_features
from model.engine.interface import Reading
from model.engine.kinds import FeatureKind
from model.errors import InputError
from model.files.shipped import SHIPPED_MODELS, WEIGHTS_FILE, find_model
from model.files.storage import read_json, write_json
from model.inference.weights import LoadedModel, load_model, model_digest

CALIBRATED_ON = ("sst", "imdb", "amazon")  # each has the same weight
WEIGHTED_ON = (*CALIBRATED_ON, "titles", "everyday")  # the bag of n-grams, against the head
NEUTRAL_ON = ("grammar", "everyday")  # have plain facts; the same weight each
LONG = 100  # bytes; in longer texts bits per byte hardly depend on the length
ADMITTED = 0.99  # part of the familiar texts that must be called familiar
BINS = 10  # of confidence, of equal width
MIDDLE = 2  # the column of three stars
KIND = FeatureKind(state=STAR_STATE, pooling=STAR_POOLING)
WIDTHS = np.arange(0.05, 0.41, 0.01)  # distances from a half within which a text may be unsure


@dataclass(frozen=True)
class Options:
    """Write weights, licence, description and classifier to model/pretrained/NAME."""

    model: Annotated[str, Argument(positional=True)]
    """The folder of a step of experiments.default_model.train, or the name of a shipped model with
    such a head. Without --ngrams, a shipped model stays as it is, but for its neutral answers."""
    texts: Path
    """The folder of texts; its val.jsonl determines calibration and limits."""
    name: str
    """Name of the shipped model."""
    ngrams: Path | None = None
    """The folder that experiments.default_model.fit_ngrams wrote; absent, the model alone, or the
    n-grams of the shipped model."""
    bits: Literal[8, 6, 5] = 8
    """Of a weight of a matrix."""
    output: Path = SHIPPED_MODELS
    """The folder of shipped models."""
    report: Path | None = None
    """A file for the origin of the classifier, with its accuracies on val."""


def main() -> None:
    options = command.parse(Options, __doc__)
    val = read_examples(options.texts / "val.jsonl")
    with tempfile.TemporaryDirectory() as workplace:
        folder, source = Path(workplace) / options.name, find_model(options.model)
        stays = options.ngrams is None and (source / FOLDER / CONFIG_FILE).is_file()
        if stays:
            shutil.copytree(source, folder)
        else:
            write_quantized(options.model, folder, options.bits)
        shipped = load_model(folder, compute_dtype=torch.float32)
        sequences = [shipped.encode(example.text) for example in val]
        outputs = read_features(shipped, sequences, KIND, bits=True)
        if stays:
            head = load_head(folder / FOLDER, shipped.model.config.hidden_size)
            origin = read_json(folder / FOLDER / CONFIG_FILE)["origin"]
        else:
            head = uncalibrated(shipped, source)
            if options.ngrams is not None:
                bag = load_ngrams(options.ngrams, read_json(options.ngrams / DESCRIPTION))
                head = with_ngrams(head, outputs[0], bag, as_read(val))
            sizes = np.array([len(shipped.profile.encode(example.text)) for example in val])
            head, report = calibrated(head, outputs, sizes, as_read(val))
            data = {part: described(options.texts / f"{part}.jsonl") for part in ("train", "val")}
            origin = {**describe_origin(), "data": data, "val_accuracy": report}
            if options.ngrams is not None:
                origin["ngrams"] = read_json(options.ngrams / DESCRIPTION)
        head, errors = with_neutral(head, outputs[0], as_read(val))
        origin["neutral"] = {
            **describe_origin(),
            "data": {"val": described(options.texts / "val.jsonl")},
            "val": errors,
        }
        save_head(folder / FOLDER, head, origin)
        if options.report is not None:
            write_json(options.report, {"origin": origin})
        shutil.copy(SHIPPED_MODELS / LICENCE, folder)
        shutil.copytree(folder, options.output / options.name, dirs_exist_ok=True)
        size = (folder / WEIGHTS_FILE).stat().st_size
    print(f"{options.name}: {size:,} bytes; {part(head, Calibration)}, {head.familiarity}")
    print(f"accuracy on val: {origin['val_accuracy']}")
    print(f"neutral: {part(head, Neutral)}")
    for name, row in errors.items():
        print(f"{name}: {', '.join(f'{what} {value:.3f}' for what, value in row.items())}")


def described(path: Path) -> dict[str, Any]:
    """Return the size and the digest of a file of texts."""
    content = path.read_bytes()
    return {"examples": content.count(b"\n"), "sha256": hashlib.sha256(content).hexdigest()}


def uncalibrated(shipped: LoadedModel, folder: Path) -> Head:
    """Return the head in a model's folder as it was learned, for the rounded weights."""
    tensors = head_of(folder, shipped.model.config.hidden_size)
    if tensors is None:
        raise InputError(f"{folder}: has no head that predicts stars")
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    return Head(
        classes=("negative", "positive"),
        steps=star_steps(arrays, Calibration()),
        model_digest=model_digest(shipped.model),
        state=STAR_STATE,
        pooling=STAR_POOLING,
        doubt=UNSURE,
    )


def with_ngrams(plain: Head, features: np.ndarray, bag: Ngrams, val: Sequence[Example]) -> Head:
    """Return the head with n-grams, whose weight against it val decides."""
    rows, labels, sources = sided_rows(val, WEIGHTED_ON)
    odds = star_odds(plain, features, val)
    both = np.column_stack([odds, bag.log_odds(texts_of(val))])[rows]
    head, ngrams = slopes(both, labels[rows], sources[rows])
    assert min(head, ngrams) > 0, f"slopes {head} and {ngrams}: one of the two misleads"
    return with_part(plain, replace(bag, scale=bag.scale * ngrams / head))


def texts_of(examples: Sequence[Example]) -> list[str]:
    """Return the texts of examples."""
    return [example.text for example in examples]


def star_odds(head: Head, features: np.ndarray, examples: Sequence[Example]) -> np.ndarray:
    """Return the log-odds of positive, not calibrated, float64 [N]."""
    return positive_log_odds(of_each_star(head, features, texts_of(examples)), STAR_WEIGHTS)


def sided_rows(
    val: Sequence[Example], names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which texts of these sources have a side, bool [N]; labels, -1 for none; sources."""
    sources = np.array([example.source for example in val])
    labels = sides_of(val)
    return (labels >= 0) & np.isin(sources, names), labels, sources


def calibrated(
    plain: Head, outputs: tuple[np.ndarray, Reading], lengths: np.ndarray, val: list[Example]
) -> tuple[Head, dict[str, float]]:
    """Return the head, with calibration and limits from val, and its accuracy there by source.

    lengths: of the texts as the model reads them, bytes [N]. The head has not learned from these
    texts.
    """
    rows, labels, sources = sided_rows(val, CALIBRATED_ON)
    odds = star_odds(plain, outputs[0], val)
    # There is no offset, so that a text at a half stays there.
    (slope,) = slopes(odds[rows, None], labels[rows], sources[rows])
    head = with_part(plain, Calibration(slope=slope))
    positive = head.probabilities(outputs[0], texts_of(val))
    head = replace(
        head,
        familiarity=familiar(np.asarray(outputs[1].bits), lengths),
        doubt=doubt(positive, labels, sources),
    )
    right = (positive > 0.5) == (labels == 1)
    return head, accuracy_by_source(right[labels >= 0], sided(val))


def slopes(odds: np.ndarray, labels: np.ndarray, sources: np.ndarray) -> list[float]:
    """Return the slope of each of K log-odds, [N, K], in the sum that calibrates them.

    Each source has the same weight.
    """
    return regression(odds, labels, sources, has_offset=False).coef_[0].tolist()


def regression(
    odds: np.ndarray, labels: np.ndarray, sources: np.ndarray, *, has_offset: bool
) -> LogisticRegression:
    """Fit labels, 0 or 1 [N], to K log-odds, [N, K]; each source has the same weight."""
    weights = compute_sample_weight("balanced", sources)
    fit = LogisticRegression(C=np.inf, fit_intercept=has_offset)
    return fit.fit(odds, labels, sample_weight=weights)


def with_neutral(
    head: Head, features: np.ndarray, val: Sequence[Example]
) -> tuple[Head, dict[str, dict[str, float]]]:
    """Return the head with calibrated neutral answers, and how good its answers on val are.

    They are fitted to NEUTRAL_ON. Of each source: the accuracy of three answers
    and the calibration errors of the answer given and of each probability; before: with two.
    """
    sides, sources = sides_of(val), np.array([example.source for example in val])
    classes = np.where(sides < 0, 1, 2 * sides)
    texts = texts_of(val)
    odds = neutral_log_odds(of_each_star(head, features, texts), MIDDLE)[:, None]
    rows = np.isin(sources, NEUTRAL_ON)
    fit = regression(odds[rows], classes[rows] == 1, sources[rows], has_offset=True)
    slope, offset = float(fit.coef_[0, 0]), float(fit.intercept_[0])
    head = with_part(head, Neutral(MIDDLE, slope=slope, offset=offset))
    _, positive, _, neutral = head.answer(features, texts)
    assert neutral is not None
    two, three = (three_answers(positive, chance) for chance in (np.zeros(len(val)), neutral))
    errors = {}
    for name in np.unique(sources).tolist():
        own, before, truth = three[sources == name], two[sources == name], classes[sources == name]
        errors[name] = {
            "accuracy": float((own.argmax(1) == truth).mean()),
            "calibration_error": error_of_answers(own, truth),
            "before": error_of_answers(before, truth),
            **{
                answer: calibration_error(binned(own[:, c], truth == c, BINS))
                for c, answer in enumerate(CLASSES)
            },
        }
    return head, errors


def error_of_answers(probabilities: np.ndarray, classes: np.ndarray) -> float:
    """Return the calibration error of the likeliest answers; [N, 3] and int64 [N]."""
    right = probabilities.argmax(1) == classes
    return calibration_error(binned(probabilities.max(1), right, BINS))


def familiar(bits: np.ndarray, lengths: np.ndarray) -> Familiarity:
    """Return the limits that admit the familiar texts: for long texts, of bits per byte."""
    long = lengths >= LONG
    each = float(np.quantile(bits[long] / lengths[long], ADMITTED))
    offset = float(np.quantile(bits - each * lengths, ADMITTED))
    return Familiarity(bits_per_character=each, bits=max(offset, 0.0))


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
