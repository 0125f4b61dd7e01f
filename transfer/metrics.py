"""Metrics of a classifier's labels: scikit-learn's, with 95 % intervals; the best threshold.

F1, precision, recall and Jaccard of a class that neither occurs nor is predicted are 0. A text
without labels for which none is predicted counts as right: 1 in `jaccard_samples`, which is
SemEval's "accuracy".
"""

from typing import Any, Literal

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    jaccard_score,
    matthews_corrcoef,
    precision_score,
    recall_score,
)

from .regression import CONFIDENCE, accuracy_interval

_RESAMPLES = 1000
_STANDARD_ERRORS = 2.0  # by which a threshold must be better than one half
COUNTS_AT_ONCE = 2**23  # of the texts in the draws: 64 MB
_AVERAGED = {
    "f1": f1_score,
    "precision": precision_score,
    "recall": recall_score,
    "jaccard": jaccard_score,
}


def describe_choices(
    labels: np.ndarray, choices: np.ndarray, classes: tuple[str, ...], seed: int = 0
) -> dict[str, Any]:
    """Return every metric of choices against labels: int64 [N], or [N, C] of 0 and 1.

    If a text may have several labels, `accuracy` and `mcc` are over all N x C decisions, and
    `subset_accuracy` counts the texts that are right in every class. Intervals of counts over texts
    are Wilson's, the others a bootstrap over texts.
    """
    result: dict[str, Any] = {"examples": len(labels), **metrics_of(labels, choices, len(classes))}
    truth, predicted = (_as_indicators(values, len(classes)) for values in (labels, choices))
    result |= bootstrap_intervals(truth, predicted, seed)
    if labels.ndim == 1:
        del result["jaccard_samples_interval"]  # with one label, the accuracy, as micro F1
        interval = accuracy_interval(result["accuracy"], len(labels))
        result |= {"accuracy_interval": interval, "f1_micro_interval": interval}
    else:
        pairs = zip(labels.T, choices.T, strict=True)
        result["mcc_macro"] = float(np.mean([correlation(t, c) for t, c in pairs]))
        result["subset_accuracy"] = float(accuracy_score(labels, choices))
        result["subset_accuracy_interval"] = accuracy_interval(
            result["subset_accuracy"], len(labels)
        )
        result["jaccard_samples"] = float(
            jaccard_score(labels, choices, average="samples", zero_division=1.0)
        )
    result["per_class"] = {
        name: _describe_class(truth[:, place], predicted[:, place])
        for place, name in enumerate(classes)
    }
    return result


def metrics_of(labels: np.ndarray, choices: np.ndarray, classes: int) -> dict[str, float]:
    """Return the metrics that are one number for all kinds of labels; macro is over all classes."""
    result = {
        "accuracy": float(np.mean(labels == choices)),
        "mcc": correlation(labels.ravel(), choices.ravel()),
    }
    truth, predicted = (_as_indicators(values, classes) for values in (labels, choices))
    for name, score in _AVERAGED.items():
        for average in ("micro", "macro"):
            value = score(truth, predicted, average=average, zero_division=0.0)
            result[f"{name}_{average}"] = float(value)
    return result


def _describe_class(truth: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Return the metrics of one class against the rest: truth and predicted [N], 0 or 1."""
    accuracy = float(accuracy_score(truth, predicted))
    scores = {name: float(s(truth, predicted, zero_division=0.0)) for name, s in _AVERAGED.items()}
    return {
        "positives": int(truth.sum()),
        "accuracy": accuracy,
        "accuracy_interval": accuracy_interval(accuracy, len(truth)),
        **scores,
        "mcc": correlation(truth, predicted),
    }


def correlation(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Return Matthews' correlation coefficient [-1, 1]; 0 if it is not defined."""
    if len(np.union1d(truth, predicted)) < 2:
        return 0.0
    return float(matthews_corrcoef(truth, predicted))


def _as_indicators(labels: np.ndarray, classes: int) -> np.ndarray:
    """Return int64 [N, C], 0 or 1, for labels [N] or [N, C]."""
    return labels if labels.ndim == 2 else np.eye(classes, dtype=np.int64)[labels]


def bootstrap_intervals(
    truth: np.ndarray, predicted: np.ndarray, seed: int
) -> dict[str, list[float]]:
    """Return 95 % intervals of metrics pooled over texts, from RESAMPLES draws of texts.

    Where draws are all 0 or all 1, they say nothing: the interval is that of an accuracy.

    truth and predicted: [N, C], 0 or 1. Every draw weighs each text by how often it was drawn.
    """
    N, C = truth.shape
    union = (truth | predicted).sum(1)
    jaccard = np.where(union > 0, (truth & predicted).sum(1) / np.maximum(union, 1), 1.0)
    each = np.concatenate(
        [truth * predicted, truth != predicted, jaccard[:, None]], axis=1
    )  # [N, 2C + 1]
    tp, wrong, jaccard = np.split(resampled_sums(each, seed), [C, 2 * C], axis=1)  # [R, ...]
    draws = {
        "f1_micro": 2 * tp.sum(1) / np.maximum((2 * tp + wrong).sum(1), 1),
        "f1_macro": (2 * tp / np.maximum(2 * tp + wrong, 1)).mean(1),
        "jaccard_samples": jaccard[:, 0] / N,
        "accuracy": 1 - wrong.mean(1) / N,
    }
    tails = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    found = {f"{name}_interval": np.quantile(v, tails).tolist() for name, v in draws.items()}
    return {
        name: accuracy_interval(low, N) if low == high and low in (0, 1) else [low, high]
        for name, (low, high) in found.items()
    }


def resampled_sums(values: np.ndarray, seed: int) -> np.ndarray:
    """Return the sums float64 [R, K] of rows of values [N, K] drawn N times, in RESAMPLES draws."""
    N = len(values)
    rng, uniform = np.random.default_rng(seed), np.full(N, 1 / N)
    rows = max(1, COUNTS_AT_ONCE // N)
    return np.concatenate([
        rng.multinomial(N, uniform, size=min(rows, _RESAMPLES - start)) @ values
        for start in range(0, _RESAMPLES, rows)
    ])  # fmt: skip


def choose_threshold(
    probabilities: np.ndarray, labels: np.ndarray, metric: Literal["f1", "accuracy"] = "accuracy"
) -> float:
    """Return the threshold above which an example has the class.

    probabilities: float64 [N]; labels [N], 0 or 1. The best cut by the metric; of equally good
    cuts, the one nearest 0.5. Returns 0.5 if all labels are equal, and for accuracy also if the
    gain over 0.5 is within chance.
    """
    negatives, positives = (np.sort(probabilities[labels == label]) for label in (0, 1))
    if not len(positives) or not len(negatives):
        return 0.5
    ends = np.concatenate([[0.0], np.unique(probabilities), [1.0]])
    # One between every two neighbours, one outside each end, and one half.
    cuts = np.append((ends[:-1] + ends[1:]) / 2, 0.5)
    tp = len(positives) - np.searchsorted(positives, cuts, side="right")
    tn = np.searchsorted(negatives, cuts, side="right")
    if metric == "accuracy":
        scores = tp + tn  # a whole number
    else:
        fp, fn = len(negatives) - tn, len(positives) - tp
        scores = 2 * tp / np.maximum(2 * tp + fp + fn, 1)
    best = cuts[scores == scores.max()]
    cut = float(best[np.abs(best - 0.5).argmin()])
    if metric == "accuracy":
        changed = (probabilities > cut) != (probabilities > 0.5)
        gain = int(scores.max() - scores[-1])
        return cut if gain > _STANDARD_ERRORS * np.sqrt(changed.sum()) else 0.5
    return cut
