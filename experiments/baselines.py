"""The baselines of words and characters that studies compare a model with."""

import numpy as np
from scipy.sparse import spmatrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion

from transfer.baselines import TFIDF, Baseline, bag_of_words


class NaiveBayesRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression on features scaled by naive Bayes' log-count ratios, for two classes.

    Wang and Manning 2012, "Baselines and bigrams". Features: 1 for each n-gram in the text.
    """

    def __init__(self, c: float = 1.0):
        self.c = c

    def fit(self, features: spmatrix, labels: np.ndarray) -> "NaiveBayesRegression":
        """Count the n-grams of each class, and fit the regression."""
        self.classes_ = np.unique(labels)
        positive = labels == self.classes_[-1]
        counts = [1 + np.asarray(features[rows].sum(0)).ravel() for rows in (positive, ~positive)]
        of_positive, of_negative = (np.log(count / count.sum()) for count in counts)
        self.ratios_ = of_positive - of_negative
        self.regression_ = sparse_regression(self.c).fit(self._scaled(features), labels)
        return self

    def predict(self, features: spmatrix) -> np.ndarray:
        return self.regression_.predict(self._scaled(features))

    def predict_proba(self, features: spmatrix) -> np.ndarray:
        return self.regression_.predict_proba(self._scaled(features))

    def _scaled(self, features: spmatrix) -> spmatrix:
        return features.multiply(self.ratios_).tocsr()


def words_and_characters() -> FeatureUnion:
    """Return TF-IDF of words and word pairs, and of 2 to 5 characters in a row, not fitted yet."""
    characters = TfidfVectorizer(
        analyzer="char", ngram_range=(2, 5), sublinear_tf=True, min_df=2, dtype=np.float32
    )
    return FeatureUnion([("words", bag_of_words()), ("characters", characters)])


def word_runs() -> CountVectorizer:
    """Return a vectorizer of runs of 1 to 3 words, not fitted yet; punctuation marks are words."""
    return CountVectorizer(ngram_range=(1, 3), binary=True, token_pattern=r"\w+|[^\w\s]")


def sparse_regression(c: float) -> LogisticRegression:
    """Return the regression on millions of features, most of them 0, not fitted yet."""
    return LogisticRegression(C=c, solver="liblinear", dual=True, random_state=0, max_iter=1000)


BASELINES = {
    "tfidf": TFIDF,
    "nb": Baseline(
        "NB-weighted n-grams",
        word_runs,
        NaiveBayesRegression,
        tuple(2.0**exponent for exponent in range(-8, 3, 2)),
    ),
    "words_and_characters": Baseline(
        "TF-IDF of words and characters",
        words_and_characters,
        sparse_regression,
        tuple(2.0**exponent for exponent in range(-2, 7, 2)),
    ),
}
