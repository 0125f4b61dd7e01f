"""Sorted runs: written, read back, merged in stretches of a bounded size; repeats are found."""

import os
import tempfile
from itertools import chain, count
from pathlib import Path

import numpy as np
import pytest

from data_utils.preparation.blocks import Reviews
from data_utils.preparation.runs import Run, _finished, _write_run, find_repeats, stretches
from mlstm_sentiment.reading.texts import ReadingReport

ORIGIN = {"input": ["in.jsonl", 3, 4], "seed": 0, "strict": False}
KEYS = np.array([7, 3, 5], np.uint64)


@pytest.fixture
def run(tmp_path):
    """Three reviews in the order of their keys: two, three, one."""
    reviews = Reviews(
        [b"one", b"two", b"three"], [0, 1, 4], ReadingReport(records=5), ["a"], {"text": 3}
    )
    run = Run(tmp_path / "block", 2, {})
    assert _finished(run, ORIGIN) is None
    return _write_run(run, reviews, np.array([0, 1, 4], np.uint64), KEYS, True, ORIGIN)


@pytest.mark.parametrize("suffix", [".bin", ".index"])
def test_a_run_that_a_crash_of_the_system_left_short_is_not_finished(run, suffix):
    whole = run.path(suffix).read_bytes()
    run.path(suffix).write_bytes(whole[:-1])
    assert _finished(run, ORIGIN) is None
    run.path(suffix).unlink()
    assert _finished(run, ORIGIN) is None
    run.path(suffix).write_bytes(whole)
    assert _finished(run, ORIGIN) == run


@pytest.mark.parametrize("written", [1, 2])
def test_a_run_that_was_interrupted_while_it_was_written_anew_is_not_finished(
    run, monkeypatch, written
):
    """The new data has the size of the old: the same reviews in another order."""
    flushed = count(1)

    def interrupt(path):
        if next(flushed) == written:
            raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    reviews = Reviews([b"one", b"two", b"three"], [0, 1, 4], ReadingReport(records=5))
    with pytest.raises(KeyboardInterrupt):
        _write_run(run, reviews, np.array([0, 1, 4], np.uint64), KEYS[::-1], True, {"seed": 1})
    assert _finished(run, ORIGIN) is None


@pytest.mark.parametrize("most", [1, 2, 100])
def test_of_reviews_with_both_halves_equal_the_first_in_the_input_stays(run, most):
    for pairs, repeated in (  # in the order of the keys: the places are 1, 4 and 0
        ([(1, 5), (1, 6), (2, 6)], [False, False, False]),
        ([(1, 5), (1, 5), (2, 5)], [False, True, False]),
        ([(1, 5), (2, 5), (1, 5)], [True, False, False]),
    ):
        entries = np.array(run.entries())
        entries["digest"] = pairs
        run.path(".index").write_bytes(entries.tobytes())
        assert [each.tolist() for each in find_repeats([run], most)] == [repeated]


@pytest.fixture
def folder():
    """A folder in memory if the system has one: flushing thousands of files takes minutes."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture
def write(folder):
    """Write a run of reviews, whose keys are given."""
    runs = []

    def append(encoded, keys):
        reviews = Reviews(encoded, list(range(len(encoded))), ReadingReport())
        keys = np.array(keys, np.uint64)
        run = Run(folder / f"block-{len(runs)}", 0, {})
        runs.append(_write_run(run, reviews, keys, keys, False, ORIGIN))
        return runs

    return append


def merged(runs, size, *, shuffled=True, repeats=None):
    return [list(map(bytes, part)) for part in stretches(runs, shuffled, repeats, size)]


@pytest.mark.parametrize("shuffled", [False, True])
def test_stretches_hold_the_reviews_in_order_and_about_the_same_bytes(write, shuffled):
    """Long and short reviews; no run is opened for a stretch in which it has none."""
    lengths = [4] * 2000 + [400] * 200
    keys = np.sort(np.random.default_rng(0).integers(2**64, size=len(lengths), dtype=np.uint64))
    if shuffled:
        np.random.default_rng(1).shuffle(keys)
    reviews = [b"%04d" % (key % 10_000) * (n // 4) for key, n in zip(keys, lengths, strict=True)]
    for first in range(0, len(lengths), 20):
        runs = write(reviews[first : first + 20], keys[first : first + 20])
    stretches = merged(runs, 8000, shuffled=shuffled)
    assert list(chain.from_iterable(stretches)) == [reviews[place] for place in np.argsort(keys)]
    sizes = [sum(map(len, part)) for part in stretches]
    assert max(sizes) <= 8000 * 1.6
    assert len(sizes) <= 2 + sum(lengths) // 8000


def test_keys_at_both_ends_of_their_range_are_in_the_order(write):
    write([b"last", b"a", b""], [2**64 - 1, 0, 5])
    write([], [])
    runs = write([b"b", b"later"], [1, 2**64 - 2])
    for size in (1, 3, 100):
        assert list(chain.from_iterable(merged(runs, size))) == [b"a", b"b", b"", b"later", b"last"]
    repeats = [np.array([True, False, False]), np.zeros(0, bool), np.array([False, True])]
    assert list(chain.from_iterable(merged(runs, 3, repeats=repeats))) == [b"b", b"", b"last"]
    assert merged([], 5) == []
