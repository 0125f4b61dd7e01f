"""A window as the kernels read it, and what the implementations on a CPU do first."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from ..layers.window import Window
from ..state import State
from .crowding import watch


class Inputs(NamedTuple):
    """A window's tensors, dense and each in the dtype that the kernels read."""

    x: Tensor  # [T, B, 5H], or a table [R, 5H]; compute dtype, as h0, w_mh and w_h
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
    window: Window, with_gradient: type[Function], forward: Callable[..., tuple[Any, ...]]
) -> tuple[Tensor, State]:
    """Run a window on the CPU, under autograd only if something needs a gradient.

    with_gradient: takes the postponed products and `Inputs`. forward: takes `Inputs` and the packed
    weights. Both return h, the last h and the last c first.
    """
    watch.look()
    inputs = as_kernels_read_them(window)
    if inputs.want_gradient:
        h, last_h, last_c = with_gradient.apply(window.weights.postponed, *inputs)
    else:
        h, last_h, last_c, *_ = forward(inputs, packed=window.weights.packed)
    return h, State(last_h, last_c)


def as_kernels_read_them(window: Window) -> Inputs:
    """Return the tensors of a window, dense, in the compute dtype or in fp32.

    The kernels read memory and check nothing. Therefore this raises ValueError if the shapes do not
    match, and IndexError if a row is not in the table. Rows on a GPU are not checked: that would
    wait for the device.
    """
    x, indices, state, weights = window.x_proj, window.indices, window.state, window.weights
    (B, H), dtype = state.h.shape, weights.w_mh.dtype
    given = (x, state.h, state.c, weights.w_mh, weights.w_h, weights.b)
    sequence = (x.shape[0], B, 5 * H) if indices is None else (x.shape[0], 5 * H)
    shapes = (sequence, (B, H), (B, H), (H, H), (4 * H, H), (4 * H,))
    fits = all(tensor.shape == shape for tensor, shape in zip(given, shapes, strict=True))
    if not fits or (indices is not None and (indices.dim() != 2 or indices.shape[1] != B)):
        found = [tuple(tensor.shape) for tensor in given]
        read = "" if indices is None else f", indices {tuple(indices.shape)} instead of (T, {B})"
        raise ValueError(f"x, h, c, w_mh, w_h, b are {found} instead of {list(shapes)}{read}")
    tensors = [*given, *([] if indices is None else [indices])]
    if any(tensor.device != weights.w_mh.device for tensor in tensors):
        devices = ", ".join(str(tensor.device) for tensor in tensors)
        raise ValueError(f"x, h, c, w_mh, w_h, b and indices are on {devices}; they must be on one")
    dtypes = (dtype, dtype, torch.float32, dtype, dtype, torch.float32)
    dense, *rest = (t.to(wanted).contiguous() for t, wanted in zip(given, dtypes, strict=True))
    return Inputs(dense, _dense_indices(indices, len(x)), *rest)


def _dense_indices(indices: Tensor | None, count: int) -> Tensor | None:
    if indices is None:
        return None
    indices = indices.long().contiguous()
    on_cpu = indices.device.type == "cpu"
    if on_cpu and indices.numel() and not 0 <= int(indices.min()) <= int(indices.max()) < count:
        raise IndexError(f"indices must be whole numbers from 0 to {count - 1}")
    return indices
