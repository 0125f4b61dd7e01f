"""The part of a training step that involves other ranks; every way to combine them extends it."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mlstm_sentiment.errors import InputError
from model.layers.layer import PerGateParameters

from .batch import Batch
from .distributed import World


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


class OptimizerStates:
    """How many optimiser states there are, and which is this rank's."""

    def __init__(self, count: int = 1, index: int = 0):
        self.count, self.index = count, index

    def describe(self) -> dict[str, Any]:
        """Return a checkpoint's description of them, for `check_saved`."""
        return {"optimizer_states": self.count} if self.count > 1 else {}

    def check_saved(self, description: Mapping[str, Any], path: Path) -> None:
        """Raise InputError, naming the file, if a checkpoint has another number of states."""
        saved = description.get("optimizer_states", 1)
        if not isinstance(saved, int) or saved < 1:
            raise InputError(f"{path}: optimizer_states is {saved!r}; it should be a number")
        if saved != self.count:
            raise InputError(
                f"{path}: under Adasum each rank has its own optimiser state; the checkpoint has "
                f"{saved}, this run {self.count}; start {saved} processes"
            )

    def send_to_main(self, tensors: Mapping[str, Tensor], world: World) -> None:
        """Send this rank's tensors to the main rank's `receive`; called by all other ranks."""
        if self.index:
            for tensor in tensors.values():
                sent = tensor.to(world.device).contiguous()
                world.finish(dist.isend(sent, dst=0))

    def receive(
        self, tensors: Mapping[str, Tensor], world: World
    ) -> Iterator[Mapping[str, Tensor]]:
        """Yield every state's tensors on the main rank, one state at a time, `tensors` first.

        In all states the tensors have the same names, shapes and dtypes.
        """
        yield tensors
        for index in range(1, self.count):
            received = {}
            for name, own in tensors.items():
                buffer = torch.empty(own.shape, dtype=own.dtype, device=world.device)
                world.finish(dist.irecv(buffer, src=index))
                received[name] = buffer.cpu()
            yield received


class Exchange:
    """The part of a training step that involves other ranks; for a single process, nothing.

    The trainer computes forward and backward itself and calls the methods in this order:
    `gradient_scale` before the first loss, `during_backward` around the last backward pass of a
    step, `overflow_on_any_rank` if losses are scaled, `during_update` around the optimisers.
    """

    leaves: PerGateParameters | None = None
    """Tensors that receive the gradients in backward; if absent, the parameters."""

    def __init__(self, world: World):
        self.world = world
        self.clock = Clock(world.device)  # seconds of only the exchange
        self.states = OptimizerStates()

    @property
    def sent_bytes(self) -> float:
        """The bytes that this rank has sent so far."""
        return 0.0

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
