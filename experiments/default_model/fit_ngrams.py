"""Fit n-gram features to the default model's texts, to be used with its head.

python -m experiments.default_model.fit_ngrams data/wider --output runs/ngrams
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from configs import command
from data_utils.provenance import describe_origin
from experiments.default_model.methods import accuracy_by_source, sided, sides_of
from experiments.default_model.sentences.examples import Example, read_examples
from model.bounds import Argument
from model.classifiers.head_files import NGRAMS_FILE
from model.classifiers.kinds import STAR_WEIGHTS
from model.classifiers.ngrams import buckets_of
from model.classifiers.steps import Ngrams
from model.files.storage import write_json
from model.inference.tensors import save_tensors
from model.text.profiles import text_profile

STRENGTHS = (0.03, 0.1, 0.3)  # C of the regression, one of which is chosen on val
CHOSEN_ON = ("sst", "imdb", "amazon", "titles", "everyday")  # each has the same weight
FEWEST = 2  # texts of an n-gram that has a weight
LARGEST_INTEGER = 127
DESCRIPTION = "ngrams.json"


@dataclass(frozen=True)
class Options:
    """Fit regressions of several strengths, choose one on val, and round it to 8 bits."""

    texts: Annotated[Path, Argument(positional=True)]
    """The folder that experiments.default_model.texts wrote."""
    output: Path
    """The folder to write."""
    buckets: int = 2**19
    """Number of weights."""


def main() -> None:
    options = command.parse(Options, __doc__)
    parts = (read_examples(options.texts / f"{part}.jsonl") for part in ("train", "val"))
    train, val = map(as_read, parts)
    held = sided(val)
    features = hashed(train, options.buckets)
    rarity = rarity_of(features)
    fits = {}
    for strength in STRENGTHS:
        bag = rounded(fitted(features, rarity, train, strength))
        fits[strength] = bag, accuracies(bag, held)
        print(f"C {strength}: {fits[strength][1]}", flush=True)
    best = max(STRENGTHS, key=lambda c: np.mean([fits[c][1][name] for name in CHOSEN_ON]))
    bag, val_accuracy = fits[best]
    options.output.mkdir(parents=True, exist_ok=True)
    save_tensors(options.output / NGRAMS_FILE, {"weights": torch.from_numpy(bag.weights)})
    description: dict[str, Any] = {"buckets": len(bag.weights), "scale": bag.scale, "C": best}
    description |= {"val_accuracy": val_accuracy, "origin": describe_origin()}
    write_json(options.output / DESCRIPTION, description)


def as_read(examples: Iterable[Example]) -> list[Example]:
    """Return texts as the classifier reads them, cleaned by the model's profile."""
    clean = text_profile("openai").clean
    return [example._replace(text=clean(example.text)) for example in examples]


def hashed(examples: Sequence[Example], buckets: int) -> sparse.csr_matrix:
    """Return which n-grams are in each text, over the root of their number: [N, buckets]."""
    rows = [buckets_of(example.text, buckets) for example in examples]
    sizes = np.array(list(map(len, rows)))
    values = np.repeat(1 / np.sqrt(sizes.clip(1)), sizes)
    ends = np.concatenate([[0], sizes.cumsum()])
    return sparse.csr_matrix((values, np.concatenate(rows), ends), (len(rows), buckets))


def rarity_of(features: sparse.csr_matrix) -> np.ndarray:
    """Return log N over the number of texts with each n-gram, zero for the rarest: [buckets]."""
    texts, buckets = features.shape
    counts = np.bincount(features.indices, minlength=buckets)
    return np.where(counts >= FEWEST, np.log(texts / counts.clip(1)), 0)


def fitted(
    features: sparse.csr_matrix, rarity: np.ndarray, examples: Sequence[Example], strength: float
) -> np.ndarray:
    """Return the weight of each bucket, by which the rare ones learn as fast as the frequent.

    A neutral text is there with both labels, each of half its weight, so that the log-odds of what
    says nothing stay near zero. There is no intercept for the same reason.
    """
    labels = sides_of(examples)
    clear, neutral = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
    rows = np.concatenate([clear, neutral, neutral])
    sides = np.concatenate([labels[clear], np.repeat([0, 1], len(neutral))])
    weights = np.repeat([1, 0.5], [len(clear), 2 * len(neutral)])
    fit = LogisticRegression(C=strength, fit_intercept=False, max_iter=300, tol=1e-4)
    fit.fit(features[rows].multiply(rarity).tocsr(), sides, sample_weight=weights)
    return fit.coef_[0] * rarity


def rounded(weights: np.ndarray) -> Ngrams:
    """Return weights in 8 bits, whose largest is 127."""
    scale = float(np.abs(weights).max()) / LARGEST_INTEGER
    return Ngrams((weights / scale).round().astype(np.int8), scale, STAR_WEIGHTS)


def accuracies(bag: Ngrams, held: Sequence[Example]) -> dict[str, float]:
    """Return the accuracy on each source of val."""
    positive = bag.log_odds([example.text for example in held]) > 0
    return accuracy_by_source(positive == (sides_of(held) == 1), held)


if __name__ == "__main__":
    command.run(main)
