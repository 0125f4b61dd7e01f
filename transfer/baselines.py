"""Baselines with which an accuracy has to be compared, on the same split."""

from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from data_utils.labelled import LabelledSet

TFIDF_C_GRID = tuple(2.0**exponent for exponent in range(-2, 9))


def majority_accuracy(train: LabelledSet, test: LabelledSet) -> float:
    """Return the accuracy of always predicting the most frequent class of train."""
    majority = int(np.bincount(train.labels).argmax())
    return float((test.labels == majority).mean())


def tfidf_accuracy(train: LabelledSet, val: LabelledSet, test: LabelledSet) -> float:
    """Return the accuracy of logistic regression on TF-IDF of words and word pairs."""
    return float((tfidf_choices(train, val, test) == test.labels).mean())


def tfidf_choices(train: LabelledSet, val: LabelledSet, test: LabelledSet) -> np.ndarray:
    """Return the classes, int64 [N], that a regression on words and word pairs predicts for test.

    C is chosen on val, as it is for the model's features. If no text of train has a word, it is the
    most frequent class of train.
    """
    vectorizer = bag_of_words()
    if not any(map(vectorizer.build_analyzer(), train.texts)):
        return np.full(len(test.labels), np.bincount(train.labels).argmax())
    fitted = vectorizer.fit_transform(train.texts), train.labels
    held_out = vectorizer.transform(val.texts), val.labels
    return best_tfidf_regression(fitted, held_out).predict(vectorizer.transform(test.texts))


def bag_of_words() -> TfidfVectorizer:
    """Return TF-IDF of words and word pairs, not fitted yet.

    A word is what scikit-learn takes for one: two or more letters or digits, without the marks.
    """
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)


def best_tfidf_regression(
    train: tuple[Any, np.ndarray], val: tuple[Any, np.ndarray]
) -> LogisticRegression:
    """Return the regression fitted to train with the C that is best on val; features, labels."""
    fits = [tfidf_regression(c).fit(*train) for c in TFIDF_C_GRID]
    return max(fits, key=lambda fitted: fitted.score(*val))


def tfidf_regression(c: float) -> LogisticRegression:
    """Return the regression on it, not fitted yet."""
    return LogisticRegression(C=c, max_iter=1000)
