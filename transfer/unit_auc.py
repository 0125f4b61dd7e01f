"""What labelled texts say of each unit alone: its AUC, by ranks, and the limit of its values."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from mlstm_sentiment.head.head_files import save_areas

COLUMNS = 128  # features sorted together: a gigabyte for 100,000 texts


def per_feature_auc(features: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Return each feature's AUC, float64 [F] or [F, C].

    It is the chance that a positive example has the higher value.

    features: [N, F]; positive: bool [N] or [N, C], some and not all true. Ties count half. From
    ranks (Mann and Whitney 1947).
    """
    positives = positive.sum(0)
    pairs = positives * (len(positive) - positives)
    ranks = (rankdata(block, axis=0) for _, block in blocks_of(features))
    sums = np.concatenate([block.T @ positive for block in ranks])
    return np.asarray((sums - positives * (positives + 1) / 2) / pairs)


def per_unit_auc(features: np.ndarray, labels: np.ndarray, units: int) -> np.ndarray:
    """Return each unit's AUC, float64 [H], as mlstm_sentiment.head.head_files saves it.

    features: [N, F], several poolings of H units side by side; labels: whole numbers [N], or 0 and
    1 for each of C classes [N, C]. The pooling with the AUC farthest from one half counts, over the
    classes that some examples have and others lack.
    """
    positive = labels == 1 if labels.ndim > 1 else labels[:, None] == np.unique(labels)
    partly = positive.any(0) & ~positive.all(0)
    if not partly.any():
        return np.full(units, 0.5)
    beyond = per_feature_auc(features, positive[:, partly]) - 0.5  # [F, C]
    of_two = labels.ndim == 1 and beyond.shape[1] == 2
    by_pooling = (beyond[:, -1] if of_two else np.abs(beyond).max(1)).reshape(-1, units)
    farthest = np.abs(by_pooling).argmax(0)  # [H]
    return np.asarray(0.5 + by_pooling[farthest, np.arange(units)])


def per_unit_limit(features: np.ndarray, units: int) -> np.ndarray:
    """Return each unit's limit, [H]: the larger size of its 5th and its 95th percentile.

    features: [N, F], several poolings of H units side by side, of which the largest limit counts.
    """
    ends = np.abs(np.percentile(features, (5, 95), axis=0)).max(0)
    return np.asarray(ends.reshape(-1, units).max(0))


def save_units(folder: Path, features: np.ndarray, labels: np.ndarray, units: int) -> None:
    """Save each unit's AUC and limit in a classifier's folder; see `per_unit_auc`."""
    areas, limits = per_unit_auc(features, labels, units), per_unit_limit(features, units)
    save_areas(folder, areas, limits)


def blocks_of(features: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield some columns at a time, and which they are."""
    for start in range(0, features.shape[1], COLUMNS):
        columns = slice(start, start + COLUMNS)
        yield columns, features[:, columns]
