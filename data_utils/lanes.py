"""A split as lanes: contiguous streams of text whose state is carried from window to window.

The split is cut into shards of nearly equal length; each begins where a review begins. A lane reads
whole shards, one after the other. In a turn every lane reads one shard. All lanes start the next
turn together, so lanes with shorter shards read padding until the longest shard ends.

What a lane reads in a window depends only on the corpus, the number of lanes, the window's length,
the seed and the index of the window. It does not depend on the number of ranks. So one integer is
all that a checkpoint needs to continue in the data.
"""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np

from model.bounds import Bound, PositiveInt, check_bounds
from model.errors import InputError
from model.text.split import Split, shard_bounds
from model.text.tokenizer import BYTES

from .titles import titles_within

Persist = Literal["shard", "review", "never"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The corpus to read, and the lanes that read it."""

    corpus: Path | None = None
    """A folder made by scripts/prepare_corpus.py. Default: the embedded synthetic reviews."""
    lanes: PositiveInt | None = None
    """The global batch: the lanes of all ranks together. Default: 64, or by lanes_per_rank."""
    lanes_per_rank: PositiveInt | None = None
    """The global batch, given as lanes of each rank at the first start instead of as a total."""
    window: Annotated[int, Bound(min=1, max=1 << 20)] = 128
    """T, tokens per window and lane: bytes, unless the corpus has a vocabulary. Gradients reach no
    further back."""
    shards: PositiveInt | None = None
    """Equal spans of the split that the lanes read one after the other. Default: as many as lanes.
    Give a multiple of the lanes, so that all of them read until an epoch's end."""
    persist: Persist = "shard"
    """How long a lane's state is carried: through a shard; through a review (each review then
    begins a window, and its last window is padded); or never: every window starts from zero."""

    shuffle: Literal["auto", "balanced", "reviews", "shards"] = "auto"
    """What every epoch after the first shuffles: reviews, dealt to the lanes so that these end
    together (balanced) or not (reviews, as earlier versions did); or shards, within which reviews
    keep their order. auto takes balanced if the split has at most 4 GiB."""
    title_weight: Annotated[float, Bound(min=0, max=1000)] = 1.0
    """What the gradient of a byte of a title is multiplied by. A title is what follows the last
    " | " of a review, at most 128 bytes with the space that ends it. Reported bits stay
    unweighted."""

    def __post_init__(self) -> None:
        check_bounds(self, "data.")
        if self.lanes is not None and self.lanes_per_rank is not None:
            raise InputError("data.lanes and data.lanes_per_rank exclude each other; give one")

    def total_lanes(self, ranks: int) -> int:
        """Return the global batch for a first start on this many ranks."""
        if self.lanes_per_rank is not None:
            return self.lanes_per_rank * ranks
        return self.lanes or 64


class WindowBatch(NamedTuple):
    """The next window of each of B lanes: T predictions."""

    tokens: np.ndarray  # as in the corpus, [B, T + 1]; position t predicts t + 1
    lengths: np.ndarray  # int64 [B], predictions that count; the rest of the row is padding
    reset: np.ndarray  # bool [B], the lane's state starts from zero here, as data.persist says
    transitions: int  # predictions that count, over the lanes of all ranks
    characters: int  # bytes of text that these predictions cover
    active_fraction: float = 1.0  # of what the lanes can read in a window, what they have to read
    loss_weights: np.ndarray | None = None  # of the predictions, float32 [B, T]; None: all 1


def windows_of_reviews(sizes: np.ndarray, window: int) -> np.ndarray:
    """Return how many windows reviews of these sizes take, if each begins one, int64 [n]."""
    return -(-np.maximum(sizes - 1, 0) // window)


class _Epoch(NamedTuple):
    """The schedule of one pass over the shards; windows are counted from the start of the run."""

    begin: int
    order: np.ndarray  # shards in the order of reading, `lanes` of them in each turn
    turn_ends: np.ndarray  # window at which each turn ends


class Lanes:
    """The windows of a split; this process reads only the lanes `own`."""

    def __init__(
        self,
        split: Split,
        *,
        lanes: int,
        window: int,
        shards: int | None = None,
        persist: Persist = "shard",
        seed: int = 0,
        own: slice = slice(None),
        title_weight: float = 1.0,
        bounds: np.ndarray | None = None,
    ):
        """Take a split.

        bounds: of its shards, int64 [shards + 1]; absent, equal spans.
        """
        self.tokens = np.asarray(split.tokens)  # indexing a memmap is slower
        self.offsets = np.asarray(split.offsets)
        self.tokenizer, self.check = split.tokenizer, split.check
        self.lanes, self.window, self.persist, self.seed = lanes, window, persist, seed
        self.title_weight = title_weight
        if title_weight != 1 and self.tokenizer.kind != BYTES.kind:
            raise InputError(
                "data.title_weight finds titles in bytes, and this corpus has a vocabulary; "
                "prepare it with --tokenizer bytes, or leave the weight at 1"
            )
        self.assign(own)
        shards = lanes if shards is None else shards
        if shards < lanes:
            raise InputError(f"data.shards is {shards}, below the {lanes} lanes; give more")
        self.bounds = shard_bounds(split, shards) if bounds is None else bounds  # [S + 1]
        longest = int(np.diff(self.bounds).max()) - 1  # may be shorter than a window
        self.fullest = min(window, longest)  # predictions of a lane in a window
        self.shard_windows = np.array([self._windows_of(*ends) for ends in pairwise(self.bounds)])
        if not self.shard_windows.any():
            raise InputError(
                "no review of the split has two tokens, so that with data.persist review there "
                "is nothing to predict; give longer reviews, or data.persist shard"
            )
        self._review_windows: dict[int, np.ndarray] = {}
        self._epochs = [self._plan(0, 0)]  # more are planned when their windows are needed

    def assign(self, own: slice) -> None:
        """Read these lanes from now on."""
        self.own = range(self.lanes)[own]

    @classmethod
    def configured(
        cls,
        split: Split,
        config: DataConfig,
        lanes: int,
        seed: int,
        own: slice,
        bounds: np.ndarray | None = None,
    ) -> "Lanes":
        """Return the lanes of a run whose global batch is set; bounds: of shards, if not equal."""
        return cls(
            split,
            lanes=lanes,
            window=config.window,
            shards=config.shards,
            persist=config.persist,
            seed=seed,
            own=own,
            title_weight=config.title_weight,
            bounds=bounds,
        )

    def __getitem__(self, index: int) -> WindowBatch:
        """Return window `index` of the endless sequence of epochs."""
        self.check()
        shards, within = self.locate(index)
        # Lanes without a shard have nothing left to read.
        spans = np.zeros((self.lanes, 2), dtype=np.int64)  # where each lane reads from and to
        spans[: len(shards)] = self.spans(shards, within)
        begins = within == 0
        if self.persist == "review":
            starts = spans[:, 0]
            begins = self.offsets[np.searchsorted(self.offsets, starts)] == starts
        reset = np.full(self.lanes, self.persist == "never") | begins
        lengths = np.maximum(spans[:, 1] - spans[:, 0] - 1, 0)
        tokens = np.zeros((len(self.own), self.window + 1), dtype=self.tokens.dtype)
        for row, lane in enumerate(self.own):
            if lengths[lane]:
                start, end = spans[lane]
                tokens[row, : end - start] = self.tokens[start:end]
        own = list(self.own)
        weights = None if self.title_weight == 1 else self._loss_weights(spans[own])
        transitions = int(lengths.sum())
        in_bytes = self.tokenizer.kind == BYTES.kind
        characters = transitions if in_bytes else self._text_bytes(spans)
        active_fraction = self._active_fraction(lengths)
        return WindowBatch(
            tokens, lengths[own], reset[own], transitions, characters, active_fraction, weights
        )

    def _active_fraction(self, lengths: np.ndarray) -> float:
        """Return the fraction of a full window that the lanes read, given predictions [lanes].

        Lanes that end together leave a window that all read, but of which little is text: a token
        there must not weigh more than others. With `persist` review, windows are hardly ever full,
        so only lanes without text count as empty.
        """
        if self.persist == "review":
            return float((lengths > 0).mean())
        return float(lengths.sum() / (self.lanes * self.fullest))

    def _loss_weights(self, spans: np.ndarray) -> np.ndarray:
        """Return the weights of the predictions of spans [B, 2], float32 [B, T]."""
        weights = np.ones((len(spans), self.window), np.float32)
        for row, (start, end) in zip(weights, spans.tolist(), strict=True):
            for first, last in titles_within(self.tokens, self.offsets, start + 1, end):
                row[first - start - 1 : last - start - 1] = self.title_weight
        return weights

    def _text_bytes(self, spans: np.ndarray) -> int:
        """Count the bytes of text that all ranks predict, in spans [lanes, 2].

        Every rank counts the bytes of all lanes itself. So all ranks have the same number without
        communication, and it does not depend on their number.
        """
        return sum(self.tokenizer.count_bytes(self.tokens[a + 1 : b]) for a, b in spans.tolist())

    def spans(self, shards: np.ndarray, within: int) -> np.ndarray:
        """Return where window `within` of each shard starts and ends, int64 [shards, 2]."""
        if self.persist == "review":
            return np.array([self._span_in_review(int(shard), within) for shard in shards])
        starts = np.minimum(self.bounds[shards] + within * self.window, self.bounds[shards + 1])
        ends = np.minimum(starts + self.window + 1, self.bounds[shards + 1])
        return np.stack([starts, ends], axis=1)

    def _span_in_review(self, shard: int, within: int) -> tuple[int, int]:
        first, counted = self._windows_by_review(shard)
        if within >= counted[-1]:
            return 0, 0
        review = int(np.searchsorted(counted, within, side="right")) - 1
        start = self.offsets[first + review] + (within - counted[review]) * self.window
        return int(start), int(min(start + self.window + 1, self.offsets[first + review + 1]))

    def _windows_by_review(self, shard: int) -> tuple[int, np.ndarray]:
        """Return a shard's first review, and the windows before each of its reviews and in all."""
        first, last = np.searchsorted(self.offsets, self.bounds[shard : shard + 2])
        if shard not in self._review_windows:
            if len(self._review_windows) >= 2 * self.lanes:  # those of earlier turns
                self._review_windows.clear()
            windows = self._windows_of_reviews(int(first), int(last))
            self._review_windows[shard] = np.concatenate([[0], windows.cumsum()])
        return int(first), self._review_windows[shard]

    def _windows_of_reviews(self, first: int, last: int) -> np.ndarray:
        return windows_of_reviews(np.diff(self.offsets[first : last + 1]), self.window)

    def _windows_of(self, start: int, end: int) -> int:
        """Return how many windows the span of a shard takes."""
        if self.persist != "review":
            return -(-max(end - start - 1, 0) // self.window)
        first, last = np.searchsorted(self.offsets, [start, end])
        return int(self._windows_of_reviews(first, last).sum())

    @property
    def windows_per_epoch(self) -> int:
        """The windows of the first epoch; later ones have another order and may have a few more."""
        return int(self._epochs[0].turn_ends[-1])

    def locate(self, index: int) -> tuple[np.ndarray, int]:
        """Return the shards that the lanes read in window `index`, and the window within them."""
        while self._epochs[-1].turn_ends[-1] <= index:
            self._epochs.append(self._plan(len(self._epochs), int(self._epochs[-1].turn_ends[-1])))
        epoch = self._epochs[bisect_right(self._epochs, index, key=lambda e: e.turn_ends[-1])]
        turn = int(np.searchsorted(epoch.turn_ends, index, side="right"))
        begin = int(epoch.turn_ends[turn - 1]) if turn else epoch.begin
        return epoch.order[turn * self.lanes : (turn + 1) * self.lanes], index - begin

    def _plan(self, epoch: int, begin: int) -> _Epoch:
        order = self.shard_order(epoch)
        first_of_turn = np.arange(0, len(order), self.lanes)
        longest = np.maximum.reduceat(self.shard_windows[order], first_of_turn)
        return _Epoch(begin, order, begin + longest.cumsum())

    def shard_order(self, epoch: int) -> np.ndarray:
        """Return the shards in the order of an epoch: the file's in the first, then shuffled."""
        order = np.arange(len(self.shard_windows))
        if epoch:
            np.random.default_rng([self.seed, epoch]).shuffle(order)
        return order
