"""Passes over a window captured in CUDA graphs: no Python, no launches between their kernels."""

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..arguments import Inputs
from ..weight_gradients import Factors, PostponedProducts, weight_gradients
from .triton_window import Activations, Gradients, in_order, run_backward, run_forward

MOST_SIZES = 4  # of windows whose passes are kept captured
STALE = 64  # windows of other sizes, after which a kept size may make room for a new one
_local = threading.local()


@contextmanager
def without_graphs() -> Iterator[None]:
    """Leave what is saved to autograd, since its hooks (checkpoint's) see no graph's memory."""
    before = getattr(_local, "graphs", True)
    _local.graphs = False
    try:
        yield
    finally:
        _local.graphs = before


def graphs_are_on() -> bool:
    """Say whether this thread is outside of `without_graphs`."""
    return getattr(_local, "graphs", True)


def graphed_mlstm(
    inputs: Inputs, postponed: PostponedProducts | None = None
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return h and the last h and c, with their gradient; None where too many sizes are in use.

    postponed: as in `RecurrentWeights`.
    """
    captured = _graphs.take(inputs)
    if captured is None:
        return None
    made: tuple[Tensor, Tensor, Tensor] = _GraphedMlstm.apply(captured, postponed, *inputs)
    return made


@dataclass
class Captured:
    """Both passes over memory of their own, to be replayed; for one window at a time."""

    sizes: Hashable  # of the windows it is good for, as `sizes_of` says them
    inputs: Inputs
    made: Activations
    replay_forward: Callable[[], None]
    given: tuple[Tensor, Tensor, Tensor]  # dh, dh_last, dc_last
    gradients: Gradients
    factors: Factors
    replay_backward: Callable[[], None]


class Graphs:
    """Captured windows that wait for another use, for a few sizes: each holds a window's memory."""

    def __init__(self) -> None:
        self.idle: dict[Hashable, list[Captured]] = {}
        self._last_use: dict[Hashable, int] = {}  # of each size kept: the number of its window
        self._windows = 0

    def take(self, inputs: Inputs) -> Captured | None:
        """Return passes that nobody uses, captured now if need be.

        None where MOST_SIZES others are in use. A capture costs several passes: sizes that come in
        turns must not drive each other out, but one that comes no more must not stay for good.
        """
        sizes = sizes_of(inputs)
        self._windows += 1
        if sizes not in self.idle and not self._make_room():
            return None
        self._last_use[sizes] = self._windows
        idle = self.idle.setdefault(sizes, [])
        return idle.pop() if idle else _capture(inputs, sizes)

    def _make_room(self) -> bool:
        """Say whether one more size may be kept, once the one longest unused is gone if stale."""
        if len(self.idle) < MOST_SIZES:
            return True
        oldest = min(self._last_use, key=self._last_use.__getitem__)
        if self._windows - self._last_use[oldest] <= STALE:
            return False
        del self.idle[oldest], self._last_use[oldest]
        return True

    def give_back(self, captured: Captured) -> None:
        """Take passes back whose results are no longer needed; drop those of a size not kept."""
        idle = self.idle.get(captured.sizes)
        if idle is not None:
            idle.append(captured)


_graphs = Graphs()


def sizes_of(inputs: Inputs) -> Hashable:
    """Return what a capture is good for: sizes and dtypes, and the stream that is replayed on."""
    tensors = tuple(None if t is None else (tuple(t.shape), t.dtype, t.device) for t in inputs)
    return tensors, _stream(inputs.h0.device)


def _stream(device: torch.device) -> int:
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0


def _capture(inputs: Inputs, sizes: Hashable) -> Captured:
    x, rows, *rest = inputs
    own = Inputs(
        x.detach().clone(),
        None if rows is None else rows.clone(),
        *(tensor.detach().clone() for tensor in rest),
    )
    device = x.device
    made, replay_forward = _graph(lambda: run_forward(own, save=True), device)
    given = (torch.zeros_like(made.h), torch.zeros_like(own.h0), torch.zeros_like(own.c0))
    backward, replay_backward = _graph(lambda: _flat(run_backward(own, made, *given)), device)
    gradients, factors = Gradients(*backward[:_GRADIENTS]), Factors(*backward[_GRADIENTS:])
    return Captured(sizes, own, made, replay_forward, given, gradients, factors, replay_backward)


_GRADIENTS = len(Gradients._fields)


def _flat(made: tuple[Gradients, Factors]) -> tuple[Tensor, ...]:
    return (*made[0], *made[1])


def _graph(work: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
    """Run once to compile the kernels, then capture; return what is made and how to remake it."""
    stream = _capture_stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # Other threads, NCCL's among them, may call CUDA meanwhile.
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        made = work()
    return made, graph.replay


@cache
def _capture_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


class _Lease:
    """Holds a captured window until its backward is done or given up."""

    def __init__(self, captured: Captured):
        self.captured = captured

    def __del__(self) -> None:
        if _graphs is not None:  # else the interpreter is going down
            _graphs.give_back(self.captured)


class _LeasedFactors(Factors):
    """Factors in captured memory, which is theirs until the last product of them is made."""

    lease: _Lease

    @classmethod
    def under(cls, lease: _Lease) -> "_LeasedFactors":
        factors = cls(*lease.captured.factors)
        factors.lease = lease
        return factors


class _GraphedMlstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, captured: Captured, postponed: PostponedProducts | None, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.lease, ctx.postponed = _Lease(captured), postponed
        _copy(Inputs(*tensors), captured.inputs)
        captured.replay_forward()
        ctx.set_materialize_grads(False)
        return captured.made.h.clone(), captured.made.h[-1].clone(), captured.made.c[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        captured, factors = ctx.lease.captured, _LeasedFactors.under(ctx.lease)
        for own, grad in zip(captured.given, grads, strict=True):
            own.zero_() if grad is None else own.copy_(grad)
        captured.replay_backward()
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            # This node lives as long as the loss, which a loop holds until its next forward pass
            # has made another: that pass would need a captured window beside this one.
            ctx.lease = None
        of_weights = weight_gradients(factors, ctx.postponed)
        gradients = Gradients(*(gradient.clone() for gradient in captured.gradients))
        return None, None, *in_order(gradients, *of_weights)


def _copy(source: Inputs, target: Inputs) -> None:
    for ours, theirs in zip(target, source, strict=True):
        if ours is not None and theirs is not None:
            ours.copy_(theirs)
