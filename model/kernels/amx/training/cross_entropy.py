"""The cross-entropy of the next tokens on Intel AMX, with its gradients."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...compilation import struct
from ...memory_pool import pooled_empty
from .. import library
from ..products import BLOCK, Rows, blocks_of, empty_factor, lay_right, multiply_summed

_GROUP = 64  # kGroup of cross_entropy.h
MOST_ROWS = 4096  # at a time
MOST_LOGITS = MOST_ROWS * 4096  # at a time: their gradient, in bf16, takes 32 MB


class _Loss(NamedTuple):
    """The loss and its gradients; all but d_h are in the accumulation dtype."""

    nats: Tensor  # []
    d_h: Tensor  # [N, H], in the dtype of h
    d_w: Tensor  # [V, H]
    d_b: Tensor  # [V]


_CrossEntropy = struct(  # of cross_entropy.h
    "threads rows H V", "h w_forward w_backward b targets factors nats d_h d_b d_logits h_right"
)


def cross_entropy_on_tiles(
    h: Tensor,
    w: Tensor,
    b: Tensor,
    targets: Tensor,
    rows: int | None = None,
    loss_weights: Tensor | None = None,
) -> _Loss:
    """Return the cross-entropy of targets [N] under the logits h w.T + b, summed.

    h: [N, H], w: [V, H], bf16 on the CPU; b: [V], fp32. targets: int64, below V; one below 0 does
    not count. rows: how many are worked on at a time; None: as many as are fast. loss_weights: [N],
    fp32, what the gradient of each row is multiplied by. It needs `_tile_library` to return a
    library. Raises IndexError for a target of V or more, TypeError for other dtypes.
    """
    (N, H), V = h.shape, len(w)
    of_rows = {"h": h.contiguous(), "targets": targets.contiguous()}
    if loss_weights is not None:
        of_rows["factors"] = loss_weights.contiguous()
    _check(of_rows, b)
    if N and (largest := int(targets.max())) >= V:
        raise IndexError(f"target {largest} is not below the vocabulary's {V} tokens")
    weights = {
        "w_forward": lay_right(w.t(), summed=False),
        "w_backward": lay_right(w.contiguous(), summed=False),
        "b": F.pad(b, (0, -V % BLOCK), value=float("-inf")),
    }
    nats, d_h = b.new_empty(N), pooled_empty(N, H, dtype=h.dtype)
    of_rows |= {"nats": nats, "d_h": d_h}
    d_w, d_b = b.new_zeros(V, H), b.new_zeros(V)
    rows = rows or min(MOST_ROWS, max(MOST_LOGITS // V // _GROUP, 1) * _GROUP)
    for start in range(0, N, rows):
        part = {name: tensor[start : start + rows] for name, tensor in of_rows.items()}
        part_d_w, part_d_b = _differentiate(weights | part, H, V)
        d_w += part_d_w
        d_b += part_d_b
    return _Loss(nats.sum(), d_h, d_w, d_b)


def _check(of_rows: dict[str, Tensor], b: Tensor) -> None:
    dtypes = {"h": torch.bfloat16, "b": torch.float32, "targets": torch.int64}
    dtypes["factors"] = torch.float32
    for name, tensor in (of_rows | {"b": b}).items():
        if tensor.dtype != dtypes[name]:
            raise TypeError(f"{name} of the loss is {tensor.dtype}, not {dtypes[name]}")


def _differentiate(tensors: dict[str, Tensor], H: int, V: int) -> tuple[Tensor, Tensor]:
    """Fill nats and d_h of some rows; return their part of d w and of d b."""
    rows = len(tensors["h"])
    depth, blocks = blocks_of(rows), blocks_of(V)
    d_logits, h_right = empty_factor(depth, blocks), empty_factor(depth, blocks_of(H))
    d_b = torch.empty(-(-rows // _GROUP), blocks * BLOCK, dtype=torch.float32)
    buffers = {"d_logits": d_logits, "h_right": h_right, "d_b": d_b}
    arguments = _CrossEntropy(torch.get_num_threads(), rows, H, V, **tensors, **buffers)
    library.call("cross_entropy", arguments)
    d_w = pooled_empty(V, H, dtype=torch.float32)
    multiply_summed(d_logits, h_right, d_w, Rows(0, blocks, 1, V), depth)
    return d_w, d_b.sum(0)[:V]
