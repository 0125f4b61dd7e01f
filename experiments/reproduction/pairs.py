"""Measure paraphrases (MRPC) and relatedness (SICK) of pairs of texts, and their baselines.

The features of a pair are |a - b| and a b of its texts' features, as in Tai et al. 2015, Kiros et
al. 2015 and Radford et al. 2017. Paraphrases use the L1 regression of the other tasks. Relatedness
uses an L2 softmax over whole scores. A training score lies between two whole scores, which are its
labels with weights by nearness. The answer is the expectation; C has the highest correlation on
val.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import hstack
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from data_utils.published_sets.layouts import PairSet
from data_utils.published_sets.registry import PublishedTask
from data_utils.published_sets.splits import SEED, Fold
from model.files.weights import LoadedModel
from model.layers.language_model import LanguageModel, untrained_like
from transfer.baselines import TFIDF_C_GRID, bag_of_words, best_tfidf_regression
from transfer.features import FeatureCache
from transfer.metrics import RESAMPLES, bootstrap_intervals
from transfer.regression import C_GRID, CONFIDENCE, Examples, accuracy_interval, fit_regression

from .emotions import summary

MOST_ITERATIONS = 1000
Scores = dict[str, Any]


def measure_paraphrases(
    task: PublishedTask, loaded: LoadedModel, cache: FeatureCache, untrained: int
) -> dict[str, Any]:
    """Return accuracy and F1 of all units, of untrained models and of the commoner class."""
    (fold,) = task.folds
    labels = task.texts.labels
    commoner = np.full(len(fold.test), np.bincount(labels[fold.train]).argmax())
    return {
        **_measured(task, loaded, cache, untrained, _told_by_units, _agreement),
        "majority": _agreement(labels[fold.test], commoner),
    }


def measure_relatedness(
    task: PublishedTask, loaded: LoadedModel, cache: FeatureCache, untrained: int
) -> dict[str, Any]:
    """Return correlations and squared error of all units, of untrained models and of the mean."""
    (fold,) = task.folds
    labels = task.texts.labels
    answer = partial(expected_scores, grid=C_GRID)
    return {
        **_measured(task, loaded, cache, untrained, answer, _closeness),
        "mean": _closeness(labels[fold.test], np.full(len(fold.test), labels[fold.train].mean())),
    }


def _measured(
    task: PublishedTask,
    loaded: LoadedModel,
    cache: FeatureCache,
    untrained: int,
    answer: Callable[..., np.ndarray],
    judge: Callable[[np.ndarray, np.ndarray], Scores],
) -> dict[str, Any]:
    """answer: from (features, labels, fold)."""
    (fold,) = task.folds
    pairs, labels = task.texts, task.texts.labels
    assert isinstance(pairs, PairSet)
    models = [loaded.model, *(untrained_like(loaded.model, seed) for seed in range(untrained))]
    scores = [
        judge(labels[fold.test], answer(pair_features(model, loaded, cache, pairs), labels, fold))
        for model in models
    ]
    return summary(task, scores, sum(map(len, pairs.texts + pairs.second)))


def paraphrases_by_words(task: PublishedTask) -> Scores:
    """Return accuracy and F1 of a bag of words."""
    return _by_words(task, _told_by_words, _agreement)


def relatedness_by_words(task: PublishedTask) -> Scores:
    """Return correlations and squared error of a bag of words."""
    return _by_words(task, partial(expected_scores, grid=TFIDF_C_GRID), _closeness)


def _by_words(
    task: PublishedTask,
    answer: Callable[..., np.ndarray],
    judge: Callable[[np.ndarray, np.ndarray], Scores],
) -> Scores:
    (fold,) = task.folds
    pairs, labels = task.texts, task.texts.labels
    assert isinstance(pairs, PairSet)
    return judge(labels[fold.test], answer(word_features(pairs, fold), labels, fold))


def pair_features(
    model: LanguageModel, loaded: LoadedModel, cache: FeatureCache, pairs: PairSet
) -> np.ndarray:
    """Return float32 [N, 2 F]: |a - b| and a b of the texts' features."""
    first, second = (
        cache.features(model, list(map(loaded.tokens, texts)), "pairs")
        for texts in (pairs.texts, pairs.second)
    )
    return np.concatenate([np.abs(first - second), first * second], axis=1)


def word_features(pairs: PairSet, fold: Fold) -> Any:
    """Return the features of pairs from TF-IDF of words and pairs in train, sparse."""
    train = pairs.subset(fold.train)
    words = bag_of_words().fit(train.texts + train.second)
    first, second = (words.transform(texts) for texts in (pairs.texts, pairs.second))
    return hstack([abs(first - second), first.multiply(second)], format="csr")


def _told_by_units(features: np.ndarray, labels: np.ndarray, fold: Fold) -> np.ndarray:
    examples = Examples(features, labels)
    regression = fit_regression(examples.subset(fold.train), examples.subset(fold.val))
    return (regression.decide(features[fold.test]) > 0).astype(np.int64)


def _told_by_words(features: Any, labels: np.ndarray, fold: Fold) -> np.ndarray:
    train, val = ((features[rows], labels[rows]) for rows in (fold.train, fold.val))
    return best_tfidf_regression(train, val).predict(features[fold.test])


def expected_scores(
    features: Any, scores: np.ndarray, fold: Fold, grid: Sequence[float]
) -> np.ndarray:
    """Fit a softmax over whole scores on train; return its expectation on test, float64 [N]."""
    below = np.floor(scores[fold.train])
    nearness = np.concatenate([1 - (scores[fold.train] - below), scores[fold.train] - below])
    used = nearness > 0
    rows, classes = np.tile(fold.train, 2)[used], np.concatenate([below, below + 1])[used]
    best: tuple[float, Any] = (-np.inf, None)
    for c in grid:
        model = LogisticRegression(C=c, max_iter=MOST_ITERATIONS)
        with warnings.catch_warnings():  # if a fit does not converge, another C is chosen
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(features[rows], classes, sample_weight=nearness[used])
        correlation = pearson(scores[fold.val], _expected(model, features[fold.val]))
        best = max(best, (correlation, model), key=lambda found: found[0])
    return _expected(best[1], features[fold.test])


def _expected(model: LogisticRegression, features: Any) -> np.ndarray:
    return model.predict_proba(features) @ model.classes_


def pearson(truth: np.ndarray, told: np.ndarray) -> float:
    """Return the correlation of two arrays [N]; 0 if one of them is constant."""
    truth, told = truth - truth.mean(), told - told.mean()
    norm = float(np.sqrt((truth**2).sum() * (told**2).sum()))
    return float(truth @ told) / norm if norm else 0.0


def spearman(truth: np.ndarray, told: np.ndarray) -> float:
    """Return the correlation of the ranks."""
    return pearson(rankdata(truth), rankdata(told))


def _agreement(truth: np.ndarray, told: np.ndarray) -> Scores:
    """Return accuracy and F1 of paraphrases, with Wilson's interval and a bootstrap's."""
    accuracy = float((truth == told).mean())
    f1_interval = bootstrap_intervals(truth[:, None], told[:, None], SEED)["f1_macro_interval"]
    return {
        "accuracy": {"value": accuracy, "interval": accuracy_interval(accuracy, len(truth))},
        "f1": {"value": float(f1_score(truth, told, zero_division=0.0)), "interval": f1_interval},
    }


def _closeness(truth: np.ndarray, told: np.ndarray) -> Scores:
    """Return the measures of relatedness with bootstrap intervals."""
    rng, tails = np.random.default_rng(SEED), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    draws = [rng.integers(0, len(truth), len(truth)) for _ in range(RESAMPLES)]
    measures: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
        "pearson": pearson,
        "spearman": spearman,
        "mse": lambda truth, told: float(((truth - told) ** 2).mean()),
    }
    return {
        name: {
            "value": measure(truth, told),
            "interval": np.quantile(
                [measure(truth[rows], told[rows]) for rows in draws], tails
            ).tolist(),
        }
        for name, measure in measures.items()
    }
