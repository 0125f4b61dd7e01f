"""Titles of reviews: what follows the last separator of a review, if it is short."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from model.text.split import Split

SEPARATOR = b" | "
LONGEST = 128  # bytes of a title; what follows an earlier separator is text


def titles_of(split: Split) -> Iterator[tuple[int, int]]:
    """Yield where each title of a split of bytes begins and ends."""
    return titles_within(split.tokens, split.offsets, 0, len(split.tokens))


def titles_within(
    tokens: np.ndarray, offsets: np.ndarray, start: int, end: int
) -> Iterator[tuple[int, int]]:
    """Yield where each title begins and ends, cut to the span from start to end.

    tokens: the bytes of R reviews, uint8; offsets: where each begins, and the end of all, [R + 1].
    Of each review in the span only the end is read.
    """
    first = int(np.searchsorted(offsets, start, side="right")) - 1
    last = int(np.searchsorted(offsets, end, side="left"))
    for begin, stop in pairwise(offsets[first : last + 1].tolist()):
        tail = max(begin, stop - LONGEST - len(SEPARATOR))
        at = tokens[tail:stop].tobytes().rfind(SEPARATOR)
        title = max(tail + at + len(SEPARATOR), start)
        if at >= 0 and title < min(stop, end):
            yield title, min(stop, end)
