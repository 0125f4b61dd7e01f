"""Titles of reviews: what follows the last separator of a review, if it is short."""

from collections.abc import Iterator
from itertools import pairwise

from model.text.split import Split

SEPARATOR = b" | "
LONGEST = 128  # bytes of a title; what follows an earlier separator is text


def titles_of(split: Split) -> Iterator[tuple[int, int]]:
    """Yield where each title of a split of bytes begins and ends."""
    for begin, stop in pairwise(split.offsets.tolist()):
        tail = max(begin, stop - LONGEST - len(SEPARATOR))
        at = split.tokens[tail:stop].tobytes().rfind(SEPARATOR)
        title = tail + at + len(SEPARATOR)
        if at >= 0 and title < stop:
            yield title, stop
