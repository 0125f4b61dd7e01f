"""Every later epoch shuffles the reviews and reads each once, from any starting point."""

import itertools
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from data_utils import lanes as epochs
from data_utils.lanes import (
    MOST_BYTES,
    DataConfig,
    Lanes,
    TextClock,
    balanced,
    lanes_of,
    settle_shuffle,
)
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.split import Split

SIZES = [50, 20, 3, 30, 2, 41] * 4
FIELDS = ("tokens", "lengths", "reset")


def make_split():
    """Reviews each of one token, its number, so that a window shows what it read."""
    offsets = np.cumsum([0, *SIZES], dtype=np.int64)
    return Split(np.repeat(np.arange(len(SIZES), dtype=np.uint8), SIZES), offsets)


def make_epochs(own=slice(None), seed=0):
    return lanes_of(make_split(), DataConfig(window=7, shuffle="even"), 4, seed, own)


def reviews_of(window):
    """The transitions of a window, by review."""
    rows = zip(window.tokens, window.lengths, strict=True)
    return Counter(int(s) for row, length in rows for s in row[1 : length + 1])


def check_complete(read, lanes):
    """Every token is predicted once, but for the first of each lane."""
    missing = Counter(dict(enumerate(SIZES)))
    missing.subtract(read)
    assert sorted(missing.values()) == [0] * (len(SIZES) - lanes) + [1] * lanes


def windows_by_epoch(epochs, count):
    each = range(epochs.windows)
    return [
        [epochs[number * epochs.windows + within] for within in each] for number in range(count)
    ]


def test_every_epoch_reads_all_in_another_order():
    epochs = windows_by_epoch(make_epochs(), 4)
    for windows in epochs:
        check_complete(sum((reviews_of(window) for window in windows), Counter()), 4)
    orders = {b"".join(window.tokens.tobytes() for window in part) for part in epochs}
    assert len(orders) == 4


def test_a_token_weighs_the_same_in_every_window():
    """The last window of an epoch counts as others do, though its lanes read few tokens."""
    windows = list(itertools.chain(*windows_by_epoch(make_epochs(), 3)))
    for window in windows:
        # The gradient is the mean over the tokens that count, times this fraction.
        assert window.active_fraction / window.transitions == pytest.approx(1 / (4 * 7))
    assert min(window.active_fraction for window in windows if (window.lengths > 0).all()) < 0.8


def test_what_a_window_holds_follows_from_its_index():
    whole = make_epochs()
    windows = [whole[index] for index in range(4 * whole.windows)]
    for index in (len(windows) - 1, 0, len(windows) // 2):
        anew = make_epochs()
        parts = (slice(0, 1), slice(1, 4))
        ranks = [make_epochs(own) for own in parts]
        for field in FIELDS:
            expected = getattr(windows[index], field)
            np.testing.assert_array_equal(getattr(anew[index], field), expected)
            np.testing.assert_array_equal(getattr(whole[index], field), expected)
            joined = np.concatenate([getattr(rank[index], field) for rank in ranks])
            np.testing.assert_array_equal(joined, expected)
        ranks[0].assign(slice(1, 4))
        np.testing.assert_array_equal(ranks[0][index].tokens, windows[index].tokens[1:])


def test_one_shuffled_copy_is_in_memory_at_a_time(monkeypatch):
    sizes = np.full(2000, 500)
    tokens = np.ones(sizes.sum(), np.uint8)
    split = Split(tokens, np.concatenate([[0], np.cumsum(sizes)]))
    copies, copy = [], epochs.taken
    monkeypatch.setattr(
        epochs, "taken", lambda split, order: copies.append(1) or copy(split, order)
    )
    monkeypatch.setattr(epochs, "COPIED_AT_ONCE", 100)
    tracemalloc.start()
    try:
        reading = Lanes(split, lanes=4, window=5000, shuffles_reviews=True)
        for number in range(4):
            reading[number * reading.windows]
        _, peak = tracemalloc.get_traced_memory()
        assert len(copies) == 4
        copies.clear()
        resumed = Lanes(split, lanes=4, window=5000, shuffles_reviews=True)
        resumed[3 * resumed.windows]
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * tokens.nbytes
    assert len(copies) == 1  # a resume lays only the epoch in which it continues


def texts_of_epoch(number, **settings):
    """Return the tokens that each lane reads in an epoch, one after another."""
    windows = windows_by_epoch(make_epochs(**settings), number + 1)[number]
    rows = [zip(window.tokens, window.lengths, strict=True) for window in windows]
    lanes = [
        [row[min(number, 1) : length + 1] for number, (row, length) in enumerate(lane)]
        for lane in zip(*rows, strict=True)
    ]
    return [np.concatenate(parts) for parts in lanes]


def test_reviews_stay_whole_and_the_seed_decides():
    drawn = ((0, 1), (0, 1), (0, 2), (1, 1))
    epochs = [texts_of_epoch(number, seed=seed) for seed, number in drawn]
    for lanes in epochs:
        texts = [len(list(text)) for lane in lanes for _, text in itertools.groupby(lane.tolist())]
        assert sorted(texts) == sorted(SIZES)
    contents = [np.concatenate(lanes).tobytes() for lanes in epochs]
    assert contents[0] == contents[1]
    assert len(set(contents)) == 3


def test_balanced_lanes_end_together_and_each_keeps_the_order_of_the_file_in_its_first_epoch():
    """They differ by the rounding of a lane's last window, or by its part of the last review."""
    for windows in windows_by_epoch(make_epochs(), 2):
        active = [(window.lengths > 0).sum() for window in windows]
        assert active[:-1] == [4] * (len(active) - 1)
    lanes = texts_of_epoch(0)
    for lane in lanes:
        assert (np.diff(lane.astype(int)) >= 0).all()
    for lane, other in zip(lanes, texts_of_epoch(0, seed=1), strict=True):
        np.testing.assert_array_equal(lane, other)


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 60), min_size=6, max_size=30),
    st.integers(1, 6),
    st.integers(1, 20),
    st.sampled_from(["even", "shards"]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.data(),
)
def test_epochs_of_a_run_read_the_whole_text_as_often(
    sizes, lanes, window, shuffle, count, windows_per_step, data
):
    """An epoch is the whole text, once, whatever the ranks and wherever the run is resumed."""
    split = Split(np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes), np.cumsum([0, *sizes]))
    config = DataConfig(window=window, shuffle=shuffle)
    try:
        windows = lanes_of(split, config, lanes, 3, slice(None)).windows
        clock = TextClock(windows, windows_per_step)
    except InputError:  # too few reviews or tokens
        reject()
    steps = clock.steps(count)
    cut = data.draw(st.integers(0, lanes))
    resumed = data.draw(st.integers(0, steps)) * windows_per_step
    read = Counter()
    for own in (slice(0, cut), slice(cut, lanes)):
        for part in (range(resumed), range(resumed, steps * windows_per_step)):
            windows = lanes_of(split, config, lanes, 3, own)  # as another process would
            for index in part:
                read += reviews_of(windows[index])
    # The first token of a lane is not predicted.
    assert count * (split.offsets[-1] - lanes) <= read.total()
    assert read.total() <= count * split.offsets[-1] + (windows_per_step - 1) * lanes * window
    for review, size in enumerate(sizes):
        assert read[review] >= count * (size - 1)
    assert clock.epochs(steps) == pytest.approx(count, abs=windows_per_step)
    assert clock.epochs(steps) >= count
    assert clock.steps(count - 0.5) <= steps


def test_steps_and_epochs_are_inverse_however_many():
    clock = TextClock(make_epochs().windows)
    for count in (900, 10**6):
        assert clock.epochs(clock.steps(count)) == count
    assert clock.steps(1e-9) == 1
    assert clock.epochs(0) == 0


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=200).flatmap(
        lambda costs: st.tuples(st.just(costs), st.integers(1, len(costs)))
    )
)
def test_every_lane_has_an_item_and_sums_are_those_of_assigning_one_by_one(drawn):
    costs, lanes = np.array(drawn[0]), drawn[1]
    lane_of = balanced(costs, lanes)
    assert set(lane_of) == set(range(lanes))
    one_by_one = [0] * lanes
    for cost in sorted(drawn[0], reverse=True):
        one_by_one[one_by_one.index(min(one_by_one))] += cost
    sums = np.bincount(lane_of, weights=costs, minlength=lanes)
    assert sorted(sums) == sorted(one_by_one)


def test_auto_depends_on_the_size_of_the_split():
    class Huge:
        """A split that says it has more bytes than a test could hold."""

        nbytes = MOST_BYTES + 1

    split, config = make_split(), DataConfig()
    assert settle_shuffle(config, split).shuffle == "even"
    assert settle_shuffle(config, Split(Huge(), split.offsets)).shuffle == "shards"
    with pytest.raises(InputError, match=r"data\.shuffle is shards, but .* must use even"):
        settle_shuffle(DataConfig(shuffle="shards"), split)
