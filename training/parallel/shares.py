"""Lanes divided among ranks in proportion to the user's numbers, or to measured speed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from mlstm_sentiment.errors import InputError

from .distributed import EVEN, LaneSplit, World

_HYSTERESIS = 0.05  # lanes are divided again if that saves more than this fraction of a step


@dataclass(frozen=True)
class Shares(LaneSplit):
    """Splits lanes in proportion to a number of each rank."""

    numbers: tuple[float, ...]

    def __call__(self, rank: int, ranks: int, items: int) -> slice:
        ends = [0, *accumulate(apportion(items, self.numbers))]
        return slice(ends[rank], ends[rank + 1])


@dataclass(frozen=True)
class _MeasuredShares(LaneSplit):
    """Splits lanes in proportion to each rank's speed; evenly until that is measured."""

    now: LaneSplit = EVEN

    def __call__(self, rank: int, ranks: int, items: int) -> slice:
        return self.now(rank, ranks, items)

    def rebalanced(self, speeds: Sequence[float], lanes: int) -> "_MeasuredShares | None":
        slices = [self(rank, len(speeds), lanes) for rank in range(len(speeds))]
        shares = rebalanced_shares(speeds, [own.stop - own.start for own in slices], lanes)
        return None if shares is None else _MeasuredShares(Shares(shares))


def with_shares(world: World, shares: str | tuple[float, ...]) -> World:
    """Return the world with its lanes split as parallel.shares says: a word, or a number per rank.

    Raises InputError unless there are as many numbers as ranks.
    """
    if isinstance(shares, str):
        return replace(world, lane_split=_MeasuredShares()) if shares == "measured" else world
    if len(shares) != world.size:
        raise InputError(
            f"parallel.shares has {len(shares)} numbers for {world.size} processes; give one "
            "for each"
        )
    return replace(world, lane_split=Shares(shares))


def apportion(items: int, shares: Sequence[float]) -> list[int]:
    """Divide whole items in proportion, by largest remainders; none is left over."""
    exact = [items * share / sum(shares) for share in shares]
    counts = [int(part) for part in exact]
    by_remainder = sorted(range(len(shares)), key=lambda rank: counts[rank] - exact[rank])
    for rank in by_remainder[: items - sum(counts)]:
        counts[rank] += 1
    return counts


def rebalanced_shares(
    speeds: Sequence[float], counts: Sequence[int], lanes: int
) -> tuple[float, ...] | None:
    """Return shares in proportion to measured speed; None if they would save little.

    counts: the lanes that each rank has now. A rank that has none keeps none: its speed is unknown.
    """
    shares = tuple(speed if count else 0.0 for speed, count in zip(speeds, counts, strict=True))
    if not sum(shares):
        return None
    now = max(count / share for count, share in zip(counts, shares, strict=True) if share)
    return shares if lanes / sum(shares) < (1 - _HYSTERESIS) * now else None
