"""Baselines to compare an accuracy with, on the same split: the majority class, and TF-IDF."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline

from data_utils.labelled import LabelledSet


@dataclass(frozen=True)
class Baseline:
    """Features of texts, and regressions on them; the validation set chooses one of these."""

    title: str
    features: Callable[[], Any]  # a vectorizer, not fitted yet
    regression: Callable[[float], Any]  # makes an unfitted model for two classes from C
    grid: tuple[float, ...]  # values of C


def majority_accuracy(train: LabelledSet, test: LabelledSet) -> float:
    """Return the accuracy of always predicting the most frequent class of train."""
    majority = int(np.bincount(train.labels).argmax())
    return float((test.labels == majority).mean())


def tfidf_accuracy(train: LabelledSet, val: LabelledSet, test: LabelledSet) -> float:
    """Return the accuracy of logistic regression on TF-IDF of words and word pairs."""
    return float((baseline_choices(TFIDF, train, val, test) == test.labels).mean())


def baseline_choices(
    baseline: Baseline, train: LabelledSet, val: LabelledSet, test: LabelledSet
) -> np.ndarray:
    """Return the classes, int64 [N], that a baseline predicts for test.

    C is chosen on val, as it is for the model's features. If no text of train has a word, it is the
    most frequent class of train.
    """
    if not any(map(bag_of_words().build_analyzer(), train.texts)):
        return np.full(len(test.labels), np.bincount(train.labels).argmax())
    return fit_baseline(baseline, train, val).predict(test.texts)


def fit_baseline(baseline: Baseline, train: LabelledSet, val: LabelledSet) -> Pipeline:
    """Return a baseline fitted to train with the C that is best on val; the smallest wins ties.

    It ends with a OneVsRestClassifier if there are more than two classes.
    """
    features = baseline.features()
    training = features.fit_transform(train.texts), train.labels
    held_out = features.transform(val.texts), val.labels
    more = len(train.classes) > 2
    regressions = map(baseline.regression, baseline.grid)
    fits = [(OneVsRestClassifier(each) if more else each).fit(*training) for each in regressions]
    return make_pipeline(features, max(fits, key=lambda fit: fit.score(*held_out)))


def bag_of_words() -> TfidfVectorizer:
    """Return TF-IDF of words and word pairs, not fitted yet.

    Words are scikit-learn's: two or more letters or digits, without punctuation.
    """
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)


TFIDF = Baseline(
    "TF-IDF of words",
    bag_of_words,
    lambda c: LogisticRegression(C=c, max_iter=1000),
    tuple(2.0**exponent for exponent in range(-2, 9)),
)
