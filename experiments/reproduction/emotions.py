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

from data_utils.records import read_records
from model.errors import InputError
from transfer.baselines import TFIDF_C_GRID, bag_of_words, tfidf_regression
from transfer.regression import C_GRID, l1_regression

from .tasks import SEED, Fold

EMOTIONS = (
    "anger", "anticipation", "disgust", "fear", "joy", "love", "optimism", "pessimism", "sadness",
    "surprise", "trust",
)  # fmt: skip
PLUTCHIK = ("anger", "anticipation", "disgust", "fear", "joy", "sadness", "surprise", "trust")
VAL_SHARE = 10  # one in so many of train
RESAMPLES = 1000


@dataclass(frozen=True)
class Tweets:
    """All tweets, which emotions each has, and what is fitted, chosen and tested on which."""

    texts: list[str]
    labels: np.ndarray  # int64 [N, 11], in the order of EMOTIONS
    fold: Fold


def semeval(folder: Path) -> Tweets:
    """Read train.csv and val.csv, with the columns Tweet and one per emotion."""
    texts: list[str] = []
    rows: list[list[int]] = []
    counts = []
    for name in ("train", "val"):
        for record in read_records(folder / f"{name}.csv", strict=True):
            texts.append(str(record.get("Tweet", "")))
            rows.append([_flag(record, emotion) for emotion in EMOTIONS])
        counts.append(len(texts))
    order = np.random.default_rng(SEED).permutation(counts[0])
    cut = counts[0] // VAL_SHARE
    fold = Fold(order[cut:], order[:cut], np.arange(*counts))
    return Tweets(texts, np.array(rows), fold)


def _flag(record: Any, emotion: str) -> int:
    if record.get(emotion) not in ("0", "1"):
        raise InputError(f"{record.place}: {emotion!r} is neither 0 nor 1")
    return int(record[emotion])


def by_features(features: np.ndarray, tweets: Tweets) -> np.ndarray:
    """Return int64 [tested, 11]: what L1 regressions on features say of the tested tweets."""
    return _predictions(features.__getitem__, C_GRID, l1_regression, tweets)


def by_words(tweets: Tweets) -> np.ndarray:
    """Return what regressions on TF-IDF of words and pairs say: int64 [tested, 11]."""
    words = bag_of_words().fit([tweets.texts[row] for row in tweets.fold.train])

    def features(rows: np.ndarray) -> Any:
        return words.transform([tweets.texts[row] for row in rows])

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
        labels = tweets.labels[:, emotion]
        chosen: tuple[float, float, Any] = (-1.0, 0.0, None)
        for c in grid:
            with warnings.catch_warnings():  # as in fit_regression, 100 iterations have to do
                warnings.simplefilter("ignore", ConvergenceWarning)
                fitted = regression(c).fit(train, labels[fold.train])
            f1, cut = best_cut(fitted.decision_function(val), labels[fold.val])
            if f1 > chosen[0]:
                chosen = (f1, cut, fitted)
        columns.append(chosen[2].decision_function(test) > chosen[1])
    return np.stack(columns, axis=1).astype(np.int64)


def best_cut(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return the highest F1 of saying yes above a cut, and that cut; scores, labels [N]."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    said = np.arange(1, len(scores) + 1)
    f1 = 2 * labels[order].cumsum() / (said + labels.sum())
    f1[:-1][ordered[:-1] == ordered[1:]] = -1  # equal scores cannot be cut apart
    best = int(f1.argmax())
    below = ordered[best + 1] if best + 1 < len(ordered) else ordered[best] - 2
    return float(f1[best]), float((ordered[best] + below) / 2)


def scores_of(labels: np.ndarray, said: np.ndarray, seed: int = SEED) -> dict[str, Any]:
    """Return the measures of the task, each with its 95 % interval; labels, said [N, 11].

    jaccard: the mean over tweets of emotions shared by emotions in either, 1 where there are none;
    f1 over all decisions (micro), over emotions (macro), over Plutchik's eight.
    """
    drawn = np.random.default_rng(seed).multinomial(
        len(labels), np.full(len(labels), 1 / len(labels)), size=RESAMPLES
    )  # [R, N]: how often each tweet is in a resample
    point = _measures(labels, said, np.ones((1, len(labels))))
    spread = _measures(labels, said, drawn)
    return {
        name: {"value": float(point[name][0]),
               "interval": np.percentile(spread[name], [2.5, 97.5]).tolist()}
        for name in point
    }  # fmt: skip


def _measures(labels: np.ndarray, said: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Return each measure [R] for R weightings of the tweets, [R, N]."""
    both, either = labels & said, labels | said
    shared, any_of = both.sum(1), either.sum(1)
    jaccard = np.where(any_of > 0, shared / np.maximum(any_of, 1), 1.0)
    right, wrong = weights @ both, weights @ (either - both)  # [R, 11]
    eight = [EMOTIONS.index(name) for name in PLUTCHIK]
    by_emotion = _f1(right, wrong)
    return {
        "jaccard": weights @ jaccard / weights.sum(1),
        "micro_f1": _f1(right.sum(1), wrong.sum(1)),
        "macro_f1": by_emotion.mean(1),
        "plutchik_f1": by_emotion[:, eight].mean(1),
    }


def _f1(right: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return F1 from what was said and true, and what was only one of them; 0 of nothing."""
    return 2 * right / np.maximum(2 * right + wrong, 1e-12)


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
