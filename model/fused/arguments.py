"""Arguments as the kernels take them: they read memory and check nothing."""

import torch
from torch import Tensor

from ..state import State


def as_kernels_read_them(
    x: Tensor, state: State, w_mh: Tensor, w_h: Tensor, b: Tensor, rows: Tensor | None
) -> tuple[Tensor, ...]:
    """Return x, h, c, w_mh, w_h, b dense, in the compute dtype or in fp32.

    Raises ValueError where the shapes do not belong together.
    """
    (B, H), dtype = state.h.shape, w_mh.dtype
    given = (x, state.h, state.c, w_mh, w_h, b)
    sequence = (x.shape[0], B, 5 * H) if rows is None else (x.shape[0], 5 * H)
    shapes = (sequence, (B, H), (B, H), (H, H), (4 * H, H), (4 * H,))
    fits = all(tensor.shape == shape for tensor, shape in zip(given, shapes, strict=True))
    if not fits or (rows is not None and (rows.dim() != 2 or rows.shape[1] != B)):
        found = [tuple(tensor.shape) for tensor in given]
        for_rows = "" if rows is None else f", with rows {tuple(rows.shape)} instead of (T, {B})"
        raise ValueError(f"x, h, c, w_mh, w_h, b are {found} instead of {list(shapes)}{for_rows}")
    dtypes = (dtype, dtype, torch.float32, dtype, dtype, torch.float32)
    return tuple(
        tensor.to(wanted).contiguous() for tensor, wanted in zip(given, dtypes, strict=True)
    )


def rows_as_kernels_read_them(rows: Tensor | None, count: int) -> Tensor | None:
    """Return rows [T, B] dense, in 64 bits.

    Raises IndexError where one is not below `count`, the rows of the table.
    """
    if rows is None:
        return None
    rows = rows.long().contiguous()
    if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < count:
        raise IndexError(f"rows must be whole numbers from 0 to {count - 1}")
    return rows
