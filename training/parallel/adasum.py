"""Adasum averages what gradients have in common and adds what is orthogonal.

Maleki et al. 2020 (arXiv:2006.02924), as in Horovod: a pair (a, b) becomes

    (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b

for each tensor separately, with dot products in float64. Ranks 0 and 1, 2 and 3, ... are pairs;
their results are paired again, until one is left. Horovod halves the vectors between each two
ranks. Here every rank takes an equal part of all vectors, and the dot products are summed
over all ranks. A rank sends as much as in a ring, 2 (p - 1) / p of a vector. Every element is
computed by only one rank, so all ranks end with the same bits, whatever their hardware.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mlstm_sentiment.errors import InputError
from model.state import IGNORED

from .batch import Batch
from .distributed import World
from .exchange import Exchange, ring_bytes

_TINY = sys.float_info.min**0.5  # Horovod's threshold: with |a|^2 below it, a is added unchanged
PIECE = 2**20  # elements of a tensor that are in float64 at a time


class AdasumExchange(Exchange):
    """Adasum of the steps that each rank's optimiser makes from its own gradients."""

    optimizers_differ = True

    def __init__(self, parameters: Iterable[nn.Parameter], world: World):
        """Raise InputError unless the ranks are a power of two."""
        super().__init__(world)
        if world.size & (world.size - 1):
            raise InputError(
                "parallel.combine adasum combines ranks in pairs, until one is left: start a power "
                f"of two of processes, not {world.size}"
            )
        self._weights = [parameter.detach() for parameter in parameters]

    def lanes_averaged(self, lanes: int) -> float:
        return lanes / self.world.size

    def gradient_scale(self, batches: Sequence[Batch]) -> Tensor:
        """Return the factor that turns this rank's nats into its mean per token."""
        tokens = torch.stack([(batch.targets != IGNORED).sum() for batch in batches]).sum()
        return 1 / tokens.clamp(min=1)

    def overflow_on_any_rank(self, overflow: Tensor) -> Tensor:
        """Return whether any rank's gradients overflowed; with Adasum they differ by rank."""
        dist.all_reduce(overflow, op=dist.ReduceOp.MAX)
        return overflow

    @contextmanager
    def during_update(self) -> Iterator[None]:
        """Combine the optimisers' steps; all ranks have equal weights before and after."""
        before = [weight.clone() for weight in self._weights]
        yield
        steps = [weight - old for weight, old in zip(self._weights, before, strict=True)]
        self.clock.begin()
        self._combine(steps)
        self.clock.end()
        for weight, old, step in zip(self._weights, before, steps, strict=True):
            torch.add(old, step, out=weight)

    def _combine(self, tensors: Sequence[Tensor]) -> None:
        """Replace the tensors, of one dtype, on every rank by Adasum of all ranks' tensors."""
        sizes = [tensor.numel() for tensor in tensors]
        padding = -sum(sizes) % self.world.size
        parts = [*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)]
        vectors, lengths = self._scatter(torch.cat(parts), [*sizes, padding])
        whole = self._all_gather(combined(vectors, lengths, self._sum))
        for tensor, part in zip(tensors, whole.split([*sizes, padding]), strict=False):
            tensor.copy_(part.view_as(tensor))

    def _scatter(self, vector: Tensor, sizes: Sequence[int]) -> tuple[Tensor, list[int]]:
        """Give every rank an equal part of all ranks' vectors [n].

        Returns this rank's part, [ranks, n / ranks], and how many of its columns each tensor has.
        """
        width = len(vector) // self.world.size
        vectors = vector.new_empty(self.world.size, width)
        dist.all_to_all_single(vectors, vector.view(self.world.size, width))
        self.sent_bytes += (self.world.size - 1) * width * vector.element_size()
        begin = self.world.rank * width
        bounds = [min(max(end - begin, 0), width) for end in accumulate(sizes, initial=0)]
        return vectors, [b - a for a, b in pairwise(bounds)]

    def _all_gather(self, part: Tensor) -> Tensor:
        """Join all ranks' parts [n / ranks] into [n]."""
        whole = part.new_empty(self.world.size * len(part))
        dist.all_gather(list(whole.chunk(self.world.size)), part)
        self.sent_bytes += (self.world.size - 1) * part.nbytes
        return whole

    def _sum(self, dots: Tensor) -> Tensor:
        dist.all_reduce(dots)
        self.sent_bytes += ring_bytes(self.world.size, dots.nbytes)
        return dots


def combined(
    vectors: Tensor, lengths: Sequence[int], total: Callable[[Tensor], Tensor] = lambda dots: dots
) -> Tensor:
    """Return Adasum [n] of vectors [ranks, n], ranks a power of two.

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
    return torch.where(square < _TINY, 1.0, 1 - ab / (2 * square))


def _pieces(lengths: Sequence[int], most: int) -> Iterator[tuple[int, slice]]:
    """Yield the number of a tensor and some of its columns, at most `most` at a time."""
    for tensor, (begin, end) in enumerate(pairwise(accumulate(lengths, initial=0))):
        for first in range(begin, end, most):
            yield tensor, slice(first, min(first + most, end))
