"""Lanes that read the reviews in a new order in every epoch after the first.

A later epoch reads a shuffled copy of the split; its order depends on the seed and the epoch's
number. So a window's content follows from its index alone, not from the number of ranks.
"""

from dataclasses import replace

import numpy as np

from model.text.split import Split

from .lanes import DataConfig, Lanes, WindowBatch

MOST_BYTES = 4 << 30  # of a split whose reviews are shuffled; every rank keeps a copy in memory
COPIED_AT_ONCE = 1 << 14  # reviews


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
        split = shuffled(self.split, self.seed, number) if number else self.split
        self.lanes = self._lanes_of(split)

    def _lanes_of(self, split: Split) -> Lanes:
        return Lanes.configured(split, self.config, self.total, self.seed, self.own)

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
        offsets = _offsets(self.split, _order(self.split, self.seed, number))
        tokens = np.broadcast_to(self.split.tokens[:1], len(self.split.tokens))  # takes no memory
        return self._lanes_of(Split(tokens, offsets, self.split.tokenizer)).windows_per_epoch


def shuffled(split: Split, seed: int, number: int) -> Split:
    """Return the split with its reviews in the order of epoch `number`, in memory."""
    return taken(split, _order(split, seed, number))


def taken(split: Split, order: np.ndarray) -> Split:
    """Return these reviews of a split, by index, in memory."""
    source, starts = np.asarray(split.tokens), np.asarray(split.offsets)
    offsets = _offsets(split, order)
    tokens = np.empty(offsets[-1], source.dtype)
    for first in range(0, len(order), COPIED_AT_ONCE):  # a view of every review takes memory too
        part = order[first : first + COPIED_AT_ONCE]
        spans = zip(starts[part].tolist(), starts[part + 1].tolist(), strict=True)
        reviews = [source[start:end] for start, end in spans]
        np.concatenate(reviews, out=tokens[offsets[first] : offsets[first + len(part)]])
    return Split(tokens, offsets, split.tokenizer)


def _order(split: Split, seed: int, number: int) -> np.ndarray:
    """Return the reviews in the order of an epoch, by index, int64 [n]."""
    return np.random.default_rng([seed, number]).permutation(split.reviews)


def _offsets(split: Split, order: np.ndarray) -> np.ndarray:
    """Return where these reviews begin if they stand end to end, and their end, int64 [n + 1]."""
    sizes = np.diff(np.asarray(split.offsets))[order]
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def settle_shuffle(config: DataConfig, split: Split) -> DataConfig:
    """Settle `data.shuffle auto`: reviews if a copy of the split fits in memory, else shards."""
    if config.shuffle != "auto":
        return config
    fits = split.tokens.nbytes <= MOST_BYTES
    return replace(config, shuffle="reviews" if fits else "shards")


def lanes_of(split: Split, config: DataConfig, lanes: int, seed: int, own: slice) -> Lanes | Epochs:
    """Return the lanes of a run whose global batch and `data.shuffle` are settled."""
    if config.shuffle == "reviews":
        return Epochs(split, config, lanes, seed, own)
    return Lanes.configured(split, config, lanes, seed, own)
