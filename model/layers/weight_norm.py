"""Weight norm (Salimans & Kingma 2016, arXiv:1602.07868): each row of a matrix has a gain."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def apply_weight_norm(v: Tensor, g: Tensor | None) -> Tensor:
    """Return g v / ||v|| by rows [out, in]; v if there is no gain."""
    if g is None:
        return v
    return _NormedRows.apply(v, g)


class _NormedRows(torch.autograd.Function):
    """Weight norm by torch's kernels, one each way; autograd over the formula would need a dozen.

    torch turns rows of zeros (pruned units) into NaN. Here they stay zeros and have no gradient.
    """

    @staticmethod
    def forward(ctx: Any, v: Tensor, g: Tensor) -> Tensor:
        w, norms = torch._weight_norm_interface(v, g.unsqueeze(1), 0)
        pruned = norms == 0
        ctx.save_for_backward(v, g, norms.masked_fill(pruned, torch.inf))
        return w.masked_fill_(pruned, 0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_w: Tensor) -> tuple[Tensor, Tensor]:
        v, g, norms = ctx.saved_tensors
        gradients = torch.ops.aten._weight_norm_interface_backward
        d_v, d_g = gradients(d_w.contiguous(), v, g.unsqueeze(1), norms, 0)
        return d_v, d_g.squeeze(1)
