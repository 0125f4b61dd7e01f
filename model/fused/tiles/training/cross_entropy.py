"""The cross-entropy of the next tokens on matrix units, with its gradients."""

import ctypes
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...recycling import recycled_empty
from .. import library
from ..products import BLOCK, Rows, blocks_of, empty_factor, lay_right, multiply_summed

GROUP = 64  # kGroup of cross_entropy.h
MOST_ROWS = 4096  # at a time
MOST_LOGITS = MOST_ROWS * 4096  # at a time: their gradient, in bf16, takes 32 MB


class Loss(NamedTuple):
    """The loss, in fp32, and its gradients."""

    nats: Tensor  # []
    d_h: Tensor  # [N, H] bf16
    d_w: Tensor  # [V, H] fp32
    d_b: Tensor  # [V] fp32


class _CrossEntropy(ctypes.Structure):
    """The struct CrossEntropy of cross_entropy.h, which says what each field is."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("threads", "rows", "H", "V")),
        *((name, ctypes.c_void_p) for name in ("h", "w_forward", "w_backward", "b")),
        *((name, ctypes.c_void_p) for name in ("targets", "factors", "nats", "d_h", "d_b")),
        *((name, ctypes.c_void_p) for name in ("d_logits", "h_right")),
    )


def cross_entropy_on_tiles(
    h: Tensor,
    w: Tensor,
    b: Tensor,
    targets: Tensor,
    rows: int | None = None,
    loss_weights: Tensor | None = None,
) -> Loss:
    """Return the cross-entropy of targets [N] under the logits h w.T + b, summed.

    h: [N, H], w: [V, H], bf16 on the CPU; b: [V], fp32. targets: below V; one below 0 does not
    count. rows: how many are worked on at a time; None: as many as are fast. loss_weights: [N],
    fp32, what the gradient of each row is multiplied by. It needs `tile_library` to return a
    library.
    """
    h, w = h.contiguous(), w.contiguous()
    (N, H), V = h.shape, len(w)
    rows = rows or min(MOST_ROWS, max(MOST_LOGITS // V, GROUP))
    given = {
        "w_forward": lay_right(w.t(), summed=False),
        "w_backward": lay_right(w, summed=False),
        "b": F.pad(b.float(), (0, -V % BLOCK), value=float("-inf")),
    }
    d_h = recycled_empty(N, H, dtype=h.dtype)
    d_w, d_b = b.new_zeros(V, H), b.new_zeros(V)
    nats = b.new_empty(N)
    of_rows = {"h": h, "targets": targets.contiguous(), "nats": nats, "d_h": d_h}
    if loss_weights is not None:
        of_rows["factors"] = loss_weights.contiguous()
    for start in range(0, N, rows):
        part = {name: tensor[start : start + rows] for name, tensor in of_rows.items()}
        part_d_w, part_d_b = _differentiate(given | part, H, V)
        d_w += part_d_w
        d_b += part_d_b
    return Loss(nats.sum(), d_h, d_w, d_b)


def _differentiate(tensors: dict[str, Tensor], H: int, V: int) -> tuple[Tensor, Tensor]:
    """Fill nats and d_h of some rows; return their part of d w and of d b."""
    rows = len(tensors["h"])
    depth, blocks = blocks_of(rows), blocks_of(V)
    d_logits, h_right = empty_factor(depth, blocks), empty_factor(depth, blocks_of(H))
    d_b = torch.empty(-(-rows // GROUP), blocks * BLOCK)
    made = {"d_logits": d_logits, "h_right": h_right, "d_b": d_b}
    pointers = {name: tensor.data_ptr() for name, tensor in (tensors | made).items()}
    arguments = _CrossEntropy(torch.get_num_threads(), rows, H, V, **pointers)
    library.call("cross_entropy", arguments)
    d_w = recycled_empty(V, H, dtype=torch.float32)
    multiply_summed(d_logits, h_right, d_w, Rows(0, blocks, 1, V), depth)
    return d_w, d_b.sum(0)[:V]
