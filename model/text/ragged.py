"""Sequences of many lengths in one batch, without padding."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import checked_whole


class RaggedBatch(NamedTuple):
    """Rows of similar length that are read together, longest first."""

    indices: np.ndarray  # indices of its rows' sequences in the caller's list
    spans: Iterator["Span"]  # read once: a long text has many


class Span(NamedTuple):
    """Positions `start` to `stop` of the first `active` rows, all of which reach `stop`."""

    start: int
    stop: int
    active: int


def ragged_batches(lengths: Sequence[int], batch_size: int, block: int) -> Iterator[RaggedBatch]:
    """Cut sequences into batches of similar length and each batch into rectangles.

    Rows are sorted by length, so a short text never waits for a long one; inside a batch a row
    leaves when it ends. A span is at most `block` long: memory does not grow with the text. Raises
    InputError for a batch size below 1.
    """
    checked_whole("the batch size", batch_size, 1)
    order = np.argsort(-np.asarray(lengths), kind="stable")
    for first in range(0, len(order), batch_size):
        indices = order[first : first + batch_size]
        yield RaggedBatch(indices, _spans([lengths[index] for index in indices], block))


def _spans(lengths: Sequence[int], block: int) -> Iterator[Span]:
    """Cut one batch, longest first, at every row's end and at every `block`."""
    start, active = 0, sum(length > 0 for length in lengths)
    while active:
        stop = min(start + block, lengths[active - 1])
        yield Span(start, stop, active)
        while active and lengths[active - 1] <= stop:
            active -= 1
        start = stop
