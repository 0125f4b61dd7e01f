"""Lanes: every transition once, whatever the ranks; state reset where a shard begins."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from data_utils.lanes import DataConfig, Lanes, lanes_of
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.split import cut_strips, shard_bounds
from tests.data_utils.splits import make_split


def test_a_lane_reads_until_its_shard_ends():
    split = make_split([30, 20, 9, 16, 15])
    assert shard_bounds(split, 3).tolist() == [0, 30, 75, 90]
    stream = Lanes(split, lanes=3, window=7)
    assert stream.windows_of(0) == 7
    for index in range(7):
        reading = [min(max(size - 1 - 7 * index, 0), 7) for size in (30, 45, 15)]
        assert stream[index].active_fraction == pytest.approx(sum(reading) / (3 * 7))
    shorter_than_a_window = Lanes(make_split([5, 5, 5]), lanes=3, window=7)
    assert shorter_than_a_window[0].active_fraction == 1.0


def test_shards_start_at_reviews_and_strips_are_the_split_in_file_order():
    split = make_split(np.random.default_rng(0).integers(2, 300, size=400))
    bounds = shard_bounds(split, 10)
    assert set(bounds) <= set(split.offsets)
    spans = np.diff(bounds)
    assert np.abs(spans - len(split.tokens) / 10).max() <= 2 * 300
    split = make_split([30] * 9)
    strips = cut_strips(split, 4)
    assert len(strips) == 4
    np.testing.assert_array_equal(np.concatenate(strips), split.tokens)
    assert len(cut_strips(split, 100)) == 9


def test_later_epochs_permute_shards_by_seed():
    split = make_split([40] * 16)
    orders = [
        Lanes(split, lanes=4, window=8, shards=16, seed=seed).shard_order(epoch).tolist()
        for seed, epoch in ((0, 0), (0, 1), (0, 1), (0, 2), (1, 1))
    ]
    assert orders[0] == list(range(16))
    assert orders[1] == orders[2]
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == list(range(16)) for order in orders)
    earlier = np.arange(16)
    np.random.default_rng([1, 1]).shuffle(earlier)
    assert orders[4] == earlier.tolist()  # what runs of earlier versions read, to be resumed
    stream = Lanes(split, lanes=4, window=39, shards=16)
    read = np.concatenate([stream.locate(index)[0] for index in range(8)])
    assert read.tolist() == orders[0] + orders[1]


def test_a_run_has_the_lanes_of_its_config():
    split, own = make_split([50, 20, 30] * 6), slice(1, 3)
    config = DataConfig(window=7, shards=5, shuffle="shards")
    stream = lanes_of(split, config, 3, 4, own)
    expected = Lanes(split, lanes=3, window=7, shards=5, seed=4, own=own)
    for index in range(60):  # two epochs at least
        for array, other in zip(stream[index], expected[index], strict=True):
            np.testing.assert_array_equal(array, other)
        assert stream[index].tokens.shape == (2, 8)


@pytest.mark.parametrize(
    ("sizes", "lanes", "shards", "message"),
    [
        ([10] * 4, 5, None, "too few for 5 shards"),
        ([10] * 4, 3, 2, "fewer than the 3 lanes"),
        ([1, 0, 1, 1], 3, None, "has only 3 tokens"),
    ],
)
def test_too_little_text_for_the_lanes_is_refused(sizes, lanes, shards, message):
    with pytest.raises(InputError, match=message):
        Lanes(make_split(sizes), lanes=lanes, window=4, shards=shards)


@pytest.mark.parametrize("window", [1, 2])
def test_a_shard_without_a_token_takes_no_window(window):
    stream = Lanes(make_split([9, 0]), lanes=1, window=window, shards=2)
    assert stream.shard_windows.tolist() == [8 // window, 0]
    assert [stream[index].characters for index in range(8 // window + 1)] == [window] * (
        8 // window + 1
    )


@pytest.mark.parametrize(
    "wrong", [{"lanes": 0}, {"window": -1}, {"shards": 0}, {"lanes": 2, "lanes_per_rank": 2}]
)
def test_impossible_configs_are_refused(wrong):
    with pytest.raises(InputError, match=r"data\."):
        DataConfig(**wrong)


def test_lanes_per_rank_is_resolved_at_the_first_start():
    assert DataConfig(lanes_per_rank=3).total_lanes(ranks=4) == 12
    assert DataConfig(lanes=10).total_lanes(ranks=4) == 10
    assert DataConfig().total_lanes(ranks=4) == 64
    assert DataConfig(lanes=1, window=1, shards=1).total_lanes(ranks=1) == 1


def expected_window(stream, index):
    """Return a window as a loop over lanes reads it, the fields of WindowBatch."""
    shards, within = stream.locate(index)
    T = stream.window
    tokens = np.zeros((stream.lanes, T + 1), stream.tokens.dtype)
    lengths, characters = np.zeros(stream.lanes, np.int64), 0
    reset = np.full(stream.lanes, within == 0)
    for lane, shard in enumerate(shards):
        begin, end = (int(bound) for bound in stream.bounds[shard : shard + 2])
        start = begin + within * T
        if start < end - 1:
            text = stream.tokens[start : min(start + T + 1, end)]
            tokens[lane, : len(text)], lengths[lane] = text, len(text) - 1
            characters += stream.tokenizer.count_bytes(text[1:])
    active = lengths.sum() / (stream.lanes * stream.fullest)
    own = stream.own
    return tokens[own], lengths[own], reset[own], lengths.sum(), characters, active


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=6, max_size=20),
    st.integers(1, 6),
    st.integers(0, 4),
    st.integers(1, 35),
    st.data(),
)
def test_windows_are_those_of_a_loop_over_lanes(sizes, lanes, extra, window, data):
    """And an epoch has every transition inside a shard once."""
    split = make_split(sizes)
    try:
        stream = Lanes(split, lanes=lanes, window=window, shards=lanes + extra)
    except InputError:  # too few reviews or tokens
        reject()
    first = data.draw(st.integers(0, lanes - 1))
    stream.assign(slice(first, data.draw(st.integers(first, lanes))))
    bounds = set(shard_bounds(split, lanes + extra).tolist())
    begin = 0
    for epoch in range(2):
        seen, end = Counter(), begin + stream.windows_of(epoch)
        for index in range(begin, end):
            expected = expected_window(stream, index)
            assert expected[4] > 0  # characters
            for array, other in zip(stream[index], expected, strict=True):
                np.testing.assert_array_equal(array, other)
            shards, within = stream.locate(index)
            for shard in shards:
                start = int(stream.bounds[shard]) + within * window
                seen.update(range(start, min(start + window, int(stream.bounds[shard + 1]) - 1)))
        begin = end
        assert seen == Counter(t for t in range(len(split.tokens) - 1) if t + 1 not in bounds)


def test_windows_of_subwords_are_those_of_a_loop_over_lanes(subword_split, monkeypatch):
    monkeypatch.setattr("data_utils.lanes.COUNTED_AT_ONCE", 5)
    stream = Lanes(subword_split, lanes=3, window=7, shards=7, own=slice(1, 3))
    for index in range(2 * stream.windows_of(0)):
        window, expected = stream[index], expected_window(stream, index)
        assert window.tokens.dtype == subword_split.tokens.dtype
        for one, other in zip(window, expected, strict=True):
            np.testing.assert_array_equal(one, other)
