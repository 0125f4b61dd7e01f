"""Single products of matrices in bf16 on Intel AMX, by our kernels and as the unit can."""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from model.kernels.amx import library
from model.kernels.amx.products import (
    BLOCK,
    Rows,
    blocks_of,
    lay_left,
    lay_right,
    multiply_summed,
)
from model.kernels.cores import emulates_amx
from model.kernels.memory_pool import pooled_empty


class SummedProduct:
    """The product of a [M, K] and b [K, N], computed at each call; both are arranged once.

    Both are in bf16 on the CPU, the product in fp32 or bf16. Best for large K. b may be a
    transposed view.
    """

    def __init__(self, a: Tensor, b: Tensor, dtype: torch.dtype = torch.float32):
        self.depth = blocks_of(a.shape[1])
        self.a, self.b = lay_left(a, summed=True), lay_right(b, summed=True)
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
        self.a, self.w = lay_left(a, summed=False), lay_right(w.t(), summed=False)
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
        arguments = _Streamed(
            *(torch.get_num_threads(), self.M, self.K, blocks_of(self.N)),
            *(self.a.data_ptr(), self.w.data_ptr()),
            None if out is None else out.data_ptr(),
        )
        _compiled().mlstm_tiles_stream(ctypes.byref(arguments))


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
        arguments = _Repeated(
            *(torch.get_num_threads(), M, K, blocks_of(N), self.times, self.deep),
            *(self.rows.data_ptr(), self.weights.data_ptr()),
        )
        _compiled().mlstm_tiles_repeat(ctypes.byref(arguments))


def _compiled() -> ctypes.CDLL:
    source = Path(__file__).with_suffix(".cpp")
    return library.compiled(source, "mlstm_tiles_repeat", emulated=emulates_amx())


def _filled(count: int) -> Tensor:
    """Return values that are not zero, with which the unit would be faster than in training."""
    return pooled_empty(count, dtype=torch.bfloat16).normal_(generator=torch.Generator())


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
