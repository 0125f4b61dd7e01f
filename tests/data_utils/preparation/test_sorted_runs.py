"""Sorted runs: written and read back; duplicates are found by their whole digest."""

import numpy as np
import pytest

from data_utils.preparation.blocks import Reviews
from data_utils.preparation.sorted_runs import (
    DIGESTS,
    SortedRun,
    digests_of,
    mark_duplicates,
    write_run,
)
from model.reading.texts import ReadingReport

KEYS = np.array([7, 3, 5], np.uint64)


@pytest.fixture
def run(tmp_path):
    """Three reviews in the order of their keys: two, three, one."""
    reviews = Reviews(
        [b"one", b"two", b"three"], [0, 1, 4], ReadingReport(records=5), ["a"], {"text": 3}
    )
    run = SortedRun(tmp_path / "block", 2)
    assert not run.is_finished(digests=True)
    write_run(run, reviews, np.array([0, 1, 4], np.uint64), KEYS, digests=True)
    return run


def test_reviews_lie_in_the_order_of_their_keys(run):
    assert run.is_finished(digests=True)
    assert run.path(".bin").read_bytes() == b"twothreeone"
    assert run.entries().tolist() == [(3, 1, 3), (5, 4, 5), (7, 0, 3)]
    assert run.digests().tolist() == digests_of([b"two", b"three", b"one"]).tolist()
    report = run.report()
    assert (report["reviews"], report["bytes"]) == (3, 11)
    assert (report["found_keys"], report["keys"]) == ({"text": 3}, ["a"])
    assert ReadingReport(**report["reading"]) == ReadingReport(records=5)


@pytest.mark.parametrize("suffix", [".bin", ".index", ".digests"])
def test_a_run_that_a_crash_of_the_system_left_short_is_not_finished(run, suffix):
    whole = run.path(suffix).read_bytes()
    run.path(suffix).write_bytes(whole[:-1])
    assert not run.is_finished(digests=True)
    run.path(suffix).unlink()
    assert not run.is_finished(digests=True)
    run.path(suffix).write_bytes(whole)
    assert run.is_finished(digests=True)


def test_what_is_mapped_cannot_be_changed(run):
    assert not run.entries().flags.writeable


def test_digests_have_two_halves():
    digests = digests_of([b"one", b"one", b"two"])
    assert digests.dtype == DIGESTS
    assert digests[0] == digests[1] != digests[2]
    assert (digests["high"] != digests["low"]).all()


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_of_reviews_with_both_halves_equal_the_first_in_the_input_stays(run, partitions):
    for pairs, dropped in (  # in the order of the keys: the places are 1, 4 and 0
        ([(1, 5), (1, 6), (2, 6)], [False, False, False]),
        ([(1, 5), (1, 5), (2, 5)], [False, True, False]),
        ([(1, 5), (2, 5), (1, 5)], [True, False, False]),
    ):
        run.path(".digests").write_bytes(np.array(pairs, DIGESTS).tobytes())
        assert mark_duplicates([run], partitions) == sum(dropped)
        assert run.distinct().tolist() == [not drop for drop in dropped]
