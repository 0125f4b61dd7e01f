"""A window on CUDA: products by cuBLAS, and the arithmetic between them in Triton.

`run_forward` and `run_backward` are the two passes over plain buffers. They run unchanged under
Triton's interpreter, where the tests check them against the reference; on a GPU each is captured
once in a CUDA graph, per sizes, and replayed.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..weight_gradients import Factors, keeps_fp32
from ..window import Inputs


class Activations(NamedTuple):
    """What forward writes and backward reads.

    If nothing is saved for backward, only h covers all bytes; the rest covers one byte.
    """

    h: Tensor  # [T, B, H]
    c: Tensor  # [T or 1, B, H] fp32
    recurrent: Tensor  # [T or 1, B, H]: W_mh h, the other factor of m
    gates: Tensor  # [T or 1, B, 4H], after their non-linearities

    def ends(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return h, and copies of the last h and c."""
        return self.h, self.h[-1].clone(), self.c[-1].clone()


def run_forward(inputs: Inputs, *, save: bool) -> Activations:
    """Advance over the window. save: keep what backward reads."""
    from . import kernels

    T, B, H = inputs.sizes
    steps = T if save else 1
    new = inputs.h0.new_empty
    activations = Activations(
        new(T, B, H), new(steps, B, H, dtype=torch.float32), new(steps, B, H), new(steps, B, 4 * H)
    )
    m = new(B, H)
    # Round W_h m only after the sum.
    z = new(B, 4 * H, dtype=torch.float32) if keeps_fp32(inputs.w_h) else None
    h, c = inputs.h0, inputs.c0
    for t in range(T):
        at = t if save else 0
        byte, recurrent, gates = _byte(inputs, t), activations.recurrent[at], activations.gates[at]
        state = c, activations.c[at], activations.h[t]
        torch.mm(h, inputs.w_mh.t(), out=recurrent)
        kernels.launch(kernels.multiply, m, *byte, recurrent, m)
        if z is None:
            torch.mm(m, inputs.w_h.t(), out=gates)
        else:
            torch.mm(m, inputs.w_h.t(), out_dtype=torch.float32, out=z)
        summed = gates if z is None else z
        kernels.launch(kernels.advance, m, *byte, summed, gates, inputs.b, *state)
        h, c = activations.h[t], activations.c[at]
    return activations


def run_backward(
    inputs: Inputs, activations: Activations, dh: Tensor, dh_last: Tensor, dc_last: Tensor
) -> tuple[Tensor, ...]:
    """Go back over the window: dh [T, B, H] is the gradient of h, the others of the last state.

    Returns the gradients of x, h0, c0 and b, then the `Factors` of those of the weights.
    """
    from . import kernels

    T, B, H = activations.h.shape
    new = activations.h.new_empty
    dx, d_recurrent, m = new(T, B, 5 * H), new(T, B, H), new(T, B, H)
    dm, dh_next, dc = new(B, H), dh_last.clone(), dc_last.clone()
    for t in reversed(range(T)):
        c_before = activations.c[t - 1] if t > 0 else inputs.c0
        gates = activations.gates[t], c_before, activations.c[t], dc, dx[t]
        factors = *_byte(inputs, t), activations.recurrent[t]
        kernels.launch(kernels.retreat, dm, dh[t], dh_next, *gates)
        torch.mm(dx[t, :, H:], inputs.w_h, out=dm)
        kernels.launch(kernels.unmultiply, dm, dm, *factors, dx[t], d_recurrent[t], m[t])
        torch.mm(d_recurrent[t], inputs.w_mh, out=dh_next)
    dz = dx.view(T * B, 5 * H)[:, H:]
    gradients = _of_x(dx, inputs), dh_next, dc, dz.sum(0, dtype=torch.float32)
    return *gradients, *Factors(dz, m.view(T * B, H), d_recurrent, activations.h, inputs.h0)


def _byte(inputs: Inputs, t: int) -> tuple[Tensor, Tensor | None]:
    """Return x and the indices of one byte."""
    return (inputs.x[t], None) if inputs.indices is None else (inputs.x, inputs.indices[t])


def in_order(
    gradients: Sequence[Tensor], d_w_mh: Tensor | None, d_w_h: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Return the gradients in the order of `Inputs`; gradients: the first of `run_backward`."""
    d_x, d_h0, d_c0, d_b = gradients
    return d_x, None, d_h0, d_c0, d_w_mh, d_w_h, d_b


def _of_x(dx: Tensor, inputs: Inputs) -> Tensor:
    """Add up the gradients of all bytes that read the same row.

    As a product this is exact, repeatable, and can be captured; adding up 256 rows atomically is
    none of these, and slower.
    """
    if inputs.indices is None:
        return dx
    flat = dx.view(-1, dx.shape[-1])
    chosen = flat.new_zeros(len(flat), len(inputs.x))  # [T * B, R], a one in every row
    chosen.scatter_(1, inputs.indices.reshape(-1, 1), 1)
    return chosen.t() @ flat
