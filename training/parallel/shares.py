"""Lanes dealt to ranks in proportion: by numbers that the user gives, or by measured speed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from model.errors import InputError

from ..throughput import Times
from .distributed import World

if TYPE_CHECKING:
    from ..trainer import Trainer

HYSTERESIS = 0.05  # of a step: lanes are dealt anew where that saves more


@dataclass(frozen=True)
class Shares:
    """How lanes are divided among ranks: each rank's part is in proportion to its number."""

    numbers: tuple[float, ...]

    def __call__(self, rank: int, ranks: int, items: int) -> slice:
        """Return a rank's contiguous slice of the items."""
        ends = [0, *accumulate(apportion(items, self.numbers))]
        return slice(ends[rank], ends[rank + 1])


def with_shares(world: World, shares: str | tuple[float, ...]) -> World:
    """Return the world as parallel.shares has it deal: evenly by a word, else by a number a rank.

    Raises InputError where there are not as many numbers as ranks.
    """
    if isinstance(shares, str):
        return world
    if len(shares) != world.size:
        raise InputError(
            f"parallel.shares has {len(shares)} numbers for {world.size} processes; one each"
        )
    return replace(world, deal=Shares(shares))


def apportion(items: int, shares: Sequence[float]) -> list[int]:
    """Share whole items out in proportion, by largest remainders; they are all given."""
    exact = [items * share / sum(shares) for share in shares]
    counts = [int(part) for part in exact]
    by_remainder = sorted(range(len(shares)), key=lambda rank: counts[rank] - exact[rank])
    for rank in by_remainder[: items - sum(counts)]:
        counts[rank] += 1
    return counts


def balance(trainer: "Trainer", ranks: Sequence[Times]) -> bool:
    """Deal the lanes anew where that is asked for and pays; return whether they were.

    ranks: what each did since the last row of metrics. All ranks call it together.
    """
    world = trainer.world
    if trainer.parallel.shares != "measured" or not ranks or world.size == 1:
        return False
    slices_now = (world.slice_of(rank, trainer.lanes) for rank in range(world.size))
    counts = [own.stop - own.start for own in slices_now]
    speeds = better_shares(ranks, counts, trainer.lanes)
    if speeds is not None:
        trainer.deal_lanes(Shares(speeds))
    return speeds is not None


def better_shares(
    ranks: Sequence[Times], counts: Sequence[int], lanes: int
) -> tuple[float, ...] | None:
    """Return shares in proportion to measured speed; None where they would save little.

    counts: the lanes that each rank has now. A rank that has none keeps none: its speed is unknown.
    """
    speeds = tuple(rank.speed if count else 0.0 for rank, count in zip(ranks, counts, strict=True))
    if not sum(speeds):
        return None
    now = max(count / speed for count, speed in zip(counts, speeds, strict=True) if speed)
    return speeds if lanes / sum(speeds) < (1 - HYSTERESIS) * now else None
