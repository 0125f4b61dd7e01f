"""Products of matrices in bf16 on Intel AMX, added up in fp32.

Both factors are first arranged as tiles of 16 x 32, padded with zeros: whole kilobytes that a tile
register loads in one piece.
"""

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from ..memory_pool import pooled_empty
from . import library

BLOCK = 32  # kBlock of layout.h: rows or columns that are worked on together
TILE = 512  # kTile of layout.h: elements
_CHUNK = 32  # kChunk of summed.h: tiles of depth that lie together
_LEFT, _RIGHT_BY_ROWS, _RIGHT_BY_COLUMNS = range(3)  # Kind of tiles.cpp


def blocks_of(size: int) -> int:
    """Return how many blocks of 32 a size takes."""
    return -(-size // BLOCK)


class SummedProduct:
    """The product of a [M, K] and b [K, N], computed at each call; both are arranged once.

    Both are in bf16 on the CPU, the product in fp32 or bf16. Best for large K. b may be a
    transposed view. It needs `tile_library` to return a library.
    """

    def __init__(self, a: Tensor, b: Tensor, dtype: torch.dtype = torch.float32):
        self.depth = blocks_of(a.shape[1])
        self.a, self.b = _lay_left(a, summed=True), lay_right(b, summed=True)
        self.out = pooled_empty(len(a), b.shape[1], dtype=dtype)
        self.rows = Rows(0, blocks_of(len(a)), 1, len(a))

    def __call__(self) -> Tensor:
        """Multiply, always into the same memory."""
        multiply_summed(self.a, self.b, self.out, self.rows, self.depth)
        return self.out


class StreamedProduct:
    """The product of a [M, K] and w.T, for w [N, K], which a window needs for every byte.

    Both are arranged once. Each 32 columns of the result are overwritten by the next, as in a
    window, which uses each immediately. `result` keeps them.
    """

    def __init__(self, a: Tensor, w: Tensor):
        self.a, self.w = _lay_left(a, summed=False), lay_right(w.t(), summed=False)
        self.M, self.K, self.N = *a.shape, len(w)

    def __call__(self) -> None:
        """Multiply."""
        self._multiply(None)

    def result(self) -> Tensor:
        """Multiply and return the product [M, N], fp32."""
        shape = (blocks_of(self.N), blocks_of(self.M), BLOCK, BLOCK)
        out = self.a.new_empty(shape, dtype=torch.float32)
        self._multiply(out)
        return out.permute(1, 2, 0, 3).flatten(2).flatten(0, 1)[: self.M, : self.N]

    def _multiply(self, out: Tensor | None) -> None:
        library.call(
            "stream",
            _Streamed(
                *(torch.get_num_threads(), self.M, self.K, blocks_of(self.N)),
                *(self.a.data_ptr(), self.w.data_ptr()),
                None if out is None else out.data_ptr(),
            ),
        )


class RepeatedProduct:
    """What the AMX unit can do at most for a [M, K] times w.T, w [N, K], so many times.

    All threads multiply their columns of all repetitions, without waiting and without keeping
    results. w comes from the cache in which its size leaves it, as in a window.
    """

    def __init__(self, sizes: tuple[int, int, int], times: int, deep: int):
        """sizes: M, N, K. deep: tiles of K at a time; 0: multiply registers, and load nothing."""
        self.sizes, self.times, self.deep = sizes, times, deep
        M, N, K = (blocks_of(size) * BLOCK for size in sizes)
        self.rows = _filled(M * K)
        self.weights = _filled((N + BLOCK) * K)  # with a panel that is prefetched last

    def __call__(self) -> None:
        """Multiply."""
        M, N, K = self.sizes
        library.call(
            "repeat",
            _Repeated(
                *(torch.get_num_threads(), M, K, blocks_of(N), self.times, self.deep),
                *(self.rows.data_ptr(), self.weights.data_ptr()),
            ),
        )


def _filled(count: int) -> Tensor:
    """Return values that are not zero, with which the unit would be faster than in training."""
    return pooled_empty(count, dtype=torch.bfloat16).normal_(generator=torch.Generator())


class Rows(NamedTuple):
    """Which rows of a left factor are multiplied, in parts that each fill whole blocks."""

    first: int  # block
    blocks: int  # that the factor has
    parts: int
    rows: int  # of each part


class _Summed(ctypes.Structure):
    """The struct Summed of summed.h, which says what each field is."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("threads", "depth", "first", "blocks", "parts")),
        *((name, ctypes.c_int64) for name in ("rows", "columns", "single")),
        *((name, ctypes.c_void_p) for name in ("a", "b", "sums", "out")),
    )


class _Laying(ctypes.Structure):
    """The struct Laying of tiles.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("threads", "summed", "stride", "count", "depth")),
        ("kind", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("from", "to")),
    )


class _Streamed(ctypes.Structure):
    """The struct Streamed of tiles.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("threads", "lanes", "depth", "panels")),
        *((name, ctypes.c_void_p) for name in ("rows", "weights", "out")),
    )


class _Repeated(ctypes.Structure):
    """The struct Repeated of tiles.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("threads", "lanes", "depth", "panels", "times")),
        ("deep", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("rows", "weights")),
    )


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
    library.call(
        "multiply",
        _Summed(
            *(torch.get_num_threads(), depth, *rows, columns),
            out.dtype == torch.float32,
            *(tensor.data_ptr() for tensor in (a, b, sums, out)),
        ),
    )


def _lay_left(a: Tensor, *, summed: bool) -> Tensor:
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
    tiles = blocks_of(depth)
    blocks = blocks_of(count)
    to = (
        empty_factor(tiles, blocks)
        if summed
        else pooled_empty(blocks * 2 * tiles * TILE, dtype=torch.bfloat16)
    )
    library.call(
        "lay",
        _Laying(
            *(torch.get_num_threads(), summed, matrix.stride(0), count, depth, kind),
            *(matrix.data_ptr(), to.data_ptr()),
        ),
    )
    return to
