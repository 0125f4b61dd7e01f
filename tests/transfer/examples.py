"""Labelled texts and features for transfer, small and with a known answer."""

import numpy as np

from data_utils.labelled import LabelledSet
from data_utils.synthetic import synthetic_reviews
from transfer.regression import Examples


def make_examples(count, seed, polarity=1.0):
    """Unit 3 of 8 shows the label, the others are noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    features = rng.normal(size=(count, 8)).astype(np.float32)
    features[:, 3] += polarity * 2 * (2 * labels - 1)
    return Examples(features, labels)


def make_set(count, seed):
    reviews = list(synthetic_reviews(count, seed))
    labels = np.array([review.label for review in reviews])
    return LabelledSet([review.text for review in reviews], labels, ("0", "1"))


def with_questions(part, count):
    """The set with a third class, of texts that are alike and short."""
    texts = part.texts + [f"Does it fit {number}?" for number in range(count)]
    labels = np.concatenate([part.labels, np.full(count, 2)])
    return LabelledSet(texts, labels, ("0", "1", "question"))
