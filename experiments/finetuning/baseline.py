"""Measure the baselines without a model: a bag of words, and a constant answer."""

from typing import Any

import numpy as np

from data_utils.labelled import LabelledSet
from experiments.reproduction.emotions import by_words, plutchik_f1
from transfer.baselines import tfidf_choices
from transfer.metrics import describe_choices

from .variants import Sets


def baselines(sets: Sets) -> dict[str, dict[str, Any]]:
    """Return the metrics of the baselines on test, by name; sets: train, val, test."""
    train, val, test = sets
    told = {
        "bag_of_words": by_words(sets) if test.is_multilabel else tfidf_choices(train, val, test),
        "constant": constant(train, test),
    }
    return {
        name: with_plutchik(
            describe_choices(test.labels, choices, test.classes), test.labels, choices
        )
        for name, choices in told.items()
    }


def constant(train: LabelledSet, test: LabelledSet) -> np.ndarray:
    """Return the commoner class of train for every text; in multi-label sets, every label."""
    if test.is_multilabel:
        return np.ones_like(test.labels)
    return np.full_like(test.labels, np.bincount(train.labels).argmax())


def with_plutchik(
    scores: dict[str, Any], labels: np.ndarray, choices: np.ndarray
) -> dict[str, Any]:
    """Return the metrics; for emotions, add the mean F1 of Plutchik's eight."""
    if labels.ndim == 1:
        return scores
    eight = plutchik_f1(labels, choices)
    return {**scores, "f1_plutchik": eight["value"], "f1_plutchik_interval": eight["interval"]}
