"""A bag of words for the same task: TF-IDF and a logistic regression for each class."""

from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from data_utils.labelled import LabelledSet
from transfer.baselines import TFIDF_C_GRID
from transfer.metrics import as_indicators, describe_choices, metrics_of
from transfer.thresholds import choose_thresholds


def bag_of_words(train: LabelledSet, val: LabelledSet, test: LabelledSet) -> dict[str, Any]:
    """Fit on train, choose C and the thresholds on val; return the metrics on test.

    Of classes that exclude each other the likeliest is taken; else each has a threshold by F1.
    """
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")
    features = [vectorizer.fit_transform(train.texts)]
    features += [vectorizer.transform(part.texts) for part in (val, test)]
    classes = len(train.classes)
    truth = as_indicators(train.labels, classes)
    tried = []
    for c in TFIDF_C_GRID:
        fits = [LogisticRegression(C=c, max_iter=1000).fit(features[0], y) for y in truth.T]
        known = [
            np.stack([fit.predict_proba(part)[:, 1] for fit in fits], axis=1)  # [N, C]
            for part in features[1:]
        ]
        chosen = [choose(probabilities, known[0], val) for probabilities in known]
        metrics = metrics_of(val.labels, chosen[0], classes)
        tried.append((metrics["f1_macro" if val.is_multilabel else "accuracy"], chosen[1]))
    _, choices = max(tried, key=lambda row: row[0])
    return describe_choices(test.labels, choices, test.classes)


def choose(probabilities: np.ndarray, on_val: np.ndarray, val: LabelledSet) -> np.ndarray:
    """Return labels [N], or [N, C] of 0 and 1, for probabilities [N, C] of any set."""
    if not val.is_multilabel:
        return probabilities.argmax(1)
    return (probabilities > choose_thresholds(on_val, val.labels, "f1")).astype(np.int64)
