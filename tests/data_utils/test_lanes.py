"""Lanes: every transition once, whatever the ranks; state reset where an epoch begins."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from data_utils.lanes import DataConfig, Lanes
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.split import cut_strips, span_bounds
from tests.data_utils.splits import make_split


def test_a_lane_reads_until_its_span_ends():
    split = make_split([30, 20, 9, 16, 15])
    assert span_bounds(split, 3).tolist() == [0, 30, 75, 90]
    stream = Lanes(split, lanes=3, window=7)
    assert stream.windows == 7
    for index in range(7):
        reading = [min(max(size - 1 - 7 * index, 0), 7) for size in (30, 45, 15)]
        assert stream[index].active_fraction == pytest.approx(sum(reading) / (3 * 7))
    shorter_than_a_window = Lanes(make_split([5, 5, 5]), lanes=3, window=7)
    assert shorter_than_a_window[0].active_fraction == 1.0


def test_spans_start_at_reviews_and_strips_are_the_split_in_file_order():
    split = make_split(np.random.default_rng(0).integers(2, 300, size=400))
    bounds = span_bounds(split, 10)
    assert set(bounds) <= set(split.offsets)
    spans = np.diff(bounds)
    assert np.abs(spans - len(split.tokens) / 10).max() <= 2 * 300
    split = make_split([30] * 9)
    strips = cut_strips(split, 4)
    assert len(strips) == 4
    np.testing.assert_array_equal(np.concatenate(strips), split.tokens)
    assert len(cut_strips(split, 100)) == 9


def spans_of(stream, epoch):
    """Where the lanes of an epoch read, if it shuffles spans, as runs of earlier versions do."""
    order = np.arange(stream.lanes)
    if epoch:
        np.random.default_rng([stream.seed, epoch]).shuffle(order)
    return np.array(list(pairwise(span_bounds(stream.split, stream.lanes))))[order].tolist()


def test_later_epochs_permute_spans_by_seed():
    split = make_split([40] * 16)
    orders = []
    for seed, epoch in ((0, 0), (0, 1), (0, 1), (0, 2), (1, 1)):
        stream = Lanes(split, lanes=16, window=39, seed=seed)
        assert stream.windows == 1
        orders.append(stream[epoch].tokens.tobytes())
    assert orders[0] == split.tokens.tobytes()
    assert orders[1] == orders[2]
    assert len(set(orders)) == 4


@pytest.mark.parametrize(
    ("sizes", "lanes", "message"),
    [([10] * 4, 5, "too few for 5 lanes"), ([1, 0, 1, 1], 3, "has only 3 tokens")],
)
def test_too_little_text_for_the_lanes_is_refused(sizes, lanes, message):
    with pytest.raises(InputError, match=message):
        Lanes(make_split(sizes), lanes=lanes, window=4)


@pytest.mark.parametrize("wrong", [{"lanes": 0}, {"window": -1}, {"lanes": 2, "lanes_per_rank": 2}])
def test_impossible_configs_are_refused(wrong):
    with pytest.raises(InputError, match=r"data\."):
        DataConfig(**wrong)


def test_lanes_per_rank_is_resolved_at_the_first_start():
    assert DataConfig(lanes_per_rank=3).total_lanes(ranks=4) == 12
    assert DataConfig(lanes=10).total_lanes(ranks=4) == 10
    assert DataConfig().total_lanes(ranks=4) == 64
    assert DataConfig(lanes=1, window=1).total_lanes(ranks=1) == 1


def expected_window(stream, index):
    """Return a window as a loop over lanes reads it, the fields of WindowBatch."""
    (epoch, within), T = divmod(index, stream.windows), stream.window
    text, tokenizer = stream.split.tokens, stream.split.tokenizer
    tokens = np.zeros((stream.lanes, T + 1), text.dtype)
    lengths, characters = np.zeros(stream.lanes, np.int64), 0
    reset = np.full(stream.lanes, within == 0)
    for lane, (begin, end) in enumerate(spans_of(stream, epoch)):
        start = begin + within * T
        if start < end - 1:
            part = text[start : min(start + T + 1, end)]
            tokens[lane, : len(part)], lengths[lane] = part, len(part) - 1
            characters += tokenizer.count_bytes(part[1:])
    active = lengths.sum() / (stream.lanes * stream.fullest)
    own = stream.own
    return tokens[own], lengths[own], reset[own], lengths.sum(), characters, active


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=6, max_size=20),
    st.integers(1, 6),
    st.integers(1, 35),
    st.data(),
)
def test_windows_are_those_of_a_loop_over_lanes(sizes, lanes, window, data):
    """And an epoch has every transition inside a span once."""
    split = make_split(sizes)
    try:
        stream = Lanes(split, lanes=lanes, window=window)
    except InputError:  # too few reviews or tokens
        reject()
    first = data.draw(st.integers(0, lanes - 1))
    stream.assign(slice(first, data.draw(st.integers(first, lanes))))
    bounds = set(span_bounds(split, lanes).tolist())
    for epoch in range(2):
        seen = Counter()
        for within in range(stream.windows):
            index = epoch * stream.windows + within
            expected = expected_window(stream, index)
            assert expected[4] > 0  # characters
            for array, other in zip(stream[index], expected, strict=True):
                np.testing.assert_array_equal(array, other)
            for begin, end in spans_of(stream, epoch):
                start = begin + within * window
                seen.update(range(start, min(start + window, end - 1)))
        assert seen == Counter(t for t in range(len(split.tokens) - 1) if t + 1 not in bounds)


def test_windows_of_subwords_are_those_of_a_loop_over_lanes(subword_split):
    stream = Lanes(subword_split, lanes=3, window=7, own=slice(1, 3))
    for index in range(2 * stream.windows):
        window, expected = stream[index], expected_window(stream, index)
        assert window.tokens.dtype == subword_split.tokens.dtype
        for one, other in zip(window, expected, strict=True):
            np.testing.assert_array_equal(one, other)
