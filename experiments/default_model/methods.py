"""The methods of classifying sentiment that are compared: the shipped model and its alternatives.

VADER and TextBlob are no dependencies; install them by `pip install vaderSentiment textblob`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from experiments.default_model.sentences.examples import Example, read_examples
from model.classifiers.sentiment_classifier import SentimentClassifier
from model.classifiers.stars import StarsClassifier
from model.errors import InputError
from model.files.weights import find_model

SIDES = {"negative": 0, "1": 0, "2": 0, "positive": 1, "4": 1, "5": 1}
STRENGTHS = (0.3, 1.0, 3.0, 10.0)  # C of the regression on words; chosen on val


class Told(NamedTuple):
    """The answers of a method for N texts."""

    positive: np.ndarray  # float64 [N]: 0 negative, 1 positive
    unsure: np.ndarray | None = None  # bool [N]; None if the method does not tell
    unfamiliar: np.ndarray | None = None  # bool [N]; None if the method does not tell


class Method(Protocol):
    """A method of classifying sentiment."""

    megabytes: float
    settings: dict[str, Any]

    def tell(self, texts: Sequence[str]) -> Told:
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

    def tell(self, texts: Sequence[str]) -> Told:
        found = self.classifier.predict_all(texts)
        return Told(found.probabilities[:, 1], found.unsure, found.unfamiliar.astype(bool))


class States(Shipped):
    """The default model without its bag of n-grams."""

    def __init__(self, name: str, texts: Path | None):
        super().__init__("default", texts)
        self.classifier.fitted_ = replace(head_of_stars(self.classifier), ngrams=None)


class Ngrams(Shipped):
    """The default model's bag of n-grams alone."""

    def __init__(self, name: str, texts: Path | None):
        super().__init__("default", texts)
        head = head_of_stars(self.classifier)
        assert head.ngrams is not None
        self.bag, self.slope = head.ngrams, head.calibration.slope

    def tell(self, texts: Sequence[str]) -> Told:
        read = list(map(self.classifier.loaded.profile.clean, texts))
        return Told(1 / (1 + np.exp(-self.slope * self.bag.log_odds(read))))


class Tfidf:
    """Logistic regression on words and pairs of words, fitted to the same texts."""

    def __init__(self, name: str, texts: Path | None):
        if texts is None:
            raise InputError("tfidf learns from texts; name them with --texts")
        train, val = (sided(read_examples(texts / f"{part}.jsonl")) for part in ("train", "val"))
        options: dict[str, Any] = {"ngram_range": (1, 2), "min_df": 2, "sublinear_tf": True}
        self.words = TfidfVectorizer(strip_accents="unicode", **options)
        features = self.words.fit_transform([example.text for example in train])
        held = self.words.transform([example.text for example in val])
        labels, held_labels = map(sides_of, (train, val))
        fits = {c: LogisticRegression(C=c, max_iter=300).fit(features, labels) for c in STRENGTHS}
        accuracies = {}
        for c, fit in fits.items():
            of_source = accuracy_by_source(fit.predict(held) == held_labels, val)
            accuracies[c] = float(np.mean([of_source["sst"], of_source["imdb"]]))
        best = max(accuracies, key=lambda c: accuracies[c])
        self.regression = fits[best]
        # Each word takes its text and two numbers of four bytes, its weight and its rarity.
        self.megabytes = sum(len(word.encode()) + 8 for word in self.words.vocabulary_) / 1e6
        self.settings = {**options, "C": best, "val_accuracies": accuracies}

    def tell(self, texts: Sequence[str]) -> Told:
        return Told(self.regression.predict_proba(self.words.transform(texts))[:, 1])


class Vader:
    """Rules and a lexicon (Hutto and Gilbert 2014), for social media."""

    def __init__(self, name: str, texts: Path | None):
        from vaderSentiment import vaderSentiment

        self.polarity = vaderSentiment.SentimentIntensityAnalyzer().polarity_scores
        self.megabytes = folder_megabytes(Path(vaderSentiment.__file__).parent)
        self.settings: dict[str, Any] = {"unsure": "compound within 0.05 of zero, as its page says"}

    def tell(self, texts: Sequence[str]) -> Told:
        compound = np.array([self.polarity(text)["compound"] for text in texts])
        return Told((1 + compound) / 2, np.abs(compound) < 0.05)


class Blob:
    """The lexicon of adjectives of TextBlob."""

    def __init__(self, name: str, texts: Path | None):
        import textblob

        self.polarity = lambda text: float(textblob.TextBlob(text).sentiment.polarity)
        self.megabytes = folder_megabytes(Path(textblob.__file__).parent)
        self.settings: dict[str, Any] = {"unsure": "polarity zero"}

    def tell(self, texts: Sequence[str]) -> Told:
        polarity = np.array([self.polarity(text) for text in texts])
        return Told((1 + polarity) / 2, polarity == 0)


METHODS: dict[str, Callable[[str, Path | None], Method]] = {
    "default": Shipped,
    "states": States,
    "ngrams": Ngrams,
    "tfidf": Tfidf,
    "vader": Vader,
    "textblob": Blob,
}


def sided(examples: Sequence[Example]) -> list[Example]:
    """Return the positive and negative examples."""
    return [example for example in examples if example.label in SIDES]


def sides_of(examples: Sequence[Example]) -> np.ndarray:
    """Return int64 [N]: 1 for a positive example, 0 for a negative one, -1 for a neutral one."""
    return np.array([SIDES.get(example.label, -1) for example in examples])


def accuracy_by_source(right: np.ndarray, examples: Sequence[Example]) -> dict[str, float]:
    """Return the part of right answers, bool [N], on each source."""
    sources = np.array([example.source for example in examples])
    return {name: float(right[sources == name].mean()) for name in sorted(set(sources.tolist()))}


def head_of_stars(classifier: SentimentClassifier) -> StarsClassifier:
    """Return the head of a classifier that predicts stars."""
    assert isinstance(classifier.fitted, StarsClassifier)
    return classifier.fitted


def folder_megabytes(folder: Path) -> float:
    """Return the size of a folder's files, without compiled ones, in units of 10^6 bytes."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return sum(path.stat().st_size for path in files) / 1e6
