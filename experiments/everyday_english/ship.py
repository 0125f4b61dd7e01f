"""Make a shipped model's head from fits, and calibrate it on val.

python -m experiments.everyday_english.ship --model default --texts data/everyday \\
    --fits runs/fit --shares 1 --former FORMER --former-share 0.3 --language runs/language.npz \\
    --output data/head

Log probabilities are added: those of the fits, and those of the head that the model had before.

python -m experiments.everyday_english.ship --texts data/everyday --network runs/tuned \\
    --fits runs/tuned --shares 1 --language runs/language.npz --output runs/shipped/stars_1024

The second command ships a network that `tune.py` trained, with its head: a whole model folder.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.linear_model import LogisticRegression

from configs import command
from data_utils.provenance import describe_origin
from experiments.everyday_english.fit import BUCKETS, NEUTRAL, SIDES, STAR_WEIGHTS, inputs_of
from experiments.everyday_english.texts import Example, read
from experiments.models.ship import LICENCE, write_quantized
from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.request import Familiarity
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import SHIPPED_MODELS, find_model
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.head.head import Head
from mlstm_sentiment.head.head_files import FOLDER, load_head, save_head
from mlstm_sentiment.head.steps import (
    Affine,
    Batch,
    Calibration,
    Language,
    Neutral,
    Ngrams,
    Positive,
    Probabilities,
    Sigmoid,
    Standardize,
    Stars,
    Step,
    neutral_log_odds,
    positive_log_odds,
)
from mlstm_sentiment.text.markup import without_tags

LIMIT = -3.0  # log-odds of another language; chosen on val
MIDDLE = 2  # the column of three stars
AT_ONCE = 4096  # texts
# Sources of val on which the sides, or neutral, are calibrated; each has the same weight.
SIDED_ON = (
    *("sst", "grammar", "everyday", "semeval_tweets", "goemotions", "kaggle_tweets", "se_texts"),
    *("short product", "short restaurant", "short hotel", "long product", "long restaurant"),
    *("long hotel", "app_reviews", "booking_parts", "glassdoor", "airline_tweets"),
)
WITH_NEUTRAL = (
    *("grammar", "everyday", "semeval_tweets", "goemotions", "kaggle_tweets", "se_texts"),
    *("clinc_requests", "airline_tweets", "dailydialog_reccon"),
)
# Some have none, as many tables of reviews: else too many texts with a side would be neutral.
NEUTRAL_ON = (*WITH_NEUTRAL, "app_reviews", "booking_parts", "short product", "short hotel")
# The kinds of text that the networks were trained on; most of these texts must be familiar.
FAMILIAR = (
    *("sst", "grammar", "everyday", "short product", "short restaurant", "short hotel"),
    *("long product", "long restaurant", "long hotel"),
)
ADMITTED = 0.99
LONG = 100  # bytes; in longer texts bits per byte hardly depend on the length
WIDTHS = np.arange(0.05, 0.41, 0.01)  # distances from a half within which a text may be unsure


@dataclass(frozen=True)
class Options:
    """Write classifier.json and classifier.safetensors."""

    texts: Path
    """The folder of experiments.everyday_english.texts."""
    fits: tuple[Path, ...]
    """Folders of experiments.everyday_english.fit."""
    shares: tuple[float, ...]
    """How much each fit counts: their weights are added, times these."""
    language: Path
    """What experiments.everyday_english.language wrote."""
    output: Path
    """The folder to write."""
    former: Path | None = None
    """The folder of the head that the model had before; on another network, only its n-grams."""
    former_share: float = 0.0
    """How much that counts."""
    model: str = "default"
    """A shipped model, whose network and limits of familiarity stay unless there is another."""
    network: Path | None = None
    """What experiments.everyday_english.tune wrote: another network of the same shape."""
    bits: Literal[8, 6, 5] = 5
    """Of a weight of a matrix of that network."""


def main() -> None:
    options = command.parse(Options, __doc__)
    if len(options.fits) != len(options.shares):
        raise InputError("give one of --shares for each of --fits")
    val = read(options.texts / "val.jsonl")
    if options.network is None:
        classifier = SentimentClassifier.from_pretrained(options.model)
        folder, cache = options.output, options.texts / f"val_{options.model}.npz"
    else:
        classifier = with_network(options, val)
        folder, cache = options.output / FOLDER, options.network / f"val_{options.bits}.npz"
    inputs = inputs_of(classifier, val, cache)
    fits, shares = [dict(np.load(path / "fit.npz")) for path in options.fits], [*options.shares]
    former = None
    if options.former is not None:
        former = load_head(options.former, classifier.loaded.architecture.hidden_size)
        if options.network is None:  # its states are those of the former head
            fits, shares = [*fits, fit_of(former)], [*shares, options.former_share]
    fit = mixed(fits, shares)
    clean = [text.decode() for text in classifier.encode([e.text for e in val]).encoded]
    steps = star_steps(fit, former, options.former_share)
    stars = probabilities_of(steps, inputs.features, clean)
    language = np.load(options.language)
    steps += (Language(language["weights"], float(language["scale"]), LIMIT),)
    head = calibrated(classifier.fitted, steps, stars, val)
    origin = {
        **describe_origin(),
        "data": {part: described(options.texts / f"{part}.jsonl") for part in ("train", "val")},
        "fits": {path.name: read_json(path / "fit.json") for path in options.fits},
        "shares": shares,
    }
    save_head(folder, head, origin)
    print(head.steps[-5:], head.doubt, head.own_unit)


def with_network(options: Options, val: Sequence[Example]) -> SentimentClassifier:
    """Write the network in few bits; return it with the head of the model, and its own limits."""
    write_quantized(str(options.network), options.output, options.bits)
    shutil.copy(SHIPPED_MODELS / LICENCE, options.output)
    engine = Engine.load(options.output)
    shipped = load_head(find_model(options.model) / FOLDER, engine.architecture.hidden_size)
    familiar_texts = [e.text for e in val if e.source in FAMILIAR]
    head = replace(
        shipped, model_digest=engine.digest(), familiarity=familiarity_of(engine, familiar_texts)
    )
    return SentimentClassifier(engine, head).fit()


def familiarity_of(engine: Engine, texts: Sequence[str]) -> Familiarity:
    """Return the limits that admit familiar texts: for long texts, of bits per byte."""
    tokens = list(map(engine.encode, map(without_tags, texts)))
    bits = engine.read(tokens, (), bits=True).bits
    assert bits is not None
    lengths = np.array([engine.tokenizer.count_bytes(each) for each in tokens])
    long = lengths >= LONG
    each = float(np.quantile(bits[long] / lengths[long], ADMITTED))
    offset = float(np.quantile(bits - each * lengths, ADMITTED))
    return Familiarity(bits_per_character=each, bits=max(offset, 0.0))


def described(path: Path) -> dict[str, Any]:
    """Return the size and the digest of a file of texts."""
    content = path.read_bytes()
    return {"examples": content.count(b"\n"), "sha256": sha256(content).hexdigest()}


def fit_of(head: Head) -> dict[str, np.ndarray]:
    """Return a head as a fit; with its n-grams, if they are in as many buckets."""
    steps = {name: array for step in head.steps[:2] for name, array in step.arrays().items()}
    bags = np.zeros((BUCKETS, 2), np.float32)
    for step in head.steps:
        if isinstance(step, Ngrams) and len(step.weights) == BUCKETS:
            bag = int(tuple(step.positive) == NEUTRAL)
            bags[:, bag] += step.weights.astype(np.float32) * step.scale
    return {**steps, "bags": bags}


def ngrams_of(head: Head) -> Ngrams:
    """Return the first bag of n-grams of a head."""
    return next(step for step in head.steps if isinstance(step, Ngrams))


def mixed(fits: Sequence[dict[str, np.ndarray]], shares: Sequence[float]) -> dict[str, np.ndarray]:
    """Return the weighted sum of fits, for features standardized as in the last one."""
    *_, last = fits
    center, scale = last["center"], last["scale"]
    weight, bias, bags = (np.zeros_like(last[name]) for name in ("weight", "bias", "bags"))
    for fit, share in zip(fits, shares, strict=True):
        each = fit["weight"] / fit["scale"]  # of raw features
        weight += share * each * scale
        bias += share * (fit["bias"] + each @ (center - fit["center"]))
        bags += share * fit["bags"]
    names = ("center", "scale", "weight", "bias", "bags")
    return dict(zip(names, (center, scale, weight, bias, bags), strict=True))


def star_steps(fit: dict[str, np.ndarray], former: Head | None, share: float) -> tuple[Step, ...]:
    """Return the steps to the probabilities of stars."""
    scales = np.abs(fit["bags"]).max(0) / 127
    rounded = (fit["bags"] / scales).round().astype(np.int8)
    bags = [
        Ngrams(rounded[:, bag], float(scales[bag]), weights)
        for bag, weights in enumerate((STAR_WEIGHTS, NEUTRAL))
    ]
    if former is not None and len((old := ngrams_of(former)).weights) != BUCKETS:
        bags.append(replace(old, scale=share * old.scale))
    affine = Affine(fit["weight"], fit["bias"])
    standardize = Standardize(fit["center"], fit["scale"])
    return (standardize, affine, Probabilities(len(STAR_WEIGHTS)), *bags)


def probabilities_of(
    steps: Sequence[Step], features: np.ndarray, texts: Sequence[str]
) -> np.ndarray:
    """Return the probabilities of one to five stars, [N, 5]."""
    parts = []
    for first in range(0, len(texts), AT_ONCE):
        rows = slice(first, first + AT_ONCE)
        batch = Batch(values=features[rows].astype(np.float64), texts=texts[rows])
        for step in steps:
            batch = step.apply(batch)
        parts.append(batch.values)
    return np.concatenate(parts)


def calibrated(
    shipped: Head, steps: Sequence[Step], stars: np.ndarray, val: Sequence[Example]
) -> Head:
    """Return the head; val decides its calibration and the range of unsure."""
    sides = np.array([SIDES[example.label] for example in val])
    sources = np.array([example.source for example in val])
    odds = positive_log_odds(stars, STAR_WEIGHTS)
    sided = np.isin(sources, SIDED_ON) & (sides != 0)
    calibration = Calibration(*line(odds[sided], sides[sided] > 0, sources[sided]))
    among = np.isin(sources, NEUTRAL_ON)
    own = neutral_log_odds(stars, MIDDLE)
    neutral = Neutral(MIDDLE, *line(own[among], sides[among] == 0, sources[among]))
    positive = 1 / (1 + np.exp(-calibration.map(odds)))
    ends = (Stars(), neutral, Positive(STAR_WEIGHTS), calibration, Sigmoid())
    return replace(
        shipped,
        steps=(*steps, *ends),
        doubt=doubt(positive, sides, sources),
        unit=None,
    )


def line(odds: np.ndarray, truth: np.ndarray, sources: np.ndarray) -> tuple[float, float]:
    """Return slope and offset of the log-odds that fit best; each source has the same weight."""
    _, number, sizes = np.unique(sources, return_inverse=True, return_counts=True)
    weights = len(odds) / len(sizes) / sizes[number]
    fit = LogisticRegression(C=np.inf).fit(odds[:, None], truth, sample_weight=weights)
    return float(fit.coef_[0, 0]), float(fit.intercept_[0])


def doubt(positive: np.ndarray, sides: np.ndarray, sources: np.ndarray) -> tuple[float, float]:
    """Return two probabilities, equally far from a half, that separate neutral texts best.

    They maximize the fraction of the neutral texts between them minus that of the texts with a
    side; each source has the same weight.
    """
    distances = np.abs(positive - 0.5)

    def gain(width: float) -> float:
        inside = distances <= width
        neutral = [inside[(sources == name) & (sides == 0)].mean() for name in WITH_NEUTRAL]
        sided = [inside[(sources == name) & (sides != 0)].mean() for name in SIDED_ON]
        return float(np.mean(neutral) - np.mean(sided))

    best = float(max(WIDTHS, key=gain))
    return round(0.5 - best, 2), round(0.5 + best, 2)


if __name__ == "__main__":
    command.run(main)
