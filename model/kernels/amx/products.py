"""Products of matrices in bf16 on Intel AMX, added up in fp32.

Both factors are first arranged as tiles of 16 x 32, padded with zeros: whole kilobytes that a tile
register loads in one piece.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..compilation import struct
from ..memory_pool import pooled_empty
from . import library

BLOCK = 32  # kBlock of layout.h: rows or columns that are worked on together
TILE = 512  # kTile of layout.h: elements
_CHUNK = 32  # kChunk of summed.h: tiles of depth that lie together
_LEFT, _RIGHT_BY_ROWS, _RIGHT_BY_COLUMNS = range(3)  # Kind of tiles.cpp


def blocks_of(size: int) -> int:
    return -(-size // BLOCK)


class Rows(NamedTuple):
    """Which rows of a left factor are multiplied, in parts that each fill whole blocks."""

    first: int  # block
    blocks: int  # that the factor has
    parts: int
    rows: int  # of each part


_Summed = struct("threads depth first blocks parts rows columns single", "a b sums out")
_Laying = struct("threads summed stride count depth kind", "from to")  # of tiles.cpp


def empty_factor(depth: int, blocks: int) -> Tensor:
    """Return memory for a factor of `multiply_summed`: `depth` in tiles, this many blocks wide."""
    chunks = -(-depth // _CHUNK)
    return pooled_empty(chunks * blocks * 2 * _CHUNK * TILE, dtype=torch.bfloat16)


def multiply_summed(a: Tensor, b: Tensor, out: Tensor, rows: Rows, depth: int) -> None:
    """Write the product of two factors, arranged for it, `depth` tiles deep.

    out: [parts * rows, columns], bf16 or fp32.
    """
    if depth == 0:  # nothing to add up
        out.zero_()
        return
    columns = out.shape[1]
    blocks = rows.parts * blocks_of(rows.rows) * blocks_of(columns) if depth > _CHUNK else 0
    sums = pooled_empty(blocks * BLOCK * BLOCK, dtype=torch.float32)
    numbers = (torch.get_num_threads(), depth, *rows, columns, out.dtype == torch.float32)
    library.call("multiply", _Summed(*numbers, a=a, b=b, sums=sums, out=out))


def lay_left(a: Tensor, *, summed: bool) -> Tensor:
    """Arrange a [M, K], 32 rows after the other."""
    a = a.contiguous()
    return _arranged(a, _LEFT, len(a), a.shape[1], summed=summed)


def lay_right(b: Tensor, *, summed: bool) -> Tensor:
    """Arrange b [K, N], 32 columns after the other."""
    K, N = b.shape
    if b.t().is_contiguous():
        return _arranged(b.t(), _RIGHT_BY_COLUMNS, N, K, summed=summed)
    return _arranged(b.contiguous(), _RIGHT_BY_ROWS, N, K, summed=summed)


def _arranged(matrix: Tensor, kind: int, count: int, depth: int, *, summed: bool) -> Tensor:
    if matrix.dtype != torch.bfloat16 or matrix.device.type != "cpu":
        raise TypeError(f"factors are in bf16 on the CPU, not {matrix.dtype} on {matrix.device}")
    tiles, blocks = blocks_of(depth), blocks_of(count)
    if summed:
        to = empty_factor(tiles, blocks)
    else:
        to = pooled_empty(blocks * 2 * tiles * TILE, dtype=torch.bfloat16)
    numbers = (torch.get_num_threads(), summed, matrix.stride(0), count, depth, kind)
    library.call("lay", _Laying(*numbers, **{"from": matrix, "to": to}))
    return to
