"""A split as lanes: contiguous streams of text whose state is carried from window to window.

An epoch reads the whole split once: it is cut where reviews begin, into as many spans of nearly
equal length as there are lanes, and each lane reads one. All lanes start the next epoch together,
so lanes with shorter spans read padding until the longest one ends. So every epoch has the same
number of windows.

What a lane reads in a window depends only on the corpus, the number of lanes, how later epochs are
shuffled, the window's length, the seed and the index of the window. It does not depend on the
number of ranks. So a checkpoint needs only one integer to continue at its place in the data.

With data.shuffle even, every epoch reads a copy of the reviews, assigned to lanes that are nearly
equal, so all lanes end together. The first epoch has the file's order, later ones are shuffled.
With shards, a later epoch gives the same spans to other lanes. The order depends on the seed and
the epoch's number. `TextClock` says how many steps read how many epochs.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mlstm_sentiment.bounds import SAVED, Bound, Closed, PositiveInt, check_bounds
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.split import Split, span_bounds
from mlstm_sentiment.text.tokenizer import BYTES

MOST_BYTES = 4 << 30  # of a split whose reviews are shuffled; every rank keeps a copy in memory
COPIED_AT_ONCE = 1 << 14  # reviews
_PADDED_AT_ONCE = 1 << 10  # rows of a window, which stay in a core's cache

Shuffle = Literal["auto", "even", "shards"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The corpus to read, and the lanes that read it."""

    CLOSED: ClassVar = {"shards": Closed("94c10db0")}
    EXCLUSIVE: ClassVar = ("lanes", "lanes_per_rank")

    corpus: Path | None = None
    """A folder made by scripts/prepare_corpus.py. Default: the embedded synthetic reviews."""
    lanes: PositiveInt | None = None
    """The global batch: the lanes of all ranks together. Default: 64, or by lanes_per_rank."""
    lanes_per_rank: PositiveInt | None = None
    """The global batch, given as lanes of each rank at the first start instead of as a total."""
    first_lanes_per_rank: Annotated[PositiveInt | None, SAVED] = None
    """The lanes_per_rank of the first start, by which lanes was set."""
    window: Annotated[int, Bound(min=1, max=1 << 20)] = 128
    """T, tokens per window and lane: bytes, unless the corpus has a vocabulary. Gradients reach no
    further back."""
    shuffle: Annotated[Shuffle, SAVED] = "auto"
    """What every epoch after the first shuffles. even: reviews; every epoch assigns them to the
    lanes so that these end together. shards: spans of the file, within which reviews keep their
    order. auto: even if the split has at most 4 GiB."""

    def __post_init__(self) -> None:
        check_bounds(self, "data.")

    def total_lanes(self, ranks: int) -> int:
        """Return the global batch for a first start on this many ranks."""
        if self.lanes_per_rank is not None:
            return self.lanes_per_rank * ranks
        return self.lanes or 64


class WindowBatch(NamedTuple):
    """The next window of each of B lanes: T predictions."""

    tokens: np.ndarray  # as in the corpus, [B, T + 1]; position t predicts t + 1
    lengths: np.ndarray  # int64 [B], predictions that count; the rest of the row is padding
    reset: np.ndarray  # bool [B], the lane's state starts from zero here
    transitions: int  # predictions that count, over the lanes of all ranks
    characters: int  # bytes of text that these predictions cover
    active_fraction: float = 1.0  # of the most predictions a window can have, over all ranks


class _Epoch(NamedTuple):
    """What the lanes read in an epoch."""

    number: int
    tokens: np.ndarray
    begins: np.ndarray  # int64 [lanes], where each lane's span begins in the tokens
    ends: np.ndarray


class Lanes:
    """The windows of a run, epoch after epoch; this process reads the lanes `own`."""

    def __init__(
        self,
        split: Split,
        *,
        lanes: int,
        window: int,
        seed: int = 0,
        own: slice = slice(None),
        shuffles_reviews: bool = False,
    ):
        self.split, self.window, self.seed, self.own = split, window, seed, own
        self.lanes, self.shuffles_reviews = lanes, shuffles_reviews
        self.bounds = span_bounds(split, lanes)  # [lanes + 1]; refuses too little text
        sizes = np.diff(self.bounds)
        if shuffles_reviews:
            # `balanced` begins with the largest reviews: in every order it gives the same sizes.
            reviews = np.diff(np.asarray(split.offsets))
            sizes = np.bincount(balanced(reviews, lanes), weights=reviews).astype(np.int64)
        longest = int(sizes.max()) - 1  # may be shorter than a window
        self.fullest = min(window, longest)  # most predictions of a lane in a window
        self.windows = -(-longest // window)  # of every epoch
        # Made when one of its windows is read: a copy takes time and memory.
        self._epoch: _Epoch | None = None

    def assign(self, own: slice) -> None:
        """Read these lanes from now on."""
        self.own = own

    def __getitem__(self, index: int) -> WindowBatch:
        """Return window `index` of the endless sequence of epochs."""
        number, within = divmod(index, self.windows)
        epoch = self._epoch_of(number)
        starts = np.minimum(epoch.begins + within * self.window, epoch.ends)
        lengths = np.clip(epoch.ends - starts - 1, 0, self.window)
        own = self.own
        tokens = self._tokens_of(epoch.tokens, starts[own], lengths[own])
        transitions = characters = int(lengths.sum())
        if self.split.tokenizer.kind != BYTES.kind:
            # Every rank counts the bytes of all lanes itself: the same number on each.
            everyones = self._tokens_of(epoch.tokens, starts, lengths)
            predicted = np.arange(self.window) < lengths[:, None]
            sizes = self.split.tokenizer.byte_lengths(everyones[:, 1:][predicted])
            characters = int(np.sum(sizes, dtype=np.int64))
        # If lanes end together, all of them read the last window, but little of it is text.
        active_fraction = transitions / (self.lanes * self.fullest)
        reset = np.full(self.lanes, within == 0)
        return WindowBatch(
            tokens, lengths[own], reset[own], transitions, characters, active_fraction
        )

    def _epoch_of(self, number: int) -> _Epoch:
        if self._epoch is None or self._epoch.number != number:
            self._epoch = None  # so that no two shuffled copies are in memory
            self._epoch = self._make_epoch(number)
        return self._epoch

    def _make_epoch(self, number: int) -> _Epoch:
        """Return the text of an epoch; later ones are shuffled by the seed and their number."""
        random = np.random.default_rng([self.seed, number])
        if not self.shuffles_reviews:
            order = np.arange(self.lanes)
            if number:
                random.shuffle(order)
            tokens = np.asarray(self.split.tokens)  # indexing a memmap is slower
            return _Epoch(number, tokens, self.bounds[order], self.bounds[order + 1])
        order = np.arange(self.split.reviews)
        if number:
            order = random.permutation(self.split.reviews)
        sizes = np.diff(np.asarray(self.split.offsets))[order]
        lane_of = balanced(sizes, self.lanes)
        ends = np.bincount(lane_of, weights=sizes).astype(np.int64).cumsum()
        copy = taken(self.split, order[np.argsort(lane_of, kind="stable")])
        return _Epoch(number, copy.tokens, np.concatenate([[0], ends[:-1]]), ends)

    def _tokens_of(self, text: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the tokens of B windows, zero-padded after `lengths` predictions, [B, T + 1]."""
        width = self.window + 1
        sizes = np.where(lengths > 0, lengths + 1, 0)
        last = len(text) - width  # the last position at which a whole row begins
        if last >= 0:
            tokens = sliding_window_view(text, width)[np.minimum(starts, last)]
        else:
            tokens = np.zeros((len(starts), width), dtype=text.dtype)
        for row in np.flatnonzero((starts > last) & (sizes > 0)):
            tokens[row, : sizes[row]] = text[starts[row] : starts[row] + sizes[row]]
        short = np.flatnonzero(sizes < width)
        columns = np.arange(width, dtype=np.min_scalar_type(width))  # narrow ones compare fast
        for first in range(0, len(short), _PADDED_AT_ONCE):
            rows = short[first : first + _PADDED_AT_ONCE]
            tokens[rows] *= columns < sizes[rows, None].astype(columns.dtype)
        return tokens


@dataclass(frozen=True)
class TextClock:
    """Converts between steps of a run and epochs of its text.

    An epoch is the whole text, once; it has the same number of windows every time.

        clock = TextClock(lanes.windows, windows_per_step=1)
        clock.steps(3)  # steps of three epochs
        clock.epochs(1000)  # epochs that the first thousand steps read
        clock.characters(1000)
    """

    windows: float  # of an epoch
    windows_per_step: int = 1
    text: float = 1.0  # characters of an epoch

    def steps(self, epochs: float) -> int:
        """Return the steps that read so many epochs; the last may read on into another one."""
        whole = int(epochs)
        windows = whole * self.windows + round((epochs - whole) * self.windows)
        return max(1, int(-(-windows // self.windows_per_step)))

    def epochs(self, step: int) -> float:
        """Return how many epochs of text lie before a step."""
        return step * self.windows_per_step / self.windows

    def characters(self, step: int) -> float:
        """Return how many characters of text lie before a step."""
        return self.text * self.epochs(step)


def balanced(costs: np.ndarray, lanes: int) -> np.ndarray:
    """Assign items to lanes so that the sums of their costs are nearly equal.

    costs: of at least `lanes` items, int64 [n]. Returns the lane of each, int64 [n]; every lane
    has one. The largest items come first, each to the lane with the smallest sum (Graham 1969).
    """
    lane_of, sums = np.empty(len(costs), np.int64), np.zeros(lanes, np.int64)
    left = np.argsort(-costs, kind="stable")
    while len(left):  # assigns together the next items that go to different lanes
        part = left[:lanes]
        lowest = np.argsort(sums, kind="stable")[: len(part)]
        smallest_after = np.minimum.accumulate(sums[lowest] + costs[part])
        count = 1 + np.count_nonzero(sums[lowest[1:]] <= smallest_after[:-1])
        part, left, lowest = part[:count], left[count:], lowest[:count]
        lane_of[part] = lowest
        sums[lowest] += costs[part]
    return lane_of


def taken(split: Split, order: np.ndarray) -> Split:
    """Copy a split into memory, its reviews in this order, by index."""
    source, starts = np.asarray(split.tokens), np.asarray(split.offsets)
    sizes = np.diff(starts)[order]
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    tokens = np.empty(offsets[-1], source.dtype)
    for first in range(0, len(order), COPIED_AT_ONCE):  # a view of every review takes memory too
        part = order[first : first + COPIED_AT_ONCE]
        spans = zip(starts[part].tolist(), starts[part + 1].tolist(), strict=True)
        reviews = [source[start:end] for start, end in spans]
        np.concatenate(reviews, out=tokens[offsets[first] : offsets[first + len(part)]])
    return Split(tokens, offsets, split.tokenizer)


def settle_shuffle(config: DataConfig, split: Split) -> DataConfig:
    """Choose `data.shuffle` of a new run: even if a copy of the split fits in memory.

    Otherwise shards. Raises InputError if the config, such as another run's, asks for the other.
    """
    chosen: Shuffle = "even" if split.tokens.nbytes <= MOST_BYTES else "shards"
    if config.shuffle not in ("auto", chosen):
        raise InputError(
            f"data.shuffle is {config.shuffle}, but a new run on this corpus must use {chosen}; "
            "leave it out"
        )
    return replace(config, shuffle=chosen)


def lanes_of(split: Split, config: DataConfig, lanes: int, seed: int, own: slice) -> Lanes:
    """Return the lanes of a run whose global batch and `data.shuffle` are resolved."""
    return Lanes(
        split,
        lanes=lanes,
        window=config.window,
        seed=seed,
        own=own,
        shuffles_reviews=config.shuffle != "shards",
    )
