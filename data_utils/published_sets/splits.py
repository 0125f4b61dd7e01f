"""Which texts of a set are for fitting, choosing and testing: one split, or ten folds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..labelled import held_out_rows

SEED = 0
FOLDS = 10


@dataclass(frozen=True)
class Fold:
    """Indices into a set's texts, int64 each."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


SplitRule = Callable[[Sequence[int]], list[Fold]]  # from the number of texts in each part


def given_split(counts: Sequence[int]) -> list[Fold]:
    """Take the parts as they are: train, val, test."""
    train, val, test = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    return [Fold(train, val, test)]


def val_of_train(fraction: float, *, shuffled: bool = False) -> SplitRule:
    """Draw val from train, in a set of train and test; both are `shuffled` or keep their order."""

    def split(counts: Sequence[int]) -> list[Fold]:
        train, val = held_out_rows(counts[0], fraction, SEED, shuffled=shuffled)
        return [Fold(train, val, np.arange(counts[0], sum(counts)))]

    return split


def ten_folds(counts: Sequence[int]) -> list[Fold]:
    """Shuffle all texts and cut them into ten folds; a ninth of what is not tested is val."""
    parts = np.array_split(np.random.default_rng(SEED).permutation(sum(counts)), FOLDS)
    folds = []
    for index, test in enumerate(parts):
        chosen = (index + 1) % FOLDS
        train = [part for i, part in enumerate(parts) if i not in (index, chosen)]
        folds.append(Fold(np.concatenate(train), parts[chosen], test))
    return folds
