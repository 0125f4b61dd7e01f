"""A window on CUDA: products by cuBLAS, the arithmetic between them in Triton, no Python between.

`run_forward` and `run_backward` are the two passes over plain buffers. They run as they stand
under Triton's interpreter, where the tests hold them against the reference; on a GPU each is
captured once in a CUDA graph, per sizes, and replayed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..state import State

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class Inputs(NamedTuple):
    """What a window reads, as `reference_mlstm` takes it."""

    x: Tensor  # [T, B, 5H], or [R, 5H] with rows
    rows: Tensor | None  # [T, B]
    h0: Tensor  # [B, H]
    c0: Tensor  # [B, H] fp32
    w_mh: Tensor  # [H, H]
    w_h: Tensor  # [4H, H]
    b: Tensor  # [4H] fp32

    def at(self, t: int) -> tuple[Tensor, Tensor | None]:
        """Return x and rows of one byte."""
        return (self.x[t], None) if self.rows is None else (self.x, self.rows[t])


class Activations(NamedTuple):
    """What forward makes and backward reads. One byte's worth where nothing is saved, but for h."""

    h: Tensor  # [T, B, H]
    c: Tensor  # [T or 1, B, H] fp32
    recurrent: Tensor  # [T or 1, B, H]: W_mh h, the other factor of m
    gates: Tensor  # [T or 1, B, 4H], after their non-linearities


class Gradients(NamedTuple):
    """What backward makes: of the arguments in the order of `Inputs`, without rows."""

    x: Tensor
    h0: Tensor
    c0: Tensor
    w_mh: Tensor
    w_h: Tensor
    b: Tensor


def runs_in_triton(w_mh: Tensor) -> bool:
    """Say whether this path can take the device and dtype."""
    return w_mh.device.type == "cuda" and w_mh.dtype in DTYPES and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def run_forward(inputs: Inputs, *, save: bool) -> Activations:
    """Advance over the window."""
    from .triton_kernels import advance, multiply

    (B, H), T = inputs.h0.shape, len(inputs.x if inputs.rows is None else inputs.rows)
    kept = T if save else 1
    new = inputs.h0.new_empty
    made = Activations(
        new(T, B, H), new(kept, B, H, dtype=torch.float32), new(kept, B, H), new(kept, B, 4 * H)
    )
    m = new(B, H)
    h, c = inputs.h0, inputs.c0
    for t in range(T):
        at = t if save else 0
        torch.mm(h, inputs.w_mh.t(), out=made.recurrent[at])
        multiply(*inputs.at(t), made.recurrent[at], m)
        torch.mm(m, inputs.w_h.t(), out=made.gates[at])
        advance(*inputs.at(t), made.gates[at], inputs.b, c, made.c[at], made.h[t])
        h, c = made.h[t], made.c[at]
    return made


def run_backward(
    inputs: Inputs, made: Activations, dh: Tensor, dh_last: Tensor, dc_last: Tensor
) -> Gradients:
    """Go back over the window: dh [T, B, H] is the gradient of h, the others of the last state."""
    from .triton_kernels import retreat, unmultiply

    T, B, H = made.h.shape
    new = made.h.new_empty
    dx, d_recurrent, m = new(T, B, 5 * H), new(T, B, H), new(T, B, H)
    dm, dh_next, dc = new(B, H), dh_last.clone(), dc_last.clone()
    for t in reversed(range(T)):
        c_before = made.c[t - 1] if t > 0 else inputs.c0
        retreat(dh[t], dh_next, made.gates[t], c_before, made.c[t], dc, dx[t])
        torch.mm(dx[t, :, H:], inputs.w_h, out=dm)
        unmultiply(dm, *inputs.at(t), made.recurrent[t], dx[t], d_recurrent[t], m[t])
        torch.mm(d_recurrent[t], inputs.w_mh, out=dh_next)
    dz = dx.view(T * B, 5 * H)[:, H:]
    d_w_h = dz.t() @ m.view(T * B, H)
    h_before = torch.cat([inputs.h0.unsqueeze(0), made.h[:-1]]).view(T * B, H)
    d_w_mh = d_recurrent.view(T * B, H).t() @ h_before
    d_b = dz.sum(0, dtype=torch.float32)
    return Gradients(_of_x(dx, inputs), dh_next, dc, d_w_mh, d_w_h, d_b)


def _of_x(dx: Tensor, inputs: Inputs) -> Tensor:
    """Add up the gradients of all bytes that read the same row.

    As a product: exact in its sums, the same every time, and it can be captured; adding 256 rows
    up atomically is none of these, and slower.
    """
    if inputs.rows is None:
        return dx
    flat = dx.view(-1, dx.shape[-1])
    chosen = flat.new_zeros(len(flat), len(inputs.x))  # [T * B, R], a one in every row
    chosen.scatter_(1, inputs.rows.reshape(-1, 1), 1)
    return chosen.t() @ flat


@dataclass
class Captured:
    """Both passes over memory of their own, to be replayed; for one window at a time."""

    inputs: Inputs
    made: Activations
    replay_forward: Callable[[], None]
    given: tuple[Tensor, Tensor, Tensor]  # dh, dh_last, dc_last
    gradients: Gradients
    replay_backward: Callable[[], None]


@dataclass
class Graphs:
    """Captured windows by the sizes of their inputs, and which of them wait for a backward."""

    idle: dict[tuple[Any, ...], list[Captured]] = field(default_factory=dict)

    def take(self, inputs: Inputs) -> Captured:
        """Return passes that nobody uses, captured now if there are none."""
        idle = self.idle.setdefault(_sizes(inputs), [])
        return idle.pop() if idle else _capture(inputs)

    def give_back(self, captured: Captured) -> None:
        """Take passes back whose results are no longer needed."""
        self.idle[_sizes(captured.inputs)].append(captured)


_graphs = Graphs()


def _sizes(inputs: Inputs) -> tuple[Any, ...]:
    return tuple(None if t is None else (tuple(t.shape), t.dtype, t.device) for t in inputs)


def _capture(inputs: Inputs) -> Captured:
    x, rows, *rest = inputs
    own = Inputs(
        x.detach().clone(),
        None if rows is None else rows.clone(),
        *(tensor.detach().clone() for tensor in rest),
    )
    made, replay_forward = _graph(lambda: run_forward(own, save=True))
    given = (torch.zeros_like(made.h), torch.zeros_like(own.h0), torch.zeros_like(own.c0))
    gradients, replay_backward = _graph(lambda: run_backward(own, made, *given))
    return Captured(own, made, replay_forward, given, gradients, replay_backward)


def _graph(work: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    """Run once to compile the kernels, then capture; return what is made and how to remake it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # Other threads, NCCL's among them, may call CUDA meanwhile.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        made = work()
    return made, graph.replay


class _Lease:
    """Holds a captured window until its backward is done or given up."""

    def __init__(self, captured: Captured):
        self.captured = captured

    def __del__(self) -> None:
        _graphs.give_back(self.captured)


class _GraphedMlstm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor | None, x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        inputs = Inputs(x, rows, *rest)
        ctx.lease = _Lease(_graphs.take(inputs))
        captured = ctx.lease.captured
        _copy(inputs, captured.inputs)
        captured.replay_forward()
        ctx.set_materialize_grads(False)
        return (captured.made.h.clone(), captured.made.h[-1].clone(), captured.made.c[-1].clone())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        captured = ctx.lease.captured
        for own, grad in zip(captured.given, grads, strict=True):
            own.zero_() if grad is None else own.copy_(grad)
        captured.replay_backward()
        return (None, *(gradient.clone() for gradient in captured.gradients))


def _copy(source: Inputs, target: Inputs) -> None:
    for ours, theirs in zip(target, source, strict=True):
        if ours is not None and theirs is not None:
            ours.copy_(theirs)


class _TritonMlstm(torch.autograd.Function):
    """The same without graphs: what the interpreter runs."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor | None, x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        inputs = Inputs(x, rows, *rest)
        made = run_forward(inputs, save=True)
        ctx.save_for_backward(*inputs, *made)
        return made.h, made.h[-1].clone(), made.c[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        size = len(Inputs._fields)
        inputs, made = Inputs(*saved[:size]), Activations(*saved[size:])
        return (None, *run_backward(inputs, made, *(grad.contiguous() for grad in grads)))


def triton_mlstm(
    x_proj: Tensor,
    state: State,
    w_mh: Tensor,
    w_h: Tensor,
    b: Tensor,
    rows: Tensor | None = None,
) -> tuple[Tensor, State]:
    """Compute what `reference_mlstm` computes, where `runs_in_triton` says so."""
    x_proj, w_mh, w_h, b = (tensor.contiguous() for tensor in (x_proj, w_mh, w_h, b))
    rows = None if rows is None else rows.contiguous()
    inputs = (x_proj, state.h.contiguous(), state.c.contiguous(), w_mh, w_h, b)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        function = _GraphedMlstm if w_mh.device.type == "cuda" else _TritonMlstm
        h, last_h, last_c = function.apply(rows, *inputs)
        return h, State(last_h, last_c)
    made = run_forward(Inputs(x_proj, rows, *inputs[1:]), save=False)
    return made.h, State(made.h[-1].clone(), made.c[-1].clone())
