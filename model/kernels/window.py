"""The input of every implementation of the recurrence, and how kernels get it.

Shape letters as in cell.py; R rows of a table.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..state import State, look_up
from .crowding import watch
from .memory_pool import pooled_empty
from .weight_gradients import DeferredWeightGradients, summed_product


def linear_into_pooled_buffer(x: Tensor, w: Tensor) -> Tensor:
    """Return x [..., E] times w.T, for w [N, E] on the CPU, as `F.linear` does.

    The result and its gradient lie in memory of the pool, since fresh pages of a window's size are
    slow. Under autocast, or with two dtypes, this is `F.linear`.
    """
    if x.dtype != w.dtype or torch.is_autocast_enabled("cpu"):
        return F.linear(x, w)
    if torch.is_grad_enabled():
        result: Tensor = _LinearIntoPooledBuffer.apply(x, w)
        return result
    return _product(x, w.t())


def _product(a: Tensor, b: Tensor) -> Tensor:
    out = pooled_empty(*a.shape[:-1], b.shape[1], dtype=a.dtype)
    torch.mm(a.reshape(-1, len(b)), b, out=out.view(-1, b.shape[1]))
    return out


class _LinearIntoPooledBuffer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return _product(x, w.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        want_x, want_w = ctx.needs_input_grad
        dx = _product(d, w) if want_x else None
        return dx, summed_product(d.flatten(0, -2), x.flatten(0, -2)) if want_w else None


@dataclass(frozen=True)
class RecurrentWeights:
    """The weights that every byte is multiplied by, with the weight norm applied."""

    w_mh: Tensor  # [H, H], compute dtype
    w_h: Tensor  # [4H, H], compute dtype; the gates i f u o
    b: Tensor  # [4H], accumulation dtype
    packed: Tensor | None = None
    """w_mh and w_h in the layout of one implementation, as its `pack` returned them. That
    implementation then need not pack them in every window; the others ignore it."""
    deferred: DeferredWeightGradients | None = None
    """Receives the products for the gradients of w_mh and w_h, to be computed later. If absent,
    backward computes the gradients itself."""


@dataclass(frozen=True)
class RecurrenceInput:
    """T bytes of B lanes, the state before them and the weights."""

    x_proj: Tensor  # [T, B, 5H], the input's terms of m and of the gates i f u o; or as below
    state: State  # h [B, H] in the compute dtype, c [B, H] in the accumulation dtype
    weights: RecurrentWeights
    indices: Tensor | None = None
    """Whole numbers [T, B] below R. With them, x_proj is a table [R, 5H] of which each byte reads
    one row."""
    w_x: Tensor | None = None
    """The weights [5H, E] of the input, in the compute dtype. With them, x_proj is the input itself
    [T, B, E]. Only an implementation that `projects` takes them."""

    def projected(self, linear: Callable[[Tensor, Tensor], Tensor] = F.linear) -> "RecurrenceInput":
        """Return the same window with x_proj [T, B, 5H], projected from the input, if any."""
        if self.w_x is None:
            return self
        return replace(self, x_proj=linear(self.x_proj, self.w_x), w_x=None)

    def looked_up(self) -> "RecurrenceInput":
        """Return the same window with x_proj [T, B, 5H], read from the table, if any."""
        if self.indices is None:
            return self
        return replace(self, x_proj=look_up(self.indices, self.x_proj), indices=None)


class Inputs(NamedTuple):
    """A window's tensors, dense and each in the dtype that the kernels read."""

    x: Tensor  # [T, B, 5H], a table [R, 5H] or [T, B, E]; compute dtype, as h0, w_mh and w_h
    indices: Tensor | None  # int64 [T, B]: the row of the table that each byte reads
    h0: Tensor  # [B, H]
    c0: Tensor  # [B, H], fp32
    w_mh: Tensor  # [H, H]
    w_h: Tensor  # [4H, H]
    b: Tensor  # [4H], fp32

    @property
    def sizes(self) -> tuple[int, int, int]:
        """T, B and H."""
        B, H = self.h0.shape
        return len(self.x if self.indices is None else self.indices), B, H

    @property
    def want_gradient(self) -> bool:
        """Whether autograd needs the gradient of any of them."""
        return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in self)


def run_window(
    window: RecurrenceInput,
    with_gradient: Callable[..., tuple[Tensor, ...]],
    forward: Callable[..., tuple[Any, ...]],
    *,
    projects: bool = False,
) -> tuple[Tensor, State]:
    """Run a window on the CPU, under autograd only if something needs a gradient.

    with_gradient: takes the deferred products and `Inputs`. forward: takes `Inputs` and the packed
    weights. Both return h, the last h and the last c first. projects: as for `kernel_inputs`.
    """
    watch.look()
    inputs, w_x = kernel_inputs(window, projects=projects), window.w_x
    learns_w_x = w_x is not None and w_x.requires_grad and torch.is_grad_enabled()
    if inputs.want_gradient or learns_w_x:
        h, last_h, last_c = with_gradient(window.weights.deferred, *inputs)
    else:
        h, last_h, last_c, *_ = forward(inputs, packed=window.weights.packed)
    return h, State(last_h, last_c)


def kernel_inputs(window: RecurrenceInput, *, projects: bool = False) -> Inputs:
    """Return the tensors of a window, dense, in the compute dtype or in fp32.

    The kernels read memory and check nothing. So this raises ValueError if the shapes do not match,
    TypeError for rows that are not whole numbers, and IndexError if one is not in the table. On a
    GPU, rows are not checked against the table: that would wait for the device. projects: whether
    the kernels take inputs with their weights w_x; others raise ValueError for them.
    """
    x, indices, state, weights = window.x_proj, window.indices, window.state, window.weights
    (B, H), dtype, E = state.h.shape, weights.w_mh.dtype, _width_of_x(window, projects)
    operands = (x, state.h, state.c, weights.w_mh, weights.w_h, weights.b)
    sequence = (x.shape[0], B, E) if indices is None else (x.shape[0], 5 * H)
    shapes = (sequence, (B, H), (B, H), (H, H), (4 * H, H), (4 * H,))
    fits = all(tensor.shape == shape for tensor, shape in zip(operands, shapes, strict=True))
    if not fits or (indices is not None and (indices.dim() != 2 or indices.shape[1] != B)):
        actual = [tuple(tensor.shape) for tensor in operands]
        read = "" if indices is None else f", indices {tuple(indices.shape)} instead of (T, {B})"
        raise ValueError(f"x, h, c, w_mh, w_h, b are {actual} instead of {list(shapes)}{read}")
    tensors = [*operands, *([] if indices is None else [indices])]
    if any(tensor.device != weights.w_mh.device for tensor in tensors):
        devices = ", ".join(str(tensor.device) for tensor in tensors)
        raise ValueError(f"x, h, c, w_mh, w_h, b and indices are on {devices}; they must be on one")
    dtypes = (dtype, dtype, torch.float32, dtype, dtype, torch.float32)
    dense, *rest = (t.to(target).contiguous() for t, target in zip(operands, dtypes, strict=True))
    return Inputs(dense, _dense_indices(indices, len(x)), *rest)


def _width_of_x(window: RecurrenceInput, projects: bool) -> int:
    w_x, w_mh = window.w_x, window.weights.w_mh
    if w_x is None:
        return 5 * len(w_mh)
    if not projects or window.indices is not None:
        raise ValueError("x must be projected before: neither these kernels nor tables take w_x")
    if w_x.dim() != 2 or len(w_x) != 5 * len(w_mh) or w_x.device != w_mh.device:
        actual = f"{tuple(w_x.shape)} on {w_x.device}"
        raise ValueError(f"w_x is {actual} instead of ({5 * len(w_mh)}, E) on {w_mh.device}")
    return w_x.shape[1]


def _dense_indices(indices: Tensor | None, count: int) -> Tensor | None:
    if indices is None:
        return None
    if indices.is_floating_point() or indices.is_complex():
        raise TypeError(f"indices are {indices.dtype}; they must be whole numbers")
    indices = indices.long().contiguous()
    on_cpu = indices.device.type == "cpu"
    if on_cpu and indices.numel() and not 0 <= int(indices.min()) <= int(indices.max()) < count:
        raise IndexError(f"indices must be whole numbers from 0 to {count - 1}")
    return indices
