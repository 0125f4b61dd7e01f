"""Passes over a window captured in CUDA graphs: no Python, no launches between their kernels."""

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..weight_gradients import DeferredWeightGradients, Factors, weight_gradients
from ..window import Inputs
from .window import Activations, in_order, run_backward, run_forward

_STEADY = 8  # successive windows of another size after which it is captured instead
_PIECE = 32  # tokens captured together; a shorter window would not repay copying the weights


def graphed_mlstm(
    inputs: Inputs, deferred: DeferredWeightGradients | None
) -> tuple[Tensor, ...] | None:
    """Return h and the last h and c, with their gradient; None if the window is not captured.

    deferred: as in `RecurrentWeights`.
    """
    graphs, _ = _graphs_for(inputs.x.device)
    captured = None if graphs is None else graphs.borrow(inputs)
    if captured is None:
        return None
    outputs: tuple[Tensor, ...] = _GraphedMlstm.apply(captured, deferred, *inputs)
    return outputs


def graphed_forward(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return h and the last h and c without a gradient; None if the window is not captured.

    Texts have many lengths, so only the pass over a piece of tokens is captured. A window replays
    it as often as possible, and runs the remainder without a graph.
    """
    _, graphs = _graphs_for(inputs.x.device)
    if graphs is None or (length := inputs.sizes[0]) < (piece := graphs.piece):
        return None
    captured = graphs.borrow(_part(inputs, 0, piece))
    if captured is None:
        return None
    h, whole = inputs.h0.new_empty(length, *inputs.h0.shape), length - length % piece
    try:
        own, activations = captured.inputs, captured.activations
        _copy(_part(inputs, 0, piece), own)
        for first in range(0, whole, piece):
            if first:
                _over_tokens(own).copy_(_over_tokens(inputs)[first : first + piece])
                own.h0.copy_(activations.h[-1])
                own.c0.copy_(activations.c[-1])
            captured.replay_forward()
            h[first : first + piece].copy_(activations.h)
        _, last_h, last_c = activations.ends()
    finally:
        graphs.give_back(captured)
    if whole < length:
        rest = _part(inputs, whole, length)._replace(h0=last_h, c0=last_c)
        of_rest, last_h, last_c = run_forward(rest, save=False).ends()
        h[whole:].copy_(of_rest)
    return h, last_h, last_c


@dataclass
class _CapturedForward:
    """The forward pass, captured with its own memory, to be replayed for one window at a time."""

    owner: "Graphs"  # which gets it back
    key: Hashable  # of the windows that it fits, from `Graphs.capture_key`
    inputs: Inputs
    activations: Activations
    replay_forward: Callable[[], None]


@dataclass
class _Captured(_CapturedForward):
    """Both passes, captured in the same way."""

    output_grads: tuple[Tensor, Tensor, Tensor]  # dh, dh_last, dc_last
    gradients: list[Tensor]  # of x, h0, c0 and b
    factors: Factors
    replay_backward: Callable[[], None]


class CudaCapture:
    """Captures work in CUDA graphs, so that it can be repeated in the same memory."""

    def stream(self, device: torch.device) -> int:
        """Return the number of a device's current stream."""
        return torch.cuda.current_stream(device).cuda_stream

    def __call__(
        self, work: Callable[[], Any], device: torch.device
    ) -> tuple[Any, Callable[[], None]]:
        """Return the result, and a function that computes it again in the same memory.

        The first of two runs compiles the kernels.
        """
        stream = _capture_stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            work()
        torch.cuda.current_stream(device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # Other threads, NCCL's among them, may call CUDA meanwhile.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            result = work()
        return result, graph.replay


@cache
def _capture_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


class Graphs:
    """Captured windows kept for reuse; each holds a window's memory, so they have one size.

    The size is T and B; layers of a model share it. Threads may share the windows; they capture one
    after the other. steady: after this many successive windows of another size, it replaces the one
    that is kept. So a new split of the lanes is captured soon, and lengths that alternate are not.
    """

    first = 1  # windows in a row after which the first size is captured

    def __init__(self, capture: CudaCapture | None = None, steady: int = _STEADY) -> None:
        # Reentrant: the garbage collector may return a window while one is being taken.
        self._lock = threading.RLock()
        self._capture = capture or CudaCapture()
        self._steady = steady
        self.idle: dict[Hashable, list[Any]] = {}
        self._size: tuple[int, int] | None = None  # T and B of the windows that are kept
        self._coming: tuple[int, int] | None = None  # of the last windows, if another one
        self._times = 0  # how many windows in a row had it

    def borrow(self, inputs: Inputs) -> Any:
        """Return passes that nobody holds, captured now if necessary; None for another size."""
        key, (T, B, _) = self.capture_key(inputs), inputs.sizes
        with self._lock:
            if not self._keeps((T, B)):
                return None
            idle = self.idle.setdefault(key, [])
            return idle.pop() if idle else self._captured(inputs, key)

    def _keeps(self, size: tuple[int, int]) -> bool:
        """Return whether windows of a size are kept; drop those of another size if it stays."""
        if size == self._size:
            self._coming, self._times = None, 0
            return True
        self._times = self._times + 1 if size == self._coming else 1
        self._coming = size
        if self._times < (self.first if self._size is None else self._steady):
            return False
        self.idle.clear()
        self._size, self._coming, self._times = size, None, 0
        return True

    def give_back(self, captured: _CapturedForward) -> None:
        """Take back passes whose results are no longer needed; drop those of a size not kept."""
        with self._lock:
            idle = self.idle.get(captured.key)
            if idle is not None:
                idle.append(captured)

    def capture_key(self, inputs: Inputs) -> Hashable:
        """Return what a capture fits: sizes, dtypes, and the stream of its replay."""
        tensors = tuple(None if t is None else (tuple(t.shape), t.dtype, t.device) for t in inputs)
        return tensors, self._capture.stream(inputs.h0.device)

    def _captured(self, inputs: Inputs, key: Hashable) -> _CapturedForward:
        own, device = _cloned(inputs), inputs.x.device
        forward, replay = self._capture(partial(run_forward, own, save=True), device)
        grads = (torch.zeros_like(forward.h), torch.zeros_like(own.h0), torch.zeros_like(own.c0))
        work = partial(run_backward, own, forward, *grads)
        (*gradients, dz, m, d_r, h, h0), replay_backward = self._capture(work, device)
        factors = Factors(dz, m, d_r, h, h0)
        return _Captured(
            self, key, own, forward, replay, grads, gradients, factors, replay_backward
        )


class InferenceGraphs(Graphs):
    """Captured forward passes without a gradient.

    The number of lanes changes whenever a text ends, so a size is captured only when it occurs in
    successive windows. piece: tokens captured together; other arguments: as for `Graphs`.
    """

    first = 2

    def __init__(
        self,
        capture: CudaCapture | None = None,
        steady: int = _STEADY,
        piece: int = _PIECE,
    ) -> None:
        super().__init__(capture, steady)
        self.piece = piece

    def _captured(self, inputs: Inputs, key: Hashable) -> _CapturedForward:
        # Ordinary tensors, which may be written to in and outside of inference mode.
        with torch.inference_mode(False), torch.no_grad():
            own = _cloned(inputs)
            work = partial(run_forward, own, save=False)
            activations, replay = self._capture(work, inputs.x.device)
        return _CapturedForward(self, key, own, activations, replay)


_shared_graphs = Graphs()  # of all threads
_shared_inference_graphs = InferenceGraphs()


_Choice = tuple[Graphs | None, InferenceGraphs | None]
_choice = ContextVar[_Choice | None]("captured_by", default=None)  # of this thread


@contextmanager
def captured_by(graphs: Graphs | None, inference: InferenceGraphs | None = None) -> Iterator[None]:
    """Let this thread capture its windows in these graphs, on any device; None: in no graphs.

    inference: for windows without a gradient.
    """
    token = _choice.set((graphs, inference))
    try:
        yield
    finally:
        _choice.reset(token)


@contextmanager
def without_graphs() -> Iterator[None]:
    """Let autograd save activations: hooks, as for checkpointing, cannot see a graph's memory."""
    with captured_by(None):
        yield


def _graphs_for(device: torch.device) -> _Choice:
    """Return the graphs in which this thread captures windows, and those without a gradient."""
    shared = (_shared_graphs, _shared_inference_graphs) if device.type == "cuda" else (None, None)
    return _choice.get() or shared


class _Lease:
    """Holds a captured window until its backward pass is done or abandoned."""

    def __init__(self, captured: _Captured):
        self.captured = captured

    def __del__(self) -> None:
        self.captured.owner.give_back(self.captured)


class _LeasedFactors(Factors):
    """Factors in captured memory, which stays reserved until their last product is computed."""

    lease: _Lease


class _GraphedMlstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, captured: _Captured, deferred: DeferredWeightGradients | None, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.lease, ctx.deferred = _Lease(captured), deferred
        _copy(Inputs(*tensors), captured.inputs)
        captured.replay_forward()
        ctx.set_materialize_grads(False)
        h, last_h, last_c = captured.activations.ends()
        return h.clone(), last_h, last_c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        captured = ctx.lease.captured
        factors = _LeasedFactors(*captured.factors)
        factors.lease = ctx.lease
        for own, grad in zip(captured.output_grads, grads, strict=True):
            own.zero_() if grad is None else own.copy_(grad)
        captured.replay_backward()
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            # This node lives as long as the loss, which a training loop holds until its next
            # forward pass: that pass would need a second captured window.
            ctx.lease = None
        of_weights = weight_gradients(factors, ctx.deferred)
        gradients = [gradient.clone() for gradient in captured.gradients]
        return None, None, *in_order(gradients, *of_weights)


def _cloned(inputs: Inputs) -> Inputs:
    return Inputs._make(tensor if tensor is None else tensor.detach().clone() for tensor in inputs)


def _over_tokens(inputs: Inputs) -> Tensor:
    """Return the tensor that has a row for each token: the indices, or x without indices."""
    return inputs.x if inputs.indices is None else inputs.indices


def _part(inputs: Inputs, first: int, end: int) -> Inputs:
    """Return some tokens of a window, with the state before the whole window."""
    name = "x" if inputs.indices is None else "indices"
    return inputs._replace(**{name: _over_tokens(inputs)[first:end]})


def _copy(source: Inputs, target: Inputs) -> None:
    for ours, theirs in zip(target, source, strict=True):
        if ours is not None and theirs is not None:
            ours.copy_(theirs)
