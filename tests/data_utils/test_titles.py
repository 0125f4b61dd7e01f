"""Titles: found as a regular expression finds them."""

import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from data_utils.titles import LONGEST, titles_of
from model.text.split import Split

TITLE = re.compile(rb"\A.* \| (.{0,%d})\Z" % LONGEST, re.DOTALL)  # greedy: of the last separator
PIECES = st.sampled_from([b" | ", b"|", b" ", b"fine", b" |", b"| ", b"x" * 60])
REVIEWS = st.lists(st.lists(PIECES, min_size=1, max_size=7).map(b"".join), min_size=1, max_size=12)


def split_of(reviews):
    offsets = np.cumsum([0, *map(len, reviews)], dtype=np.int64)
    return Split(np.frombuffer(b"".join(reviews), np.uint8), offsets)


def is_title(reviews):
    """Return which bytes a regular expression takes for a title's, bool [n]."""
    marks = []
    for review in reviews:
        found = TITLE.search(review)
        begin = found.start(1) if found else len(review)
        marks += [at >= begin for at in range(len(review))]
    return np.array(marks)


@settings(deadline=None)
@given(REVIEWS)
def test_a_split_has_the_titles_of_its_reviews(reviews):
    expected = is_title(reviews)
    marked = np.zeros(len(expected), bool)
    for first, last in titles_of(split_of(reviews)):
        assert first < last
        assert not marked[first:last].any()
        marked[first:last] = True
    np.testing.assert_array_equal(marked, expected)


def test_a_long_end_is_no_title():
    for size, found in ((LONGEST, [(4, 4 + LONGEST)]), (LONGEST + 1, [])):
        split = split_of([b"a | " + b"b" * size])
        assert list(titles_of(split)) == found
