"""Which rank computes which lanes if ranks differ in speed."""

import pytest
import torch

from model.errors import InputError
from training.parallel.distributed import World
from training.parallel.exchange import ParallelConfig
from training.parallel.shares import Shares, apportion, rebalanced_shares, with_shares
from training.throughput import Times

CPU = torch.device("cpu")


def speed(characters=1000.0, exposed=0.0):
    """The speed of a rank that took ten seconds, and waited for others during some of them."""
    return Times(10.0, exposed, 0.0, characters, 0.0).speed


def test_only_measured_shares_change_and_only_for_a_better_deal():
    for shares in ("even", (1.0, 1.0)):
        assert with_shares(World(0, 2, CPU), shares).lane_split.rebalanced([1.0, 9.0], 16) is None
    measured = with_shares(World(0, 2, CPU), "measured").lane_split
    assert [measured(rank, 2, 5) for rank in range(2)] == [slice(0, 2), slice(2, 5)]
    better = measured.rebalanced([1.0, 3.0], 16)
    assert [better(rank, 2, 16) for rank in range(2)] == [slice(0, 4), slice(4, 16)]
    assert better.rebalanced([1.0, 3.0], 16) is None


def test_shares_are_one_for_each_rank():
    with pytest.raises(InputError, match=r"parallel\.shares has 3 numbers for 2"):
        with_shares(World(0, 2, CPU), (1.0, 1.0, 2.0))


def test_numbers_divide_the_lanes_of_every_rank():
    numbers = (1.0, 0.0, 3.0)
    for rank, own in enumerate([slice(0, 2), slice(2, 2), slice(2, 8)]):
        assert with_shares(World(rank, 3, CPU), numbers).own_slice(8) == own


def test_lanes_are_dealt_evenly_by_default():
    world = World(0, 2, CPU)
    assert ParallelConfig().shares == "even"
    assert with_shares(world, "even") is world


def test_shares_follow_the_speed_of_computing():
    # Both have 1,000 characters; the first computes for 2.5 s and waits for the other 7.5.
    speeds = [speed(exposed=7.5), speed()]
    assert rebalanced_shares(speeds, [8, 8], 16) == pytest.approx((400.0, 100.0))
    # 13 of 16 lanes at 400, 3 at 100 characters per second: as good as it gets
    speeds = [speed(1300.0, exposed=6.75), speed(300.0, exposed=7.0)]
    assert rebalanced_shares(speeds, [13, 3], 16) is None


def test_ranks_of_which_none_has_a_speed_keep_their_lanes():
    assert rebalanced_shares([0.0, 0.0], [4, 4], 8) is None


def test_a_rank_without_lanes_keeps_none():
    assert rebalanced_shares([1.0, 3.0, 2.0], [8, 8, 0], 16) == (1.0, 3.0, 0.0)
    assert rebalanced_shares([speed(), speed(0.0)], [8, 0], 8) is None


@pytest.mark.parametrize("items", [0, 1, 7, 64])
@pytest.mark.parametrize("shares", [(1.0,), (1.0, 1.0, 1.0), (5.0, 0.0, 0.3), (0.1, 0.2, 0.7, 9.0)])
def test_all_items_are_dealt_in_proportion(items, shares):
    counts = apportion(items, shares)
    assert sum(counts) == items
    for count, share in zip(counts, shares, strict=True):
        assert abs(count - items * share / sum(shares)) < 1
    world = World(0, len(shares), CPU, Shares(shares))
    slices = [world.slice_of(rank, items) for rank in range(len(shares))]
    assert [s.stop - s.start for s in slices] == counts
    assert [s.start for s in slices] == [0, *(s.stop for s in slices[:-1])]
