"""SemEval-2018 E-c: eleven emotions, any number of them in a tweet.

The published test set has no labels, so the validation set is what is tested on, as in Kant et al.
2018's table of single emotions; a tenth of train takes its place. Each emotion has a regression of
its own: C and the cut are those of highest F1 on that tenth. Intervals are percentiles over
tweets drawn again with replacement.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score

from data_utils.labelled import LabelledSet
from data_utils.multilabel import read_label_columns
from transfer.baselines import TFIDF_C_GRID, bag_of_words, tfidf_regression
from transfer.metrics import bootstrap_intervals, describe_choices
from transfer.regression import C_GRID, l1_regression
from transfer.thresholds import choose_threshold

from .tasks import SEED, Fold, joined

EMOTIONS = (
    "anger", "anticipation", "disgust", "fear", "joy", "love", "optimism", "pessimism", "sadness",
    "surprise", "trust",
)  # fmt: skip
PLUTCHIK = ("anger", "anticipation", "disgust", "fear", "joy", "sadness", "surprise", "trust")
VAL_SHARE = 10  # one in so many of train


@dataclass(frozen=True)
class Tweets:
    """All tweets, their labels int64 [N, 11], and what is fitted, chosen and tested on which."""

    texts: LabelledSet
    fold: Fold


def semeval(folder: Path) -> Tweets:
    """Read train.csv and val.csv, with the columns Tweet and one per emotion."""
    parts = read_label_columns([folder / f"{n}.csv" for n in ("train", "val")], "Tweet", EMOTIONS)
    count, total = len(parts[0].texts), sum(len(part.texts) for part in parts)
    order = np.random.default_rng(SEED).permutation(count)
    cut = count // VAL_SHARE
    return Tweets(joined(parts), Fold(order[cut:], order[:cut], np.arange(count, total)))


def by_features(features: np.ndarray, tweets: Tweets) -> np.ndarray:
    """Return int64 [tested, 11]: what L1 regressions on features say of the tested tweets."""
    return _predictions(features.__getitem__, C_GRID, l1_regression, tweets)


def by_words(tweets: Tweets) -> np.ndarray:
    """Return what regressions on TF-IDF of words and pairs say: int64 [tested, 11]."""
    words = bag_of_words().fit(tweets.texts.subset(tweets.fold.train).texts)

    def features(rows: np.ndarray) -> Any:
        return words.transform(tweets.texts.subset(rows).texts)

    return _predictions(features, TFIDF_C_GRID, tfidf_regression, tweets)


def _predictions(
    features: Callable[[np.ndarray], Any],
    grid: Iterable[float],
    regression: Callable[[float], Any],
    tweets: Tweets,
) -> np.ndarray:
    fold = tweets.fold
    train, val, test = (features(rows) for rows in (fold.train, fold.val, fold.test))
    columns = []
    for emotion in range(len(EMOTIONS)):
        labels = tweets.texts.labels[:, emotion]
        chosen: tuple[float, float, Any] = (-1.0, 0.0, None)
        for c in grid:
            with warnings.catch_warnings():  # as in fit_regression, 100 iterations have to do
                warnings.simplefilter("ignore", ConvergenceWarning)
                fitted = regression(c).fit(train, labels[fold.train])
            probabilities = fitted.predict_proba(val)[:, 1]
            threshold = choose_threshold(probabilities, labels[fold.val], "f1")
            told = probabilities > threshold
            f1 = float(f1_score(labels[fold.val], told, zero_division=0.0))
            if f1 > chosen[0]:
                chosen = (f1, threshold, fitted)
        columns.append(chosen[2].predict_proba(test)[:, 1] > chosen[1])
    return np.stack(columns, axis=1).astype(np.int64)


def scores_of(labels: np.ndarray, said: np.ndarray, seed: int = SEED) -> dict[str, Any]:
    """Return the measures of the task, each with its 95 % interval; labels, said [N, 11].

    jaccard: the mean over tweets of emotions shared by emotions in either, 1 where there are none;
    f1 over all decisions (micro), over emotions (macro), over Plutchik's eight.
    """
    found = describe_choices(labels, said, EMOTIONS, seed)
    eight = [EMOTIONS.index(name) for name in PLUTCHIK]
    spread = bootstrap_intervals(labels[:, eight], said[:, eight], seed)
    measures = {"jaccard": "jaccard_samples", "micro_f1": "f1_micro", "macro_f1": "f1_macro"}
    return {
        **{
            name: {"value": found[key], "interval": found[f"{key}_interval"]}
            for name, key in measures.items()
        },
        "plutchik_f1": {
            "value": float(np.mean([found["per_class"][name]["f1"] for name in PLUTCHIK])),
            "interval": spread["f1_macro_interval"],
        },
    }


def mean_over(scores: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the means over several models of the measures and of the ends of their intervals."""
    return {
        name: {
            "value": float(np.mean([score[name]["value"] for score in scores])),
            "interval": np.mean([score[name]["interval"] for score in scores], axis=0).tolist(),
            "values": [score[name]["value"] for score in scores],
        }
        for name in scores[0]
    }
