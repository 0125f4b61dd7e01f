"""Lanes that read the reviews in a new order in every pass over the split after the first.

A later pass reads a shuffled copy of the split; its order depends on the seed and the number of the
pass. So a window's content follows from its index alone, not from the number of ranks.
"""

from dataclasses import replace

import numpy as np

from model.text.split import Split

from .lanes import DataConfig, Lanes, Window

MOST_BYTES = 4 << 30  # of a split whose reviews are shuffled; every rank keeps a copy in memory


class Passes:
    """The windows of pass after pass, of which this process reads the lanes `own`."""

    def __init__(self, split: Split, config: DataConfig, lanes: int, seed: int, own: slice):
        self.split, self.config, self.total, self.seed, self.own = split, config, lanes, seed, own
        self._begin(0, 0)
        self.windows_per_epoch = self.lanes.windows_per_epoch

    def assign(self, own: slice) -> None:
        """Read these lanes from now on."""
        self.own = own
        self.lanes.assign(own)

    def __getitem__(self, index: int) -> Window:
        """Return window `index` of the endless sequence of passes."""
        if index < self.first:
            self._begin(0, 0)
        while index - self.first >= self.lanes.windows_per_epoch:
            self._begin(self.number + 1, self.first + self.lanes.windows_per_epoch)
        return self.lanes[index - self.first]

    def _begin(self, number: int, first: int) -> None:
        self.number, self.first = number, first  # of the pass, and its first window
        split = shuffled(self.split, self.seed, number) if number else self.split
        self.lanes = Lanes.configured(split, self.config, self.total, self.seed, self.own)


def shuffled(split: Split, seed: int, number: int) -> Split:
    """Return the split with its reviews in the order of pass `number`, in memory."""
    order = np.random.default_rng([seed, number]).permutation(split.reviews)
    tokens, offsets = np.asarray(split.tokens), np.asarray(split.offsets)
    sizes = np.diff(offsets)[order]
    reviews = [tokens[offsets[review] : offsets[review + 1]] for review in order]
    ends = np.cumsum(sizes, dtype=np.int64)
    return Split(np.concatenate(reviews), np.concatenate([[0], ends]), split.tokenizer)


def settle_shuffle(config: DataConfig, split: Split) -> DataConfig:
    """Settle `data.shuffle auto`: reviews if a copy of the split fits in memory, else shards."""
    if config.shuffle != "auto":
        return config
    fits = split.tokens.nbytes <= MOST_BYTES
    return replace(config, shuffle="reviews" if fits else "shards")


def lanes_of(split: Split, config: DataConfig, lanes: int, seed: int, own: slice) -> Lanes | Passes:
    """Return the lanes of a run whose global batch and `data.shuffle` are settled."""
    if config.shuffle == "reviews":
        return Passes(split, config, lanes, seed, own)
    return Lanes.configured(split, config, lanes, seed, own)
