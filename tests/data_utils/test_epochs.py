"""Every later epoch shuffles the reviews and reads each once, from any starting point."""

import itertools
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from data_utils import epochs
from data_utils.epochs import MOST_BYTES, Epochs, lanes_of, settle_shuffle, shuffled
from data_utils.lanes import DataConfig, Lanes
from model.text.split import Split

SIZES = [50, 20, 3, 30, 2, 41] * 4
FIELDS = ("tokens", "lengths", "reset")


def make_split():
    """Reviews each of one token, its number, so that a window tells what it read."""
    offsets = np.cumsum([0, *SIZES], dtype=np.int64)
    return Split(np.repeat(np.arange(len(SIZES), dtype=np.uint8), SIZES), offsets)


def make_epochs(own=slice(None), seed=0, persist="shard"):
    config = DataConfig(window=7, persist=persist, shuffle="reviews")
    return lanes_of(make_split(), config, 4, seed, own)


def reviews_of(window):
    """The transitions of a window, by review."""
    rows = zip(window.tokens, window.lengths, strict=True)
    return Counter(int(s) for row, length in rows for s in row[1 : length + 1])


def windows_by_epoch(epochs, count):
    found = {}
    for index in itertools.count():
        window = epochs[index]
        if epochs.number == count:
            return [found[number] for number in range(count)]
        found.setdefault(epochs.number, []).append(window)


def test_the_first_epoch_is_the_files_and_every_epoch_reads_all():
    first, *later = windows_by_epoch(make_epochs(persist="review"), 4)
    expected = Lanes(make_split(), lanes=4, window=7, persist="review")
    for index, window in enumerate(first):
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(window, field), getattr(expected[index], field))
    for windows in (first, *later):
        read = sum((reviews_of(window) for window in windows), Counter())
        assert read == Counter({review: size - 1 for review, size in enumerate(SIZES)})
    orders = {b"".join(window.tokens.tobytes() for window in part) for part in (first, *later)}
    assert len(orders) == 4


@pytest.mark.parametrize("persist", ["shard", "review", "never"])
def test_what_a_window_holds_follows_from_its_index(persist):
    whole = make_epochs(persist=persist)
    windows = [whole[index] for index in range(4 * whole.windows_per_epoch)]
    assert whole.number >= 2
    for index in (len(windows) - 1, 0, len(windows) // 2):
        anew = make_epochs(persist=persist)
        ranks = [make_epochs(own, persist=persist) for own in (slice(0, 1), slice(1, 4))]
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
    copies, copy = [], epochs.shuffled
    monkeypatch.setattr(
        epochs,
        "shuffled",
        lambda split, seed, number: copies.append(number) or copy(split, seed, number),
    )
    monkeypatch.setattr(epochs, "COPIED_AT_ONCE", 100)
    tracemalloc.start()
    try:
        reading = Epochs(split, DataConfig(window=5000), 4, 0, slice(None))
        for number in range(4):
            reading[number * reading.windows_per_epoch]
        _, peak = tracemalloc.get_traced_memory()
        assert copies == [1, 2, 3]
        copies.clear()
        Epochs(split, DataConfig(window=5000), 4, 0, slice(None))[reading.first]
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * tokens.nbytes
    assert copies == [3]  # as after a resume


def test_reviews_stay_whole_and_the_seed_decides():
    split = make_split()
    orders = [shuffled(split, seed, number) for seed, number in ((0, 1), (0, 1), (0, 2), (1, 1))]
    for dealt in orders:
        texts = [dealt.tokens[a:b].tobytes() for a, b in itertools.pairwise(dealt.offsets)]
        assert sorted(map(len, texts)) == sorted(SIZES)
        assert all(len(set(text)) == 1 for text in texts)
    contents = [dealt.tokens.tobytes() for dealt in orders]
    assert contents[0] == contents[1]
    assert len(set(contents)) == 3
    earlier = np.random.default_rng([1, 1]).permutation(len(SIZES)).tolist()
    assert contents[3] == b"".join(bytes([review]) * SIZES[review] for review in earlier)


def first_window(lanes, number):
    """Return where an epoch begins, among the windows of all epochs."""
    if isinstance(lanes, Lanes):
        return number * lanes.windows_per_epoch  # of as many shards as lanes
    windows_by_epoch(lanes, number)
    return lanes.first


@pytest.mark.parametrize(("before", "now"), [("shards", "reviews"), ("reviews", "shards")])
def test_another_shuffling_changes_no_first_epoch_and_the_epoch_after_it_is_complete(before, now):
    """A resume asks the other lanes for the window that comes next."""
    ways = [DataConfig(window=7, persist="review", shuffle=way) for way in (before, now)]
    old, new = (lanes_of(make_split(), way, 4, 0, slice(None)) for way in ways)
    for index in range(old.windows_per_epoch):
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(old[index], field), getattr(new[index], field))
    begin, end = first_window(new, 2), first_window(new, 3)
    for resumed in (old.windows_per_epoch + 1, begin - 1):
        anew = lanes_of(make_split(), ways[1], 4, 0, slice(None))
        windows = [reviews_of(anew[index]) for index in range(resumed, end)]
        read = sum(windows[begin - resumed :], Counter())
        assert read == Counter({review: size - 1 for review, size in enumerate(SIZES)})


def test_auto_depends_on_the_size_of_the_split():
    class Huge:
        """As many bytes as no test has."""

        nbytes = MOST_BYTES + 1

    split, config = make_split(), DataConfig()
    assert settle_shuffle(config, split).shuffle == "reviews"
    assert settle_shuffle(config, Split(Huge(), split.offsets)).shuffle == "shards"
    assert settle_shuffle(DataConfig(shuffle="shards"), split).shuffle == "shards"
    assert isinstance(lanes_of(split, DataConfig(shuffle="shards"), 4, 0, slice(None)), Lanes)
    assert isinstance(lanes_of(split, DataConfig(shuffle="reviews"), 4, 0, slice(None)), Epochs)
