"""Baselines with which an accuracy has to be compared, on the same split."""

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

    C is chosen on val, as it is for the model's features. If no text of train holds a word, it is
    the most frequent class of train.
    """
    if not any(text.strip() for text in train.texts):
        return np.full(len(test.labels), np.bincount(train.labels).argmax())
    vectorizer = bag_of_words()
    train_features = vectorizer.fit_transform(train.texts)
    val_features = vectorizer.transform(val.texts)
    classifiers = [tfidf_regression(c).fit(train_features, train.labels) for c in TFIDF_C_GRID]
    best = max(classifiers, key=lambda fitted: fitted.score(val_features, val.labels))
    return best.predict(vectorizer.transform(test.texts))


def bag_of_words() -> TfidfVectorizer:
    """Return TF-IDF of words and word pairs, not fitted yet."""
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")


def tfidf_regression(c: float) -> LogisticRegression:
    """Return the regression on it, not fitted yet."""
    return LogisticRegression(C=c, max_iter=1000)
