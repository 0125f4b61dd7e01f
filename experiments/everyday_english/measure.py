"""Measure heads and other methods on the val or test tenths of the labelled texts.

python -m experiments.everyday_english.measure --texts data/everyday --part val --methods default
python -m experiments.everyday_english.measure --texts data/everyday --part test \\
    --methods default default_small vader bag_public bag_all
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from configs import command
from data_utils.provenance import describe_origin
from experiments.board.methods import Vader
from experiments.everyday_english.fit import BUCKETS, REVIEWS, SIDES
from experiments.everyday_english.texts import Example, kinds_of, read
from experiments.results import write_result
from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import ALIASES
from mlstm_sentiment.head.ngrams import buckets_of

GROUPS = {
    "app reviews": ("app_reviews",),
    "hotel remarks": ("booking_parts",),
    "Reddit comments": ("goemotions",),
    "tweets, 2013 to 2017": ("semeval_tweets",),
    "developers' texts": ("se_texts", "stackoverflow_senti4sd"),
    "requests": ("clinc_requests",),
    "everyday tweets": ("kaggle_tweets",),
    "tweets to airlines": ("airline_tweets",),
    "remarks on employers": ("glassdoor",),
    "dialogue": ("dailydialog_reccon",),
    "lines of a series": ("meld",),
}
KEPT_OUT = ("app_reviews", "booking_parts", "airline_tweets", "glassdoor", "dailydialog_reccon")
HARD_KINDS = ("negation", "question", "emoji", "bug", "sarcasm")
BINS = 10  # of probability, of equal width
DRAWS = 400  # of labels, for the null value
STRENGTH = 1.0  # C of the bags
Method = Callable[[Sequence[str]], np.ndarray]  # probabilities of three answers, [N, 3]


@dataclass(frozen=True)
class Options:
    """Print and write accuracy and calibration, by group and kind."""

    texts: Path
    """The folder of experiments.everyday_english.texts."""
    methods: tuple[str, ...]
    """Shipped models; MODEL:FOLDER, with its former head; vader; bag_public; bag_all."""
    part: str = "val"
    """val or test."""


def main() -> None:
    options = command.parse(Options, __doc__)
    examples = read(options.texts / f"{options.part}.jsonl")
    for name in options.methods:
        three = method_of(name, options.texts)([example.text for example in examples])
        result = measured(three, examples)
        for group, row in (*result["groups"].items(), *result["kinds"].items()):
            print(name, group, row)
        content = {"part": options.part, **result, "origin": describe_origin()}
        model, another, _ = name.partition(":")
        key = f"{options.part}_{model}{'_former' if another else ''}"
        write_result("everyday_english", key, content)


def method_of(name: str, texts: Path) -> Method:
    """Return a function from texts to the probabilities of negative, neutral and positive."""
    if name == "vader":
        return vader
    if name in ("bag_public", "bag_all"):
        sources = (*REVIEWS, "grammar") if name == "bag_public" else None
        train = [e for e in read(texts / "train.jsonl") if sources is None or e.source in sources]
        return bag(train)
    model, _, folder = name.partition(":")
    if model not in (*ALIASES, *ALIASES.values()):
        raise InputError(f"method {name!r}: known are {', '.join(ALIASES)}, vader, bag_public, ...")
    classifier = SentimentClassifier.from_pretrained(model, classifier=folder or None)

    def answer(texts: Sequence[str]) -> np.ndarray:
        three = classifier.predict_all(texts).three_probabilities
        assert three is not None
        return three

    return answer


def vader(texts: Sequence[str]) -> np.ndarray:
    """Return VADER's score as a side; it is neutral if the compound is within 0.05 of zero."""
    answers = Vader().answer(list(texts))
    assert answers.neutral is not None
    positive = answers.positive - 1e-9  # a tie counts as negative
    neutral = np.where(answers.neutral, 0.99, 0.01)
    return np.column_stack([(1 - positive) * (1 - neutral), neutral, positive * (1 - neutral)])


def bag(train: Sequence[Example]) -> Method:
    """Return a regression on the words and pairs of texts, of three classes."""
    sides = np.array([SIDES[example.label] for example in train])
    features = hashed([example.text for example in train])
    rarity = np.log(len(train) / np.bincount(features.indices, minlength=BUCKETS).clip(2))
    fit = LogisticRegression(C=STRENGTH, max_iter=60, tol=1e-3)
    fit.fit(features.multiply(rarity).tocsr(), sides)
    return lambda texts: fit.predict_proba(hashed(texts).multiply(rarity).tocsr())


def hashed(texts: Sequence[str]) -> sparse.csr_matrix:
    """Return which n-grams are in each text, over the root of their number."""
    rows = [buckets_of(text, BUCKETS) for text in texts]
    sizes = np.array(list(map(len, rows)))
    values = np.repeat(1 / np.sqrt(sizes.clip(1)), sizes)
    ends = np.concatenate([[0], sizes.cumsum()])
    return sparse.csr_matrix((values, np.concatenate(rows), ends), (len(rows), BUCKETS))


def measured(three: np.ndarray, examples: Sequence[Example]) -> dict[str, Any]:
    """Return the results by group and by kind."""
    sides = np.array([SIDES[example.label] for example in examples])
    sources = np.array([example.source for example in examples])
    of_each = [set(kinds_of(example)) for example in examples]
    groups = {name: np.isin(sources, own) for name, own in GROUPS.items()}
    kinds = {kind: np.array([kind in own for own in of_each]) for kind in HARD_KINDS}
    return {
        "groups": {name: judged(three[rows], sides[rows]) for name, rows in groups.items()},
        "kinds": {name: judged(three[rows], sides[rows]) for name, rows in kinds.items()},
        "kept_out": judged(*balanced(three, sides, sources)),
    }


def balanced(
    three: np.ndarray, sides: np.ndarray, sources: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the texts with a side of the kept-out domains: as many positive ones as negative."""
    rows = []
    for source in KEPT_OUT:
        own = [np.flatnonzero((sources == source) & (sides == side)) for side in (-1, 1)]
        rows += [part[: min(map(len, own))] for part in own]
    chosen = np.concatenate(rows)
    return three[chosen], sides[chosen]


def judged(three: np.ndarray, sides: np.ndarray) -> dict[str, Any]:
    """Return accuracies and errors of texts of one kind."""
    sided = sides != 0
    positive = three[sided, 2] / (three[sided, 0] + three[sided, 2])
    truth = sides[sided] > 0
    result: dict[str, Any] = {
        "texts": len(sides),
        "with a side": int(sided.sum()),
        "three": float((three.argmax(1) == sides + 1).mean()),
        "neutral": float((three[~sided].argmax(1) == 1).mean()) if (~sided).any() else None,
    }
    if not sided.any():
        return result
    error, null = error_and_null(positive, truth)
    return {
        **result,
        "side": float(((positive > 0.5) == truth).mean()),
        "error of positive": error,
        "error, if calibrated": null,
        "mean above the truth": float(positive.mean() - truth.mean()),
        **{
            f"error of {answer}": error_and_null(three[:, place], sides == place - 1)[0]
            for place, answer in enumerate(("negative", "neutral", "positive, of three"))
        },
    }


def error_and_null(chances: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return the calibration error, and its 95 % quantile if the probabilities were right."""
    draw = np.random.default_rng(0)
    drawn = [error_of(chances, draw.random(len(chances)) < chances) for _ in range(DRAWS)]
    return error_of(chances, truth), float(np.quantile(drawn, 0.95))


def error_of(chances: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean distance of the probabilities from what is true, by bins."""
    places = np.minimum((chances * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(places, chances - truth)).sum() / len(chances))


if __name__ == "__main__":
    command.run(main)
