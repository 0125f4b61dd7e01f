"""Ranks in groups of neighbours of equal size, and the optimiser states of these groups."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from model.errors import InputError

from .distributed import World


@dataclass(frozen=True)
class RankGroups:
    """This rank's place: rank = index * size + place."""

    size: int  # ranks in a group
    count: int  # groups
    index: int  # of this rank's group
    place: int  # of this rank in its group
    within: dist.ProcessGroup | None = None  # the ranks of this group; None is the world
    across: dist.ProcessGroup | None = None  # the ranks of this place in every group; as above

    @classmethod
    def whole(cls, world: World) -> "RankGroups":
        """Return all ranks as one group."""
        return cls(world.size, 1, 0, world.rank)

    @classmethod
    def of(cls, world: World, size: int) -> "RankGroups":
        """Return groups of this many ranks. All ranks call it together. InputError as `number`."""
        count = cls.number(world.size, size)
        if count == 1:
            return cls.whole(world)
        index, place = divmod(world.rank, size)
        if size == 1:
            return cls(size, count, index, place)
        ranks = torch.arange(world.size).view(count, size)
        within, across = (
            dist.new_subgroups_by_enumeration(rows.tolist(), timeout=world.timeout)[0]
            for rows in (ranks, ranks.t())
        )
        return cls(size, count, index, place, within, across)

    @staticmethod
    def number(ranks: int, size: int) -> int:
        """Return how many groups of `size` the ranks are.

        Raises InputError unless it is a power of two, as Adasum's pairs need.
        """
        if ranks % size:
            raise InputError(
                f"parallel.adasum_group is {size}, which does not divide the {ranks} "
                f"process{'es' * (ranks > 1)}"
            )
        count = ranks // size
        if count & (count - 1):
            raise InputError(
                f"parallel.combine adasum pairs a power of two of groups; {ranks} processes "
                f"in groups of {size} (parallel.adasum_group) are {count} groups; set "
                f"parallel.adasum_group {ranks // (count & -count)}, or start another number"
            )
        return count

    def send_to_main(self, tensors: Mapping[str, Tensor], world: World) -> None:
        """Send this group's tensors to the main rank's `receive`; called by all other ranks."""
        if self.index and not self.place:
            for tensor in tensors.values():
                sent = tensor.to(world.device).contiguous()
                world.finish(dist.isend(sent, dst=0))

    def receive(
        self, tensors: Mapping[str, Tensor], world: World
    ) -> Iterator[Mapping[str, Tensor]]:
        """Yield every group's tensors on the main rank, one group at a time, the given ones first.

        In all groups the tensors have the same names, shapes and dtypes.
        """
        yield tensors
        for index in range(1, self.count):
            received = {}
            for name, own in tensors.items():
                buffer = torch.empty(own.shape, dtype=own.dtype, device=world.device)
                world.finish(dist.irecv(buffer, src=index * self.size))
                received[name] = buffer.cpu()
            yield received


class OptimizerStates:
    """The optimiser states of a run: one for each group of ranks; by default one group."""

    def __init__(self, groups: RankGroups):
        self.groups = groups

    def describe(self) -> dict[str, Any]:
        """Return a checkpoint's description of them, for `check_saved`."""
        return {"optimizer_states": self.groups.count} if self.groups.count > 1 else {}

    def check_saved(self, description: Mapping[str, Any], path: Path) -> None:
        """Raise InputError, naming the file, if a checkpoint has another number of groups."""
        saved = self.saved_number(description, "optimizer_states", 1, path)
        if saved != self.groups.count:
            raise InputError(f"{path}: {self.reason_against(saved)}")

    def reason_against(self, saved: int) -> str:
        """Return why this run cannot continue with another number of states."""
        return f"optimizer_states is {saved}; this run has {self.groups.count}"

    @staticmethod
    def saved_number(description: Mapping[str, Any], key: str, default: int, path: Path) -> int:
        """Return a number of groups; InputError if it is invalid."""
        number = description.get(key, default)
        if not isinstance(number, int) or number < 1:
            raise InputError(f"{path}: {key} is {number!r}; it should be a number")
        return number
