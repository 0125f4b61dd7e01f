"""Measure F1 on the emotions of tweets, and its baselines."""

from typing import Any

import numpy as np

from data_utils.published_sets.registry import Task
from model.files.weights import LoadedModel
from model.language_model import untrained_like
from transfer.features import FeatureCache

from .accuracy import sizes
from .emotions import EMOTIONS, by_features, by_words, mean_over, scores_of


def measure_f1(
    tweets: Task, loaded: LoadedModel, cache: FeatureCache, untrained: int
) -> dict[str, Any]:
    """Return the measures of E-c: all units, a bag of words, untrained models, constant yes."""
    (fold,) = tweets.folds
    labels = tweets.texts.labels[fold.test]
    sequences = list(map(loaded.tokens, tweets.texts.texts))
    models = [untrained_like(loaded.model, seed) for seed in range(untrained)]
    said = [
        by_features(cache.features(model, sequences, tweets.name), tweets)
        for model in (loaded.model, *models)
    ]
    scores = [scores_of(labels, answers) for answers in said]
    return {
        "task": tweets.name,
        "tested": len(labels),
        "examples": sizes(fold),
        "characters": sum(map(len, tweets.texts.texts)),
        "emotions": list(EMOTIONS),
        "all_units": scores[0],
        "tfidf": scores_of(labels, by_words(tweets.sets)),
        **({"untrained": mean_over(scores[1:])} if models else {}),
        "always": scores_of(labels, np.ones_like(labels)),
    }
