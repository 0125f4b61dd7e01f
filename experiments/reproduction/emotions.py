"""SemEval-2018 E-c: eleven emotions, any number of them in a tweet.

The published test set has no labels, so we test on the validation set, as Kant et al. 2018 do in
their table of single emotions, and choose on a tenth of train. Each emotion has a regression of its
own, whose C and threshold have the highest F1 on that tenth. Intervals are percentiles over tweets
drawn again with replacement.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from data_utils.labelled import LabelledSet
from experiments.published_sets import EMOTIONS, SEED, PublishedTask
from model.inference.weights import LoadedModel, untrained_like
from transfer.baselines import Baseline
from transfer.features import FeatureCache
from transfer.metrics import bootstrap_intervals, choose_threshold, describe_choices
from transfer.regression import C_GRID, l1_path

from .accuracy import sizes

Probabilities = Callable[[Any], np.ndarray]  # features of texts -> of yes, float64 [N]
PLUTCHIK = ("anger", "anticipation", "disgust", "fear", "joy", "sadness", "surprise", "trust")


def measure_f1(
    tweets: PublishedTask, loaded: LoadedModel, cache: FeatureCache, untrained: int
) -> dict[str, Any]:
    """Return the measures of E-c: all units, untrained models, constant yes."""
    (fold,) = tweets.folds
    labels = tweets.texts.labels[fold.test]
    sequences = list(map(loaded.encode, tweets.texts.texts))
    models = [untrained_like(loaded, seed) for seed in range(untrained)]
    predictions = [
        by_features(cache.features(model, sequences, tweets.name), tweets)
        for model in (loaded, *models)
    ]
    scores = [scores_of(labels, answers) for answers in predictions]
    return {
        **summary(tweets, scores, sum(map(len, tweets.texts.texts))),
        "emotions": list(EMOTIONS),
        "always": scores_of(labels, np.ones_like(labels)),
    }


def summary(task: PublishedTask, scores: list[dict[str, Any]], characters: int) -> dict[str, Any]:
    """Return what was tested, and the scores of all units: of the model, then of untrained ones."""
    (fold,) = task.folds
    untrained = {"untrained": mean_over(scores[1:])} if scores[1:] else {}
    return {
        "task": task.name,
        "tested": len(fold.test),
        "examples": sizes(fold),
        "characters": characters,
        "all_units": scores[0],
        **untrained,
    }


def by_features(features: np.ndarray, tweets: PublishedTask) -> np.ndarray:
    """Return the answers of L1 regressions on features for the tested tweets, int64 [N, 11]."""
    (fold,) = tweets.folds
    parts = [features[rows] for rows in (fold.train, fold.val, fold.test)]

    def fits(train: np.ndarray, labels: np.ndarray) -> Iterable[Probabilities]:
        return [solution.probabilities for solution in l1_path(train, labels == 1, C_GRID)]

    return _predictions(parts, tweets.sets, fits)


def by_words(sets: Sequence[LabelledSet], baseline: Baseline) -> np.ndarray:
    """Return the answers of a baseline's regressions, int64 [N, classes].

    sets: train, val, test, any number of classes to a text.
    """
    words = baseline.features().fit(sets[0].texts)
    parts = [words.transform(part.texts) for part in sets]

    def fits(train: Any, labels: np.ndarray) -> Iterable[Probabilities]:
        return (_of_yes(baseline.regression(c).fit(train, labels)) for c in baseline.grid)

    return _predictions(parts, sets, fits)


def _of_yes(fitted: Any) -> Probabilities:
    return lambda features: fitted.predict_proba(features)[:, 1]


def _predictions(
    features: Sequence[Any],
    sets: Sequence[LabelledSet],
    fits: Callable[[Any, np.ndarray], Iterable[Probabilities]],
) -> np.ndarray:
    """Answer with the fit to train, and the threshold, that have the best F1 on val."""
    train, val, test = features
    columns: list[np.ndarray] = []
    for train_labels, val_labels in zip(sets[0].labels.T, sets[1].labels.T, strict=True):
        best, answers = -1.0, np.zeros(0, dtype=bool)
        for probabilities in fits(train, train_labels):
            of_val = probabilities(val)
            threshold = choose_threshold(of_val, val_labels, "f1")
            f1 = float(f1_score(val_labels, of_val > threshold, zero_division=0.0))
            if f1 > best:
                best, answers = f1, probabilities(test) > threshold
        columns.append(answers)
    return np.stack(columns, axis=1).astype(np.int64)


def scores_of(labels: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Return the measures of the task, each with its 95 % interval; labels, predicted [N, 11].

    jaccard: the mean over tweets of the shared emotions over those in either, 1 if there are none;
    f1 over all decisions (micro), over emotions (macro), and over Plutchik's eight.
    """
    metrics = describe_choices(labels, predicted, EMOTIONS, SEED)
    measures = {"jaccard": "jaccard_samples", "micro_f1": "f1_micro", "macro_f1": "f1_macro"}
    return {
        **{
            name: {"value": metrics[key], "interval": metrics[f"{key}_interval"]}
            for name, key in measures.items()
        },
        "plutchik_f1": plutchik_f1(labels, predicted),
    }


def plutchik_f1(labels: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Return the mean F1 of Plutchik's eight emotions and its interval; both arrays [N, 11]."""
    eight = [EMOTIONS.index(name) for name in PLUTCHIK]
    truth, choices = labels[:, eight], predicted[:, eight]
    return {
        "value": float(f1_score(truth, choices, average="macro", zero_division=0.0)),
        "interval": bootstrap_intervals(truth, choices, SEED)["f1_macro_interval"],
    }


def mean_over(scores: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the measures and the ends of their intervals, averaged over several models."""
    return {
        name: {
            "value": float(np.mean([score[name]["value"] for score in scores])),
            "interval": np.mean([score[name]["interval"] for score in scores], axis=0).tolist(),
            "values": [score[name]["value"] for score in scores],
        }
        for name in scores[0]
    }
