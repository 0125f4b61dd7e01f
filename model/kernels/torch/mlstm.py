"""The mLSTM with its gradient written out in plain torch.

Autograd over `mlstm_step` adds a full weight gradient per byte: T small products and T passes
over a [4H, H] matrix. Here the backward pass through time carries only dh and dc and keeps every
pre-activation's gradient. Each weight gradient is a single product over all T * B rows, at the end.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...state import State, accumulation_dtype
from ..weight_gradients import DeferredWeightGradients, Factors, weight_gradients
from ..window import RecurrenceInput


def torch_mlstm(window: RecurrenceInput) -> tuple[Tensor, State]:
    """Compute what `reference_mlstm` computes, on any device and in any dtype."""
    x_proj, state, weights = window.looked_up().x_proj, window.state, window.weights
    tensors = (x_proj, state.h, state.c, weights.w_mh, weights.w_h, weights.b)
    h, last_h, last_c = _TorchMlstm.apply(weights.deferred, *tensors)
    return h, State(last_h, last_c)


class _TorchMlstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, deferred: DeferredWeightGradients | None, *tensors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        x_proj, h0, c0, w_mh, w_h, b = tensors
        T, B, H = x_proj.shape[0], *h0.shape
        acc = accumulation_dtype(x_proj.dtype)
        hs = x_proj.new_empty(T + 1, B, H)  # hs[t] is the state before byte t
        cs = x_proj.new_empty(T + 1, B, H, dtype=acc)
        recurrent = x_proj.new_empty(T, B, H)  # W_mh h, the other factor of m
        ms = x_proj.new_empty(T, B, H)
        gates = x_proj.new_empty(T, B, 4 * H, dtype=acc)  # i f u o after their non-linearity
        hs[0], cs[0] = h0, c0
        w_mh_t, w_h_t = w_mh.t(), w_h.t()
        for t in range(T):
            torch.mm(hs[t], w_mh_t, out=recurrent[t])
            torch.mul(x_proj[t, :, :H], recurrent[t], out=ms[t])
            z = gates[t].copy_(x_proj[t, :, H:])
            z += torch.mm(ms[t], w_h_t)
            z += b
            z[:, : 2 * H].sigmoid_()
            z[:, 2 * H : 3 * H].tanh_()
            z[:, 3 * H :].sigmoid_()
            i, f, u, o = z.chunk(4, dim=-1)  # [B, H] each
            torch.mul(f, cs[t], out=cs[t + 1]).addcmul_(i, u)
            torch.mul(o, cs[t + 1].tanh(), out=hs[t + 1])
        ctx.deferred = deferred
        ctx.save_for_backward(x_proj, w_mh, w_h, hs, cs, recurrent, ms, gates)
        return hs[1:], hs[T].clone(), cs[T].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_proj, w_mh, w_h, hs, cs, recurrent, ms, gates = ctx.saved_tensors
        d_h, d_last_h, d_last_c = grads
        T, B, H = ms.shape
        d_x_proj = torch.empty_like(x_proj)  # also every gate's pre-activation gradient
        d_recurrent = torch.empty_like(ms)
        dh, dc = d_last_h.to(cs.dtype), d_last_c.clone()
        for t in reversed(range(T)):
            dh = dh + d_h[t]
            _gate_gradients(dh, dc, gates[t], cs[t], cs[t + 1], d_x_proj[t, :, H:])
            dm = torch.mm(d_x_proj[t, :, H:], w_h)  # [B, H]
            torch.mul(dm, recurrent[t], out=d_x_proj[t, :, :H])
            torch.mul(dm, x_proj[t, :, :H], out=d_recurrent[t])
            dh = torch.mm(d_recurrent[t], w_mh).to(cs.dtype)
        d_z = d_x_proj[..., H:].reshape(T * B, 4 * H)
        factors = Factors(d_z, ms.view(T * B, H), d_recurrent, hs[1:], hs[0])
        d_w_mh, d_w_h = weight_gradients(factors, ctx.deferred)
        d_b = d_z.sum(0, dtype=cs.dtype)
        return None, d_x_proj, dh.to(hs.dtype), dc, d_w_mh, d_w_h, d_b


def _gate_gradients(
    dh: Tensor, dc: Tensor, gates: Tensor, c_before: Tensor, c: Tensor, out: Tensor
) -> None:
    """Fill `out` [B, 4H] with d z and move `dc` one byte back, in place."""
    i, f, u, o = gates.chunk(4, dim=-1)  # [B, H] each
    d_i, d_f, d_u, d_o = out.chunk(4, dim=-1)
    tanh_c = c.tanh()
    d_o.copy_(dh * tanh_c * o * (1 - o))
    dc += dh * o * (1 - tanh_c * tanh_c)
    d_i.copy_(dc * u * i * (1 - i))
    d_f.copy_(dc * c_before * f * (1 - f))
    d_u.copy_(dc * i * (1 - u * u))
    dc *= f
