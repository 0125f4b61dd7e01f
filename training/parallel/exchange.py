"""How the ranks' gradients become one: in buckets during backward, or in one piece after it.

With Adasum they become one within groups of ranks alone, and between the groups what they, or the
steps that the optimiser makes of them, have in common counts once.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from model.errors import InputError, check_finite
from model.state import State

from ..feeding import Batch
from ..objective import IGNORED, Objective
from .adasum import Adasum
from .distributed import World
from .rank_groups import RankGroups
from .sender import Sender

Compression = Literal["none", "fp16", "bf16", "powersgd"]
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}  # of what travels; else fp32
MEGABYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """How several ranks work together."""

    compression: Compression = "none"
    """Form in which gradients travel: fp32 (none), fp16 (Puri et al. 2018), bf16, or PowerSGD's two
    factors."""
    bucket_cap_mb: float = 25.0
    """Size at which a bucket of gradients is sent, while backward continues."""
    flat: bool = False
    """Send all gradients in one piece after backward, as in 2018, instead of buckets during it."""
    windows_per_step: int = 1
    """Windows whose gradients are added up before they are exchanged and the weights updated."""
    lane_groups: int = 1
    """Compute a rank's lanes in so many groups, one after the other: the same gradient in less
    memory."""
    shares: Literal["even", "measured"] | tuple[float, ...] = "even"
    """How lanes are divided among ranks: evenly, in proportion to the speed measured at
    checkpoints, or in proportion to these numbers."""
    combine: Literal["mean", "adasum"] = "mean"
    """How the ranks' work is combined: the mean of their gradients, or Adasum (Maleki et al. 2020).
    With plain SGD, Adasum combines gradients, otherwise the steps of each group's optimiser. The
    papers' rule for the rate then counts the lanes of one group."""
    adasum_group: int = 1
    """Neighbouring ranks, such as those of a node, whose mean is taken before Adasum; the number of
    groups must be a power of two."""
    powersgd_rank: int = 4
    powersgd_start: int = 1000
    """Exchanges before PowerSGD compresses, at least 2."""

    def __post_init__(self) -> None:
        check_finite(self, "parallel.")
        for name in ("windows_per_step", "lane_groups", "powersgd_rank", "adasum_group"):
            if getattr(self, name) < 1:
                raise InputError(f"parallel.{name} is {getattr(self, name)}; at least 1")
        if self.powersgd_start < 2:  # DDP lays its buckets anew after the first exchange
            raise InputError(f"parallel.powersgd_start is {self.powersgd_start}; at least 2")
        if not self.bucket_cap_mb > 0:
            raise InputError(f"parallel.bucket_cap_mb is {self.bucket_cap_mb}; above zero")
        if self.flat and self.compression == "powersgd":
            raise InputError("parallel.flat cannot go with powersgd, which works by buckets")
        numbers = self.shares if isinstance(self.shares, tuple) else (1.0,)
        if not min(numbers, default=-1) >= 0 < sum(numbers):
            raise InputError(f"parallel.shares is {self.shares}; numbers from 0, not all of them 0")
        self._check_adasum()

    def _check_adasum(self) -> None:
        if self.combine == "mean":
            if self.adasum_group > 1:
                raise InputError("parallel.adasum_group goes with parallel.combine adasum alone")
            return
        for key, value in (("compression", self.compression), ("flat", self.flat)):
            if value not in ("none", False):
                raise InputError(
                    f"parallel.combine adasum and parallel.{key} {value} do not go together"
                )


class Exchange:
    """An objective whose backward leaves every rank the mean of all ranks' gradients.

    With Adasum, the mean of its group's; `update` then combines the groups', or the steps that they
    take: the latter where the optimiser is stateful. A process alone computes and exchanges
    nothing.
    """

    def __init__(
        self,
        objective: Objective,
        config: ParallelConfig,
        world: World,
        *,
        stateful_optimizer: bool = False,
    ):
        self.model, self.config, self.world = objective.model, config, world
        one = config.combine == "mean" or world.size == 1
        self.groups = RankGroups.whole(world) if one else RankGroups.of(world, config.adasum_group)
        self.adasum = Adasum(self.groups) if self.groups.count > 1 else None
        self.of_steps = self.adasum is not None and stateful_optimizer
        # Within a group, all ranks' optimisers are in the same state.
        self.optimizer_groups = self.groups if self.of_steps else RankGroups.whole(world)
        dtype = DTYPES.get(config.compression, torch.float32)
        self.sender = Sender(self.groups, dtype, world.device)
        self.clock = self.sender.clock
        self.compute: Callable[..., tuple[Tensor, State]] = objective
        if config.flat or self.adasum is not None:
            self._begin_as_one()
        if self.groups.size > 1 and not config.flat:
            self.compute = self._in_buckets(objective)

    @property
    def sent_bytes(self) -> float:
        """What this rank has sent so far: 2 (p - 1) / p of the payload of a ring all-reduce."""
        ring = 2 * (self.groups.size - 1) / self.groups.size * self.sender.payload
        return ring + (self.adasum.sent_bytes if self.adasum is not None else 0)

    def gradient_scale(self, batches: Sequence[Batch]) -> float | Tensor:
        """Return what nats are multiplied by, so that the mean of a group's ranks is per symbol."""
        if self.adasum is None:
            return self.groups.size / sum(batch.transitions for batch in batches)
        symbols = torch.stack([(batch.targets != IGNORED).sum() for batch in batches]).sum()
        if self.groups.size > 1:
            dist.all_reduce(symbols, group=self.groups.within)
        return self.groups.size / symbols.clamp(min=1)

    def _begin_as_one(self) -> None:
        if self.world.size > 1:
            for parameter in self.model.parameters():
                dist.broadcast(parameter.detach(), src=0)

    def _in_buckets(self, objective: Objective) -> DistributedDataParallel:
        ddp = DistributedDataParallel(
            _Leaves(objective),
            process_group=self.groups.within,
            bucket_cap_mb=self.config.bucket_cap_mb,
            gradient_as_bucket_view=True,
        )
        if self.config.compression == "powersgd":
            self.sender.compress(self.config.powersgd_rank, self.config.powersgd_start)
        ddp.register_comm_hook(self.sender, Sender.send)
        return ddp

    @contextmanager
    def round(self, *, last: bool) -> Iterator[None]:
        """Hold one forward and backward pass; gradients add up until the last of an update."""
        ddp = self.compute if isinstance(self.compute, DistributedDataParallel) else None
        with ddp.no_sync() if ddp is not None and not last else nullcontext():
            yield
        if last:
            self._finish()

    def _finish(self) -> None:
        if self.world.size == 1:
            return
        if self.config.flat:
            self.clock.begin()
            self.sender.send_flat(self._gradients())
        self.clock.end()
        self.model.gather_gradients()

    @contextmanager
    def update(self) -> Iterator[None]:
        """Hold a step of the optimisers, between Adasum of the gradients and Adasum of the steps.

        Only one of them is taken. All groups begin from the same weights, and end with the same.
        """
        if not self.of_steps:
            self._combine(self._gradients())
            yield
            return
        weights = [parameter.detach() for parameter in self.model.parameters()]
        before = [weight.clone() for weight in weights]
        yield
        steps = [weight - old for weight, old in zip(weights, before, strict=True)]
        self._combine(steps)
        for weight, old, step in zip(weights, before, steps, strict=True):
            torch.add(old, step, out=weight)

    def share_overflow(self) -> None:
        """Make all gradients NaN where one is not finite, so that the step is skipped as a whole.

        A loss scaler judges each optimiser by its own gradients alone, and with Adasum each group
        of ranks has gradients of its own.
        """
        gradients = self._gradients()
        largest = torch.nn.utils.get_total_norm(gradients, math.inf)
        found = (~largest.isfinite()).float()
        if self.adasum is not None:
            dist.all_reduce(found, op=dist.ReduceOp.MAX)
        poison = torch.where(found > 0, math.nan, 0.0)
        for gradient in gradients:
            gradient.add_(poison)

    def _combine(self, tensors: Sequence[Tensor]) -> None:
        if self.adasum is not None:
            self.clock.begin()
            self.adasum.combine_(tensors)
            self.clock.end()

    def _gradients(self) -> list[Tensor]:
        return [p.grad for p in self.model.parameters() if p.grad is not None]


class _Leaves(nn.Module):
    """What DDP sees of an objective: the parameters that take gradients as they are computed."""

    def __init__(self, objective: Objective):
        super().__init__()
        self.leaves = nn.ParameterList(objective.model.split_leaves())
        self.compute: Callable[..., Any] = objective.__call__  # no submodule: leaves are all

    def forward(self, *inputs: Any) -> tuple[Tensor, State]:
        """Compute the objective."""
        result: tuple[Tensor, State] = self.compute(*inputs)
        return result
