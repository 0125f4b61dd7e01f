"""The loss of a window: the nats of every next token, summed, without a [T, B, V] tensor."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..kernels.amx.library import runs_on_tiles
from ..kernels.memory_pool import empty_like
from ..kernels.weight_gradients import product
from ..state import IGNORED

_LOGITS_AT_ONCE = {"cpu": 2048 * 256, "cuda": 32768 * 256}  # on the CPU, as many as stay in cache
_FEWEST_ROWS = {"cpu": 512, "cuda": 2048}  # of a piece; each adds a whole [V, H] gradient


def linear_cross_entropy(
    h: Tensor,
    w: Tensor,
    b: Tensor,
    targets: Tensor,
    rows: int | None = None,
    gradient_scale: float | Tensor = 1.0,
) -> Tensor:
    """Return the cross-entropy of targets [N] under the logits h w.T + b, summed, in fp32.

    h: [N, H], w: [V, H] in the compute dtype; b: [V] in the wider one. Logits and their gradient
    exist only for `rows` of h at a time (None: as many as are fast), so the gradient is computed
    with them, in the forward pass. torch has a similar function from 2.13 on.

    gradient_scale: multiplies the gradients, not the value.
    """
    nats: Tensor = _LinearCrossEntropy.apply(h, w, b, targets, rows, gradient_scale)
    return nats


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        w: Tensor,
        b: Tensor,
        targets: Tensor,
        rows: int | None,
        gradient_scale: float | Tensor,
    ) -> Tensor:
        if runs_on_tiles(w):  # whose products need fp32's range; backward has nothing to compute
            from ..kernels.amx.training.cross_entropy import cross_entropy_on_tiles

            weights = b.new_ones(len(h)) * gradient_scale
            nats, *gradients = cross_entropy_on_tiles(h, w, b, targets, rows, weights)
            ctx.factor = b.new_ones(())
        else:
            nats, *gradients = _by_torch(h, w, b, targets, rows)
            ctx.factor = b.new_ones(()) * gradient_scale
        ctx.dtype = w.dtype
        ctx.save_for_backward(*gradients)
        return nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_nats: Tensor) -> tuple[Tensor | None, ...]:
        factor = d_nats * ctx.factor
        d_h, d_w, d_b = ctx.saved_tensors
        # In place, so that autograd refuses a second backward. Scaling the large gradients takes a
        # pass over memory, skipped for a factor of 1; on a GPU, checking it would wait.
        is_one = factor.device.type == "cpu" and factor.item() == 1
        for gradient in (d_b,) if is_one else (d_h, d_w, d_b):
            gradient.mul_(factor)
        # Cast to the dtype of w only now: a sum over bytes would overflow fp16.
        return d_h, d_w.to(ctx.dtype), d_b, None, None, None


def _by_torch(
    h: Tensor, w: Tensor, b: Tensor, targets: Tensor, rows: int | None
) -> tuple[Tensor, ...]:
    rows = rows or rows_at_once(h.device.type, len(w))
    nats, d_h = b.new_zeros(()), empty_like(h)
    d_w, d_b = torch.zeros_like(w, dtype=b.dtype), torch.zeros_like(b)
    for start in range(0, len(h), rows):
        part = slice(start, start + rows)
        part_nats, d_logits = _cross_entropy(h[part], w, b, targets[part])
        nats += part_nats
        d_b += d_logits.sum(0)
        d_logits = d_logits.to(h.dtype)
        torch.mm(d_logits, w, out=d_h[part])
        d_w += product(d_logits.t(), h[part])
    return nats, d_h, d_w, d_b


def rows_at_once(device_type: str, vocabulary_size: int) -> int:
    """Return how many rows of logits [rows, V] exist at a time, on other devices as on CUDA."""
    kind = device_type if device_type in _LOGITS_AT_ONCE else "cuda"
    return max(_LOGITS_AT_ONCE[kind] // vocabulary_size, _FEWEST_ROWS[kind])


def _cross_entropy(h: Tensor, w: Tensor, b: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the summed nats of a few rows and the gradient of their logits [rows, V]."""
    fused = h.dtype == b.dtype
    logits = torch.addmm(b, h, w.t()) if fused else product(h, w.t()).to(b.dtype) + b  # [rows, V]
    counts = (targets != IGNORED).unsqueeze(1)
    chosen = targets.unsqueeze(1).where(counts, 0)
    total = logits.logsumexp(1, keepdim=True)
    nats = (total - logits.gather(1, chosen)).where(counts, 0).sum()
    d_logits = logits.sub_(total).exp_().scatter_add_(1, chosen, -torch.ones_like(total))
    return nats, d_logits.mul_(counts)
