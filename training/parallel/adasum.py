"""Adasum averages what gradients have in common and adds what is orthogonal.

Maleki et al. 2020 (arXiv:2006.02924), as in Horovod: a pair (a, b) becomes

    (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b

for each tensor separately, with dot products in float64. Groups 0 and 1, 2 and 3, ... are pairs;
their results are paired in turn, until one is left. Horovod halves the vectors between each two
ranks. Here every rank takes an equal part of all vectors at once, and the dot products are summed
over all ranks. A rank sends as much as in a ring, 2 (p - 1) / p of a vector. Every element is
computed by only one rank, so all ranks end with the same bits, whatever their hardware.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from model.errors import InputError
from model.language_model import LanguageModel

from ..feeding import Batch
from ..objective import IGNORED
from .buckets import Exchange, begin_as_one, gradients_of
from .distributed import World
from .rank_groups import OptimizerStates, RankGroups

TINY = sys.float_info.min**0.5  # Horovod's threshold: with |a|^2 below it, a is added unchanged
PIECE = 2**20  # elements of a tensor that are in float64 at a time


class AdasumExchange(Exchange):
    """The mean of a group's gradients within each group, and Adasum between the groups.

    Adasum combines the gradients; or, if the optimiser remembers earlier steps, the steps that each
    group's optimiser makes from its own gradients.
    """

    def __init__(
        self,
        model: LanguageModel,
        world: World,
        groups: RankGroups,
        within: Exchange,
        *,
        of_steps: bool,
    ):
        """Take the exchange within this rank's group; of_steps: combine steps, not gradients."""
        super().__init__(model, world)
        self.groups, self.within, self.of_steps = groups, within, of_steps
        self.adasum = Adasum(groups)
        self.clock, self.leaves = within.clock, within.leaves
        self.states = AdasumStates(world, groups, groups.size, of_steps=of_steps)
        begin_as_one(model)

    @property
    def sent_bytes(self) -> float:
        """The bytes that this rank has sent so far, within its group and between groups."""
        return self.within.sent_bytes + self.adasum.sent_bytes

    def lanes_averaged(self, lanes: int) -> float:
        """Return the lanes of one group."""
        return lanes / self.groups.count

    def gradient_scale(self, batches: Sequence[Batch]) -> Tensor:
        """Return the factor of the nats that makes the mean of a group's ranks per token."""
        tokens = torch.stack([(batch.targets != IGNORED).sum() for batch in batches]).sum()
        if self.groups.size > 1:
            dist.all_reduce(tokens, group=self.groups.within)
        return self.groups.size / tokens.clamp(min=1)

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        """Take the mean within the group."""
        with self.within.during_backward():
            yield

    def on_any_rank(self, found: Tensor) -> Tensor:
        """Ask the other groups, whose gradients differ."""
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return found

    @contextmanager
    def update(self) -> Iterator[None]:
        """Combine the gradients before the optimisers step, or their steps after.

        All groups begin from the same weights and end with the same.
        """
        if not self.of_steps:
            self._combine(gradients_of(self.model))
            yield
            return
        weights = [parameter.detach() for parameter in self.model.parameters()]
        before = [weight.clone() for weight in weights]
        yield
        steps = [weight - old for weight, old in zip(weights, before, strict=True)]
        self._combine(steps)
        for weight, old, step in zip(weights, before, steps, strict=True):
            torch.add(old, step, out=weight)

    def _combine(self, tensors: Sequence[Tensor]) -> None:
        self.clock.begin()
        self.adasum.combine_(tensors)
        self.clock.end()


class AdasumStates(OptimizerStates):
    """One state per group if Adasum combines steps; a single one if it combines gradients."""

    def __init__(self, world: World, groups: RankGroups, group_size: int, *, of_steps: bool):
        """Take `parallel.adasum_group` too: a single process is a group, whatever the setting."""
        super().__init__(groups if of_steps else RankGroups.whole(world))
        self.combined, self.group_size, self.ranks = groups.count, group_size, world.size

    def describe(self) -> dict[str, Any]:
        """Add the groups between which gradients or steps are combined."""
        return {**super().describe(), "adasum_groups": self.combined}

    def check_saved(self, description: Mapping[str, Any], path: Path) -> None:
        """Also raise InputError if there is one state but Adasum had another number of groups."""
        super().check_saved(description, path)
        now = self.combined  # older checkpoints do not record it
        if (saved := self.saved_number(description, "adasum_groups", now, path)) != now:
            raise InputError(
                f"{path}: Adasum combined the gradients of {saved} groups, now of {now}; "
                f"{self._mend(saved)}"
            )

    def reason_against(self, saved: int) -> str:
        """Say how to start the saved number of groups."""
        return (
            f"each Adasum group has its own optimiser state; the checkpoint has {saved} groups, "
            f"this run {self.groups.count}; {self._mend(saved)}"
        )

    def _mend(self, groups: int) -> str:
        ranks = self.ranks
        mend = f"set parallel.adasum_group {ranks // groups}, or " if ranks % groups == 0 else ""
        return f"{mend}start {groups * self.group_size} processes"


class Adasum:
    """Combines the groups' tensors; the ranks of a group have equal ones."""

    def __init__(self, groups: RankGroups):
        self.groups = groups
        self.ranks = groups.size * groups.count
        self.sent_bytes = 0.0  # by this rank

    def combine_(self, tensors: Sequence[Tensor]) -> None:
        """Replace the tensors, of one dtype, on every rank by Adasum of all groups' tensors."""
        sizes = [tensor.numel() for tensor in tensors]
        padding = -sum(sizes) % self.ranks
        parts = [*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)]
        vectors, lengths = self._deal(torch.cat(parts), [*sizes, padding])
        whole = self._collect(combined(vectors, lengths, self._sum))
        for tensor, part in zip(tensors, whole.split([*sizes, padding]), strict=False):
            tensor.copy_(part.view_as(tensor))

    def _deal(self, vector: Tensor, sizes: Sequence[int]) -> tuple[Tensor, list[int]]:
        """Give every rank an equal part of all groups' vectors [n].

        Returns this rank's, [groups, n / ranks], and how many of its columns are each tensor's.
        """
        groups = self.groups
        width = len(vector) // self.ranks
        own = vector.view(groups.size, -1)[groups.place]  # [n / size], the part of this place
        vectors = own.new_empty(groups.count, width)
        dist.all_to_all_single(vectors, own.view(groups.count, width), group=groups.across)
        self.sent_bytes += (groups.count - 1) * width * vector.element_size()
        begin = (groups.place * groups.count + groups.index) * width
        bounds = [min(max(end - begin, 0), width) for end in accumulate(sizes, initial=0)]
        return vectors, [b - a for a, b in pairwise(bounds)]

    def _collect(self, part: Tensor) -> Tensor:
        """Join all ranks' parts [n / ranks] into [n]: first those of a place, then the places."""
        groups = self.groups
        for ranks, group in ((groups.count, groups.across), (groups.size, groups.within)):
            if ranks > 1:
                whole = part.new_empty(ranks * len(part))
                dist.all_gather(list(whole.chunk(ranks)), part, group=group)
                self.sent_bytes += (ranks - 1) * part.nbytes
                part = whole
        return part

    def _sum(self, dots: Tensor) -> Tensor:
        dist.all_reduce(dots)
        self.sent_bytes += 2 * (self.ranks - 1) / self.ranks * dots.nbytes
        return dots


def combined(
    vectors: Tensor, lengths: Sequence[int], total: Callable[[Tensor], Tensor] = lambda dots: dots
) -> Tensor:
    """Return Adasum [n] of vectors [groups, n], groups a power of two.

    lengths: columns of each tensor, one after the other; the dot products are taken for each.
    total: adds up dot products over the ranks that hold other columns of the same tensors.
    """
    while len(vectors) > 1:
        a, b = vectors[0::2], vectors[1::2]  # [pairs, n]
        pieces = list(_pieces(lengths, max(PIECE // len(a), 1)))
        dots = vectors.new_zeros((3, len(a), len(lengths)), dtype=torch.float64)
        for tensor, columns in pieces:
            x, y = a[:, columns].double(), b[:, columns].double()
            products = ((x * y).sum(1), (x * x).sum(1), (y * y).sum(1))
            dots[:, :, tensor] += torch.stack(products)
        ab, aa, bb = total(dots)  # [pairs, tensors]
        of_a, of_b = _coefficient(ab, aa), _coefficient(ab, bb)
        vectors = torch.empty_like(a)
        for tensor, columns in pieces:
            x, y = a[:, columns].double(), b[:, columns].double()
            vectors[:, columns] = of_a[:, tensor, None] * x + of_b[:, tensor, None] * y
    return vectors[0]


def _coefficient(ab: Tensor, square: Tensor) -> Tensor:
    return torch.where(square < TINY, 1.0, 1 - ab / (2 * square))


def _pieces(lengths: Sequence[int], most: int) -> Iterator[tuple[int, slice]]:
    """Yield the number of a tensor and some of its columns, at most `most` at a time."""
    for tensor, (begin, end) in enumerate(pairwise(accumulate(lengths, initial=0))):
        for first in range(begin, end, most):
            yield tensor, slice(first, min(first + most, end))
