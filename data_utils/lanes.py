"""A split as lanes: contiguous streams of text whose state is carried from window to window.

The split is cut into shards of nearly equal length; each begins where a review begins. A lane reads
whole shards, one after the other. In a round every lane reads one shard. All lanes start the next
round together, so lanes with shorter shards read padding until the longest shard ends.

What a lane reads in a window depends only on the corpus, the numbers of lanes and shards, how later
epochs are shuffled, the window's length, the seed and the index of the window. It does not depend
on the number of ranks. So a checkpoint needs only one integer to continue at its place in the data.

With data.shuffle even, every epoch reads a copy of the reviews, assigned to shards that are nearly
equal, so all lanes end together (`Epochs`). The first epoch has the file's order, later ones are
shuffled. With shards, a later epoch reads the same shards in another order (`Lanes`). The order
depends on the seed and the epoch's number. `TextClock` says how many steps read how many epochs.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Annotated, Literal, NamedTuple, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mlstm_sentiment.bounds import SAVED, Bound, PositiveInt, check_bounds, check_exclusive
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.split import Split, shard_bounds
from mlstm_sentiment.text.tokenizer import BYTES

COUNTED_AT_ONCE = 1 << 10  # windows whose bytes of text are counted together
MOST_BYTES = 4 << 30  # of a split whose reviews are shuffled; every rank keeps a copy in memory
COPIED_AT_ONCE = 1 << 14  # reviews
_PADDED_AT_ONCE = 1 << 10  # rows of a window, which stay in a core's cache

Shuffle = Literal["auto", "even", "shards"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The corpus to read, and the lanes that read it."""

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
    shards: PositiveInt | None = None
    """Number of shards, equal in size, into which an epoch divides the reviews; each lane reads
    whole shards. Default: the number of lanes. Give a multiple of it, so that all lanes have text
    until an epoch's end."""
    shuffle: Annotated[Shuffle, SAVED] = "auto"
    """What every epoch after the first shuffles. even: reviews; every epoch assigns them to the
    lanes so that these end together. shards: shards, within which reviews keep their order. auto:
    even if the split has at most 4 GiB."""

    def __post_init__(self) -> None:
        check_bounds(self, "data.")
        check_exclusive(self, "data.", "lanes", "lanes_per_rank")

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
    """The schedule of one pass over the shards; windows are counted from the start of the run."""

    begin: int
    order: np.ndarray  # shards in the order of reading, `lanes` of them in each round
    round_ends: np.ndarray  # window at which each round ends


class Lanes:
    """The windows of a split, epoch after epoch; later epochs reorder the shards.

    With data.shuffle shards a run uses this class alone; else `Epochs` makes one for each epoch.
    This process reads only the lanes `own`.
    """

    def __init__(
        self,
        split: Split,
        *,
        lanes: int,
        window: int,
        shards: int | None = None,
        seed: int = 0,
        own: slice = slice(None),
        bounds: np.ndarray | None = None,
    ):
        """Take a split.

        bounds: where its shards begin and end, int64 [shards + 1]; None: equal spans.
        """
        self.tokens = np.asarray(split.tokens)  # indexing a memmap is slower
        self.tokenizer, self.check = split.tokenizer, split.check
        self.lanes, self.window, self.seed = lanes, window, seed
        self.assign(own)
        shards = lanes if shards is None else shards
        if shards < lanes:
            raise InputError(f"data.shards is {shards}, fewer than the {lanes} lanes; give more")
        self.bounds = shard_bounds(split, shards) if bounds is None else bounds  # [S + 1]
        longest = int(np.diff(self.bounds).max()) - 1  # may be shorter than a window
        self.fullest = min(window, longest)  # most predictions of a lane in a window
        self.shard_windows = -(-np.maximum(np.diff(self.bounds) - 1, 0) // window)  # [S]
        self._planning = Lock()
        self._epochs = [self._plan(0, 0)]  # more are planned when their windows are needed

    def assign(self, own: slice) -> None:
        """Read these lanes from now on."""
        self.own = own

    def __getitem__(self, index: int) -> WindowBatch:
        """Return window `index` of the endless sequence of epochs."""
        self.check()
        shards, within = self.locate(index)
        # Lanes without a shard have finished.
        spans = np.zeros((self.lanes, 2), dtype=np.int64)  # where each lane reads from and to
        spans[: len(shards)] = self.spans(shards, within)
        reset = np.full(self.lanes, within == 0)
        lengths = np.maximum(spans[:, 1] - spans[:, 0] - 1, 0)
        own_lengths = lengths[self.own]
        tokens = self._tokens_of(spans[self.own, 0], own_lengths)
        transitions = int(lengths.sum())
        in_bytes = self.tokenizer.kind == BYTES.kind
        characters = transitions if in_bytes else self._text_bytes(shards, within)
        # If lanes end together, all of them read the last window, but little of it is text.
        active_fraction = float(lengths.sum() / (self.lanes * self.fullest))
        return WindowBatch(
            tokens, own_lengths, reset[self.own], transitions, characters, active_fraction
        )

    def _tokens_of(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the tokens of B windows, zero-padded after `lengths` predictions, [B, T + 1]."""
        width = self.window + 1
        sizes = np.where(lengths > 0, lengths + 1, 0)
        last = len(self.tokens) - width  # the last position at which a whole row begins
        if last >= 0:
            tokens = sliding_window_view(self.tokens, width)[np.minimum(starts, last)]
        else:
            tokens = np.zeros((len(starts), width), dtype=self.tokens.dtype)
        for row in np.flatnonzero((starts > last) & (sizes > 0)):
            tokens[row, : sizes[row]] = self.tokens[starts[row] : starts[row] + sizes[row]]
        short = np.flatnonzero(sizes < width)
        columns = np.arange(width, dtype=np.min_scalar_type(width))  # narrow ones compare fast
        for first in range(0, len(short), _PADDED_AT_ONCE):
            rows = short[first : first + _PADDED_AT_ONCE]
            tokens[rows] *= columns < sizes[rows, None].astype(columns.dtype)
        return tokens

    def _text_bytes(self, shards: np.ndarray, within: int) -> int:
        """Return the bytes of text that all ranks predict in window `within` of these shards.

        Every rank counts the bytes of all lanes itself. So all ranks have the same number without
        communication, and it does not depend on their number.
        """
        reading = shards[within < self.shard_windows[shards]]
        return int(self._bytes_by_window[self._windows_before[reading] + within].sum())

    @cached_property
    def _windows_before(self) -> np.ndarray:
        """The windows of all earlier shards, in file order, for each shard, int64 [S]."""
        return np.cumsum(self.shard_windows) - self.shard_windows

    @cached_property
    def _bytes_by_window(self) -> np.ndarray:
        """The bytes of text that each window predicts, in file order, int64 [windows]."""
        counts = np.empty(self.shard_windows.sum(), np.int64)
        for first in range(0, len(counts), COUNTED_AT_ONCE):
            numbers = np.arange(first, min(first + COUNTED_AT_ONCE, len(counts)))
            shards = np.searchsorted(self._windows_before, numbers, side="right") - 1
            spans = self.spans(shards, numbers - self._windows_before[shards])
            begin = spans[0, 0]
            sizes = self.tokenizer.byte_lengths(self.tokens[begin : spans[-1, 1]])
            before = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
            counts[numbers] = before[spans[:, 1] - begin] - before[spans[:, 0] + 1 - begin]
        return counts

    def spans(self, shards: np.ndarray, within: int | np.ndarray) -> np.ndarray:
        """Return where window `within` of each shard starts and ends, int64 [shards, 2]."""
        starts = np.minimum(self.bounds[shards] + within * self.window, self.bounds[shards + 1])
        ends = np.minimum(starts + self.window + 1, self.bounds[shards + 1])
        return np.stack([starts, ends], axis=1)

    def windows_of(self, number: int) -> int:
        """Return how many windows epoch `number` has, counted from 0."""
        while len(self._epochs) <= number:
            self._plan_next()
        epoch = self._epochs[number]
        return int(epoch.round_ends[-1]) - epoch.begin

    def locate(self, index: int) -> tuple[np.ndarray, int]:
        """Return the shards that the lanes read in window `index`, and the window within them."""
        while self._epochs[-1].round_ends[-1] <= index:
            self._plan_next()
        epoch = self._epochs[bisect_right(self._epochs, index, key=lambda e: e.round_ends[-1])]
        number = int(np.searchsorted(epoch.round_ends, index, side="right"))
        begin = int(epoch.round_ends[number - 1]) if number else epoch.begin
        return epoch.order[number * self.lanes : (number + 1) * self.lanes], index - begin

    def _plan_next(self) -> None:
        with self._planning:  # a clock asks while another thread reads
            self._epochs.append(self._plan(len(self._epochs), int(self._epochs[-1].round_ends[-1])))

    def _plan(self, epoch: int, begin: int) -> _Epoch:
        order = self.shard_order(epoch)
        first_of_round = np.arange(0, len(order), self.lanes)
        longest = np.maximum.reduceat(self.shard_windows[order], first_of_round)
        return _Epoch(begin, order, begin + longest.cumsum())

    def shard_order(self, epoch: int) -> np.ndarray:
        """Return the shards in the order of an epoch: the file's in the first, then shuffled."""
        order = np.arange(len(self.shard_windows))
        if epoch:
            np.random.default_rng([self.seed, epoch]).shuffle(order)
        return order


_COUNTED = 1000  # epochs whose windows are counted one by one; more are estimated from these


class _EpochOrder(NamedTuple):
    order: np.ndarray  # reviews of the split, by index, int64 [n]
    cuts: np.ndarray  # between shards, places in the order, int64 [S + 1]


class Epochs:
    """The windows of a run that shuffles reviews; this process reads the lanes `own`.

    Each epoch is the first epoch of a new `Lanes`, which has a copy of the reviews in its order.
    """

    def __init__(self, split: Split, config: DataConfig, lanes: int, seed: int, own: slice):
        self.split, self.config, self.seed = split, config, seed
        self.total_lanes, self.own = lanes, own
        self._lanes_of(split, None)  # refuses text that is too little for the shards
        self.number = 0  # of the epoch that `lanes` has
        self.lanes: Lanes | None = None  # made when a window is read: a copy takes time and memory

    def assign(self, own: slice) -> None:
        self.own = own
        if self.lanes is not None:
            self.lanes.assign(own)

    def __getitem__(self, index: int) -> WindowBatch:
        """Return window `index` of the endless sequence of epochs."""
        number, within = divmod(index, self._windows)
        if self.lanes is None or number != self.number:
            self.lanes = None  # so that no two shuffled copies are in memory
            order = self._order_of(number)
            split = taken(self.split, order.order)
            self.lanes = self._lanes_of(split, np.asarray(split.offsets)[order.cuts])
            self.number = number
        return self.lanes[within]

    def _lanes_of(self, split: Split, bounds: np.ndarray | None) -> Lanes:
        return _configured(split, self.config, self.total_lanes, self.seed, self.own, bounds)

    def _order_of(self, number: int) -> _EpochOrder:
        """Return the order of epoch `number`."""
        order = np.arange(self.split.reviews)
        if number:
            order = np.random.default_rng([self.seed, number]).permutation(self.split.reviews)
        shard_of = balanced(self._sizes[order], self._shards)
        by_shard = np.argsort(shard_of, kind="stable")
        cuts = np.searchsorted(shard_of[by_shard], np.arange(self._shards + 1))
        return _EpochOrder(order[by_shard], cuts)

    @property
    def _shards(self) -> int:
        return self.config.shards or self.total_lanes

    @property
    def _sizes(self) -> np.ndarray:
        """The tokens of each review, in file order, int64 [n]."""
        return np.diff(np.asarray(self.split.offsets))

    def windows_of(self, number: int) -> int:
        """Return how many windows epoch `number` has: all have the same.

        No copy is needed, and no order: `balanced` begins with the largest reviews, so in every
        order its shards have the same sizes.
        """
        return self._windows

    @cached_property
    def _windows(self) -> int:
        sums = np.bincount(
            balanced(self._sizes, self._shards), weights=self._sizes, minlength=self._shards
        )
        bounds = np.concatenate([[0], np.cumsum(sums.astype(np.int64))])
        return self._lanes_of(self.split, bounds).windows_of(0)


class Text(Protocol):
    """A text whose epochs have known numbers of windows."""

    def windows_of(self, number: int) -> float:
        """Return how many windows epoch `number` has, counted from 0."""


@dataclass(frozen=True)
class TextClock:
    """Converts between steps of a run and epochs of its text.

    An epoch is the whole text, once; its windows are known before it is read.

        clock = TextClock(windows, windows_per_step=1)
        clock.steps(3)  # steps of three epochs
        clock.epochs(1000)  # epochs that the first thousand steps read
        clock.characters(1000)
    """

    windows: Text
    windows_per_step: int = 1
    text: float = 1.0  # characters of an epoch

    def steps(self, epochs: float) -> int:
        """Return the steps that read so many epochs; the last may read on into another one."""
        whole = min(int(epochs), _COUNTED)
        windows: float = sum(map(self.windows.windows_of, range(whole)))
        if whole == _COUNTED:
            windows = round(windows * epochs / whole)
        elif epochs > whole:
            windows += round((epochs - whole) * self.windows.windows_of(whole))
        return max(1, int(-(-windows // self.windows_per_step)))

    def epochs(self, step: int, skipped_windows: int = 0) -> float:
        """Return how many epochs of text lie before a step, those skipped included."""
        windows, number = step * self.windows_per_step + skipped_windows, 0
        first: float = 0
        while number < _COUNTED and windows >= (end := first + self.windows.windows_of(number)):
            number, first = number + 1, end
        if number == _COUNTED:
            return number * windows / first
        return number + (windows - first) / self.windows.windows_of(number)

    def characters(self, step: int, skipped_windows: int = 0) -> float:
        """Return how many characters of text lie before a step, those skipped included."""
        return self.text * self.epochs(step, skipped_windows)


def balanced(costs: np.ndarray, shards: int) -> np.ndarray:
    """Assign items to shards so that the sums of their costs are nearly equal.

    costs: of at least `shards` items, int64 [n]. Returns the shard of each, int64 [n]; every shard
    has one. The largest items come first, each to the shard with the smallest sum (Graham 1969).
    """
    shard_of, sums = np.empty(len(costs), np.int64), np.zeros(shards, np.int64)
    left = np.argsort(-costs, kind="stable")
    while len(left):  # assigns together the next items that go to different shards
        part = left[:shards]
        lowest = np.argsort(sums, kind="stable")[: len(part)]
        smallest_after = np.minimum.accumulate(sums[lowest] + costs[part])
        count = 1 + np.count_nonzero(sums[lowest[1:]] <= smallest_after[:-1])
        part, left, lowest = part[:count], left[count:], lowest[:count]
        shard_of[part] = lowest
        sums[lowest] += costs[part]
    return shard_of


def taken(split: Split, order: np.ndarray) -> Split:
    """Copy a split into memory, its reviews in this order, by index."""
    source, starts = np.asarray(split.tokens), np.asarray(split.offsets)
    sizes = np.diff(starts)[order]
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    tokens = np.empty(offsets[-1], source.dtype)
    for first in range(0, len(order), COPIED_AT_ONCE):  # a view of every review takes memory too
        split.check()
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


def lanes_of(split: Split, config: DataConfig, lanes: int, seed: int, own: slice) -> Lanes | Epochs:
    """Return the lanes of a run whose global batch and `data.shuffle` are resolved."""
    if config.shuffle != "shards":
        return Epochs(split, config, lanes, seed, own)
    return _configured(split, config, lanes, seed, own)


def _configured(
    split: Split,
    config: DataConfig,
    lanes: int,
    seed: int,
    own: slice,
    bounds: np.ndarray | None = None,
) -> Lanes:
    window, shards = config.window, config.shards
    return Lanes(
        split, lanes=lanes, window=window, shards=shards, seed=seed, own=own, bounds=bounds
    )
