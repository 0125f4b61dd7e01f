"""Many texts for a model: reviews joined end to end, and ragged batches without padding."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..errors import InputError, checked_whole
from .profiles import TextProfile
from .tokenizer import BYTES, Tokenizer


@dataclass(frozen=True)
class Split:
    """The tokens of many reviews, end to end."""

    tokens: np.ndarray  # uint8 [n], or uint16 of a vocabulary
    offsets: np.ndarray  # int64 [reviews + 1], the first token of each review, then n
    tokenizer: Tokenizer = BYTES

    @property
    def reviews(self) -> int:
        return len(self.offsets) - 1


def encode_split(texts: Iterable[str], profile: TextProfile, tokenizer: Tokenizer = BYTES) -> Split:
    encoded = [tokenizer.encode(profile.encode(text)) for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return Split(np.concatenate([np.empty(0, tokenizer.dtype), *encoded]), offsets, tokenizer)


def span_bounds(split: Split, spans: int) -> np.ndarray:
    """Cut a split into equal spans at review starts; return their int64 [spans + 1] bounds."""
    if split.reviews < spans:
        raise InputError(
            f"the split has {split.reviews} reviews, too few for {spans} lanes; give fewer "
            "(data.lanes), or more reviews"
        )
    offsets = np.asarray(split.offsets)
    starts = np.searchsorted(offsets, np.linspace(0, len(split.tokens), spans + 1))
    bounds = offsets[_spread(starts, split.reviews)]
    if (np.diff(bounds) < 2).all():
        raise InputError(f"the split has only {len(split.tokens)} tokens; give more reviews")
    return bounds


def _spread(cuts: np.ndarray, reviews: int) -> np.ndarray:
    """Move cuts apart so that every span has a review; they run from 0 to `reviews`."""
    steps = np.arange(len(cuts))
    apart = np.maximum.accumulate(cuts - steps) + steps
    return np.minimum(apart, reviews - steps[::-1])


def cut_strips(split: Split, strips: int) -> Sequence[np.ndarray]:
    """Cut a split into about equal strips of whole reviews, in file order, for evaluation."""
    bounds = span_bounds(split, min(strips, split.reviews))
    return [split.tokens[a:b] for a, b in pairwise(bounds)]


class RaggedBatch(NamedTuple):
    """Rows of similar length that are read together, longest first."""

    indices: np.ndarray  # indices of its rows' sequences in the caller's list
    spans: Iterator["_Span"]  # read once: a long text has many


class _Span(NamedTuple):
    """Positions `start` to `stop` of the first `active` rows, all of which reach `stop`."""

    start: int
    stop: int
    active: int


def ragged_batches(lengths: Sequence[int], batch_size: int, block: int) -> Iterator[RaggedBatch]:
    """Cut sequences into batches of similar length and each batch into rectangles.

    Rows are sorted by length, so texts of similar length share a batch; inside a batch a row
    leaves when it ends. A span is at most `block` long: memory does not grow with the text. Raises
    InputError for a batch size below 1.
    """
    checked_whole("the batch size", batch_size, 1)
    order = np.argsort(-np.asarray(lengths), kind="stable")
    for first in range(0, len(order), batch_size):
        indices = order[first : first + batch_size]
        yield RaggedBatch(indices, _spans([lengths[index] for index in indices], block))


def _spans(lengths: Sequence[int], block: int) -> Iterator[_Span]:
    """Cut one batch, longest first, at every row's end and at every `block`."""
    start, active = 0, sum(length > 0 for length in lengths)
    while active:
        stop = min(start + block, lengths[active - 1])
        yield _Span(start, stop, active)
        while active and lengths[active - 1] <= stop:
            active -= 1
        start = stop
