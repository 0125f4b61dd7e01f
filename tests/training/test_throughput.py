"""Where a step's time goes, and who should compute what."""

import pytest
import torch

from training.parallel.distributed import World, apportion
from training.throughput import Stopwatch, Times, better_shares, bottleneck


def times(total=10.0, exposed=0.0, waited=0.0, characters=1000.0):
    return Times(total, exposed, waited, characters, 0.0)


def test_pauses_do_not_count(monkeypatch):
    now = iter([0.0, 10.0, 110.0, 120.0])
    monkeypatch.setattr("training.throughput.time.perf_counter", lambda: next(now))
    watch = Stopwatch()  # at 0
    with watch:  # 10 to 110
        pass
    assert watch.lap() == 20  # at 120


@pytest.mark.parametrize(
    ("ranks", "named"),
    [
        ([times()], "compute"),
        ([times(exposed=0.5), times(exposed=0.9)], "compute"),
        ([times(exposed=4.0), times(exposed=3.0)], "communication 30%"),
        ([times(exposed=0.5), times(exposed=6.0), times(exposed=6.0)], "straggler 37%"),
        ([times(waited=2.0)], "input 20%"),
    ],
)
def test_what_holds_the_step_up_is_named(ranks, named):
    assert bottleneck(ranks) == named


def test_shares_follow_the_speed_of_computing():
    # Both have 1,000 characters; the first computes for 2.5 s and waits for the other 7.5.
    ranks = [times(exposed=7.5), times()]
    assert better_shares(ranks, [8, 8], 16) == pytest.approx((400.0, 100.0))
    # 13 of 16 lanes at 400, 3 at 100 characters per second: as good as it gets
    ranks = [times(characters=1300.0, exposed=6.75), times(characters=300.0, exposed=7.0)]
    assert better_shares(ranks, [13, 3], 16) is None


def test_a_rank_without_lanes_keeps_none():
    assert better_shares([times(), times(characters=0.0)], [8, 0], 8) is None


@pytest.mark.parametrize("items", [0, 1, 7, 64])
@pytest.mark.parametrize("shares", [(1.0,), (1.0, 1.0, 1.0), (5.0, 0.0, 0.3), (0.1, 0.2, 0.7, 9.0)])
def test_all_items_are_dealt_in_proportion(items, shares):
    counts = apportion(items, shares)
    assert sum(counts) == items
    for count, share in zip(counts, shares, strict=True):
        assert abs(count - items * share / sum(shares)) < 1
    world = World(0, len(shares), torch.device("cpu"), shares)
    slices = [world.slice_of(rank, items) for rank in range(len(shares))]
    assert [s.stop - s.start for s in slices] == counts
    assert [s.start for s in slices] == [0, *(s.stop for s in slices[:-1])]
