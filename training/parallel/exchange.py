"""How several ranks train one model: the settings, and what every way to combine them extends."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mlstm_sentiment.bounds import SAVED, Bound, PositiveInt, check_bounds
from mlstm_sentiment.errors import InputError
from model.layers.layer import PerGateParameters

from .batch import Batch
from .distributed import World

Compression = Literal["none", "fp16", "bf16"]
MOST_MEGABYTES = 1e6  # of a bucket: far above any model, and in bytes a whole number of 64 bits
MOST_SHARE = 1e15  # far above useful values; sums and products of larger ones may overflow a float


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """How several ranks work together."""

    compression: Compression = "none"
    """Form in which gradients travel: fp32 (none), fp16 (Puri et al. 2018) or bf16."""
    bucket_cap_mb: Annotated[float, Bound(above=0, max=MOST_MEGABYTES), SAVED] = 25.0
    """Size, in units of 2^20 bytes, at which a bucket of gradients is sent, while backward
    continues."""
    flat: bool = False
    """Send all gradients in one piece after backward, as in 2018, instead of buckets during it."""
    windows_per_step: Annotated[int, Bound(min=1, max=1 << 10)] = 1
    """Windows whose gradients are added up before they are exchanged and the weights updated."""
    lane_groups: PositiveInt = 1
    """Number of micro-batches of a rank's lanes, computed one after the other: the same gradient in
    less memory."""
    shares: Literal["even", "measured"] | tuple[float, ...] = "even"
    """How lanes are divided among ranks: evenly, in proportion to the speed measured at
    checkpoints, or in proportion to these numbers."""
    combine: Literal["mean", "adasum"] = "mean"
    """How the ranks' work is combined: the mean of their gradients, or Adasum (Maleki et al. 2020)
    of their optimisers' steps, for which the number of ranks must be a power of two. The papers'
    rule for the rate then counts the lanes of one rank."""

    def __post_init__(self) -> None:
        check_bounds(self, "parallel.")
        numbers = self.shares if isinstance(self.shares, tuple) else (1.0,)
        if not (min(numbers, default=-1) >= 0 and 0 < max(numbers) <= MOST_SHARE):
            raise InputError(
                f"parallel.shares is {self.shares}; give numbers from 0 to {MOST_SHARE:g}, not "
                "all of them 0"
            )
        for key, value in (("compression", self.compression), ("flat", self.flat)):
            if self.combine != "mean" and value not in ("none", False):
                raise InputError(
                    f"parallel.combine adasum and parallel.{key} {value} do not work together; "
                    "leave one out"
                )

    def check_effects(self) -> None:
        """Raise InputError for a setting without effect."""
        whole = self.flat or self.combine == "adasum"
        if whole and self.bucket_cap_mb != type(self).bucket_cap_mb:
            raise InputError(
                f"parallel.bucket_cap_mb is {self.bucket_cap_mb:g}, but all gradients are sent in "
                "one piece, without buckets; leave it out"
            )


class Clock:
    """Adds up the seconds between `begin` and `end`; a second `begin` replaces the first.

    On a GPU the points are events in its stream, read when the total is asked for.
    """

    def __init__(self, device: torch.device):
        self.on_gpu = device.type == "cuda"
        self._total = 0.0
        self._began: torch.cuda.Event | float | None = None
        self._spans: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def begin(self) -> None:
        """Set the first point here."""
        self._began = _event() if self.on_gpu else time.perf_counter()

    def end(self) -> None:
        """Set the second point here; if there was a first, count the seconds between them."""
        began, self._began = self._began, None
        if isinstance(began, float):
            self._total += time.perf_counter() - began
        elif began is not None:
            self._spans.append((began, _event()))

    def lap(self) -> float:
        """Return the seconds so far, and reset them; waits for a GPU's last event."""
        total, self._total = self._total, 0.0
        spans, self._spans = self._spans, []
        if spans:
            spans[-1][1].synchronize()
        return total + sum(a.elapsed_time(b) for a, b in spans) / 1000


def _event() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


class Exchange:
    """The part of a training step that involves other ranks; for a single process, nothing.

    The trainer computes forward and backward itself and calls the methods in this order:
    `gradient_scale` before the first loss, `during_backward` around the last backward pass of a
    step, `overflow_on_any_rank` if losses are scaled, `during_update` around the optimisers.
    """

    leaves: PerGateParameters | None = None
    """Tensors that receive the gradients in backward; if absent, the parameters."""
    optimizers_differ: ClassVar[bool] = False
    """Whether each rank has its own optimiser state."""

    def __init__(self, world: World):
        self.world = world
        self.clock = Clock(world.device)  # seconds of only the exchange
        self.sent_bytes = 0.0  # by this rank so far

    def lanes_averaged(self, lanes: int) -> float:
        """Return over how many of the lanes a gradient is averaged; the rate depends on it."""
        return lanes

    def gradient_scale(self, batches: Sequence[Batch]) -> float | Tensor:
        """Return the factor that turns a step's nats into the mean per token over all ranks."""
        return self.world.size / sum(batch.transitions for batch in batches)

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        """Run a step's last backward pass in this context; gradients become the ranks' mean."""
        yield

    def overflow_on_any_rank(self, overflow: Tensor) -> Tensor:
        """Return whether gradients overflowed on any rank, given whether they did on this one.

        overflow: 0 or 1, fp32 []. After `during_backward` all ranks have the same gradient.
        """
        return overflow

    @contextmanager
    def during_update(self) -> Iterator[None]:
        """Within this context, run the step of the optimisers."""
        yield


def ring_bytes(ranks: int, payload: int) -> float:
    """Return what a rank sends in a ring all-reduce of a payload, in bytes."""
    return 2 * (ranks - 1) / ranks * payload


def gradients_of(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """Return the existing gradients, in the order of the parameters."""
    return [p.grad for p in parameters if p.grad is not None]


def send_to_main(tensors: Mapping[str, Tensor], world: World) -> None:
    """Send this rank's tensors to the main rank's `every_ranks`; called by all other ranks."""
    for tensor in tensors.values():
        sent = tensor.to(world.device).contiguous()
        world.finish(dist.isend(sent, dst=0))


def every_ranks(tensors: Mapping[str, Tensor], world: World) -> Iterator[Mapping[str, Tensor]]:
    """Yield every rank's tensors on the main rank, one rank's at a time, its own `tensors` first.

    On all ranks the tensors have the same names, shapes and dtypes.
    """
    yield tensors
    for rank in range(1, world.size):
        received = {}
        for name, own in tensors.items():
            buffer = torch.empty(own.shape, dtype=own.dtype, device=world.device)
            world.finish(dist.irecv(buffer, src=rank))
            received[name] = buffer.cpu()
        yield received
