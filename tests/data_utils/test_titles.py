"""Titles: found as a regular expression finds them; weighted once, however the text is cut."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_utils.lanes import DataConfig, Lanes
from data_utils.titles import LONGEST, titles_within
from model.errors import InputError
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
@given(REVIEWS, st.data())
def test_a_span_has_the_titles_of_its_reviews(reviews, data):
    split, expected = split_of(reviews), is_title(reviews)
    start = data.draw(st.integers(0, len(expected)))
    end = data.draw(st.integers(start, len(expected)))
    marked = np.zeros(len(expected), bool)
    for first, last in titles_within(split.tokens, split.offsets, start, end):
        assert start <= first < last <= end
        assert not marked[first:last].any()
        marked[first:last] = True
    np.testing.assert_array_equal(marked[start:end], expected[start:end])


def test_a_long_end_is_no_title():
    for size, found in ((LONGEST, [(4, 4 + LONGEST)]), (LONGEST + 1, [])):
        split = split_of([b"a | " + b"b" * size])
        assert list(titles_within(split.tokens, split.offsets, 0, len(split.tokens))) == found


REVIEWS_WITH_TITLES = [b"good and cheap | Fine", b"no title here", b"a | b | Broke"] * 4


@pytest.mark.parametrize("persist", ["shard", "review", "never"])
@pytest.mark.parametrize("own", [slice(None), slice(1, 3)])
def test_the_predictions_of_a_title_have_its_weight(persist, own):
    split, expected = split_of(REVIEWS_WITH_TITLES), is_title(REVIEWS_WITH_TITLES)
    config = DataConfig(window=7, persist=persist, title_weight=4.0)
    stream = Lanes.configured(split, config, 3, 0, own)
    for index in range(2 * stream.windows_per_epoch):
        window = stream[index]
        shards, step = stream.locate(index)
        assert window.loss_weights.dtype == np.float32
        assert window.loss_weights.shape == (len(stream.own), 7)
        for row, lane in enumerate(stream.own):
            start, _ = stream.spans(shards, step)[lane]
            wanted = np.ones(7)
            if length := window.lengths[row]:
                wanted[:length] += 3 * expected[start + 1 : start + 1 + length]
            np.testing.assert_array_equal(window.loss_weights[row], wanted)


def test_without_a_weight_there_are_no_weights():
    assert Lanes(split_of(REVIEWS_WITH_TITLES), lanes=2, window=7)[0].loss_weights is None


def test_titles_of_subwords_are_refused(subword_split):
    config = DataConfig(title_weight=2.0)
    with pytest.raises(InputError, match="title_weight finds titles in bytes"):
        Lanes.configured(subword_split, config, 2, 0, slice(None))


@pytest.mark.parametrize("weight", [-1.0, 1001.0, float("nan")])
def test_impossible_weights_are_refused(weight):
    with pytest.raises(InputError, match=r"data\.title_weight"):
        DataConfig(title_weight=weight)
