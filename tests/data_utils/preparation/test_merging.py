"""Stretches of sorted runs are of a bounded size, and no run is opened where it has no review."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from data_utils.preparation.blocks import Reviews
from data_utils.preparation.merging import stretches
from data_utils.preparation.sorted_runs import SortedRun, write_run
from model.reading.texts import ReadingReport


@pytest.fixture
def folder():
    """A folder in memory where the system has one: to flush thousands of files takes minutes."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture
def write(folder):
    """Write a run of reviews, whose keys are given."""
    runs = []

    def append(encoded, keys):
        run = SortedRun(folder / f"block-{len(runs)}", 0)
        rows = list(range(len(encoded)))
        keys = np.array(keys, np.uint64)
        write_run(run, Reviews(encoded, rows, ReadingReport()), keys, keys, digests=False)
        runs.append(run)
        return runs

    return append


def sizes_of(found):
    return [sum(map(len, reviews)) for reviews in found]


@pytest.mark.parametrize("order", ["kept", "shuffled"])
def test_a_stretch_of_long_reviews_is_no_larger_than_one_of_short_ones(write, order):
    lengths = [4] * 2000 + [400] * 200
    keys = np.arange(len(lengths))
    if order == "shuffled":
        np.random.default_rng(0).shuffle(keys)
    reviews = [b"%04d" % key * (length // 4) for key, length in zip(keys, lengths, strict=True)]
    for first in range(0, len(lengths), 100):
        runs = write(reviews[first : first + 100], keys[first : first + 100])
    found = [bytes(each) for part in stretches(runs, 4000) for each in part]
    assert found == [reviews[place] for place in np.argsort(keys)]
    sizes = sizes_of(stretches(runs, 4000))
    # Of each run that an edge cuts, a review may fall on its wrong side.
    assert max(sizes) <= 4000 + 400 * (1 if order == "kept" else len(runs))
    assert len(sizes) <= 2 + sum(lengths) // 4000


def test_each_of_many_short_runs_is_opened_a_few_times(write):
    opened = []

    class CountedRun(SortedRun):
        def path(self, suffix):
            opened.append(suffix)
            return super().path(suffix)

    for number in range(200):
        written = write([b"%03d" % number], [number << 32 | 7])
    runs = [CountedRun(run.base, run.input_number) for run in written]
    found = [b"".join(part) for part in stretches(runs, 3)]
    assert len(opened) <= 20 * len(runs)  # not once for each stretch
    assert b"".join(found) == b"".join(b"%03d" % number for number in range(200))


def test_keys_at_both_ends_of_their_range_are_in_the_order(write):
    write([b"last", b"a", b""], [2**64 - 1, 0, 5])
    write([], [])
    runs = write([b"b", b"later"], [1, 2**64 - 2])
    for size in (1, 3, 100):
        found = [bytes(each) for part in stretches(runs, size) for each in part]
        assert found == [b"a", b"b", b"", b"later", b"last"]
    assert list(stretches([], 5)) == [[]]


@pytest.mark.parametrize("each", [1, 7, 64, 100, 1000])
def test_no_stretch_is_much_larger_than_the_others_however_short_the_runs_are(write, each):
    """As those of a folder's files; their smallest keys alone would lie close together."""
    keys = np.random.default_rng(5).integers(2**64, size=(2000 // each, each), dtype=np.uint64)
    for row in np.sort(keys):
        runs = write([b"word" * 25] * each, row)
    sizes = sizes_of(stretches(runs, 40_000))
    assert sum(sizes) == keys.size * 100
    # A byte in 156 is drawn, 256 of a stretch: six of its standard errors.
    assert max(sizes) <= 40_000 * (1 + 6 / 16)
