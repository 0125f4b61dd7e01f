"""Lanes that read the reviews in a new order in every epoch after the first.

A later epoch reads a shuffled copy of the split; its order depends on the seed and the epoch's
number. So a window's content follows from its index alone, not from the number of ranks. If it is
balanced, the lanes end together; otherwise each ends where the review ends that it is in when its
equal span of the copy does.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from model.text.split import Split

from .lanes import DataConfig, Lanes, WindowBatch

MOST_BYTES = 4 << 30  # of a split whose reviews are shuffled; every rank keeps a copy in memory
COPIED_AT_ONCE = 1 << 14  # reviews


class _Deal(NamedTuple):
    """What an epoch reads."""

    order: np.ndarray  # reviews of the split, by index, int64 [n]
    cuts: np.ndarray | None  # between shards, places in the order, int64 [S + 1]; None: equal spans


class Epochs:
    """The windows of epoch after epoch, of which this process reads the lanes `own`."""

    def __init__(self, split: Split, config: DataConfig, lanes: int, seed: int, own: slice):
        self.split, self.config, self.total, self.seed, self.own = split, config, lanes, seed, own
        self._begin(0, 0)
        self.windows_per_epoch = self.lanes.windows_per_epoch

    def assign(self, own: slice) -> None:
        """Read these lanes from now on."""
        self.own = own
        self.lanes.assign(own)

    def __getitem__(self, index: int) -> WindowBatch:
        """Return window `index` of the endless sequence of epochs."""
        if not 0 <= index - self.first < self.lanes.windows_per_epoch:
            number, first = self._epoch_of(index)
            del self.lanes  # so that no two shuffled copies are in memory
            self._begin(number, first)
        return self.lanes[index - self.first]

    def _begin(self, number: int, first: int) -> None:
        self.number, self.first = number, first  # of the epoch, and its first window
        split, cuts = self.split, None
        if number:
            order, cuts = self._deal(number)
            split = taken(split, order)
        self.lanes = self._lanes_of(split, cuts)

    def _lanes_of(self, split: Split, cuts: np.ndarray | None) -> Lanes:
        bounds = None if cuts is None else np.asarray(split.offsets)[cuts]
        return Lanes.configured(split, self.config, self.total, self.seed, self.own, bounds)

    def _deal(self, number: int) -> _Deal:
        """Return what epoch `number` reads."""
        order = np.random.default_rng([self.seed, number]).permutation(self.split.reviews)
        if self.config.shuffle != "balanced":
            return _Deal(order, None)
        costs = np.diff(np.asarray(self.split.offsets))[order]
        shards = self.config.shards or self.total
        shard_of = balanced(costs, shards)
        by_shard = np.argsort(shard_of, kind="stable")
        cuts = np.searchsorted(shard_of[by_shard], np.arange(shards + 1))
        return _Deal(order[by_shard], cuts)

    def _epoch_of(self, index: int) -> tuple[int, int]:
        """Return the number of a window's epoch, and the epoch's first window."""
        number, first = (self.number, self.first) if index >= self.first else (0, 0)
        while index - first >= (windows := self._windows_of(number)):
            number, first = number + 1, first + windows
        return number, first

    def _windows_of(self, number: int) -> int:
        """Count the windows of an epoch; they follow from the reviews' sizes, without a copy."""
        if number == self.number:
            return self.lanes.windows_per_epoch
        if number == 0:
            return self.windows_per_epoch
        order, cuts = self._deal(number)
        tokens = np.broadcast_to(self.split.tokens[:1], len(self.split.tokens))  # takes no memory
        split = Split(tokens, _offsets(self.split, order), self.split.tokenizer)
        return self._lanes_of(split, cuts).windows_per_epoch


def balanced(costs: np.ndarray, shards: int) -> np.ndarray:
    """Deal items to shards so that the sums of their costs are nearly equal.

    costs: of at least `shards` items, int64 [n]. Returns the shard of each, int64 [n]; every shard
    has one. The largest items come first, each to the shard with the smallest sum (Graham 1969).
    """
    shard_of, sums = np.empty(len(costs), np.int64), np.zeros(shards, np.int64)
    left = np.argsort(-costs, kind="stable")
    while len(left):  # as many at once as go to different shards
        part = left[:shards]
        lowest = np.argsort(sums, kind="stable")[: len(part)]
        smallest_after = np.minimum.accumulate(sums[lowest] + costs[part])
        count = 1 + np.count_nonzero(sums[lowest[1:]] <= smallest_after[:-1])
        part, left, lowest = part[:count], left[count:], lowest[:count]
        shard_of[part] = lowest
        sums[lowest] += costs[part]
    return shard_of


def taken(split: Split, order: np.ndarray) -> Split:
    """Return these reviews of a split, by index, in memory."""
    source, starts = np.asarray(split.tokens), np.asarray(split.offsets)
    offsets = _offsets(split, order)
    tokens = np.empty(offsets[-1], source.dtype)
    for first in range(0, len(order), COPIED_AT_ONCE):  # a view of every review takes memory too
        split.check()
        part = order[first : first + COPIED_AT_ONCE]
        spans = zip(starts[part].tolist(), starts[part + 1].tolist(), strict=True)
        reviews = [source[start:end] for start, end in spans]
        np.concatenate(reviews, out=tokens[offsets[first] : offsets[first + len(part)]])
    return Split(tokens, offsets, split.tokenizer)


def _offsets(split: Split, order: np.ndarray) -> np.ndarray:
    """Return where these reviews begin if they stand end to end, and their end, int64 [n + 1]."""
    sizes = np.diff(np.asarray(split.offsets))[order]
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def settle_shuffle(config: DataConfig, split: Split) -> DataConfig:
    """Settle `data.shuffle auto`: balanced if a copy of the split fits in memory, else shards."""
    if config.shuffle != "auto":
        return config
    fits = split.tokens.nbytes <= MOST_BYTES
    return replace(config, shuffle="balanced" if fits else "shards")


def lanes_of(split: Split, config: DataConfig, lanes: int, seed: int, own: slice) -> Lanes | Epochs:
    """Return the lanes of a run whose global batch and `data.shuffle` are settled."""
    if config.shuffle in ("balanced", "reviews"):
        return Epochs(split, config, lanes, seed, own)
    return Lanes.configured(split, config, lanes, seed, own)
