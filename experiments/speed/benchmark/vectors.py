"""What the AVX-512 units of a processor without Intel AMX can do at most with a product."""

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from model.kernels.compilation import Build, load, vector_options
from model.kernels.cores import has_instructions

_ROWS, _COLUMNS = 12, 32  # kRows and kColumns of vectors.cpp
_LINE = 16  # words of a cache line


def has_vectors_for(w: Tensor) -> bool:
    """Return whether the cores multiply this dtype with instructions of AVX-512."""
    if w.device.type != "cpu" or "-mavx512f" not in vector_options():
        return False
    return w.dtype == torch.float32 or (
        w.dtype == torch.bfloat16 and has_instructions("avx512_bf16")
    )


class _Repeated(ctypes.Structure):
    """The struct Repeated of vectors.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("threads", "rows", "depth", "panels", "times")),
        *((name, ctypes.c_int64) for name in ("deep", "pairs")),
        *((name, ctypes.c_void_p) for name in ("left", "right")),
    )


class RepeatedOnVectors:
    """A [M, K] times w.T, w [N, K], so many times: as RepeatedProduct does on Intel AMX.

    Each instruction multiplies 16 fp32, or 16 pairs of bf16.
    """

    PIECES = (128, 256)  # words of a panel's depth at a time

    def __init__(self, sizes: tuple[int, int, int], times: int, deep: int, dtype: torch.dtype):
        """sizes: M, N, K. deep: words of K at a time; 0: multiply registers, and load nothing."""
        M, N, K = sizes
        pairs = dtype == torch.bfloat16
        rows, panels, depth = -(-M // _ROWS) * _ROWS, -(-N // _COLUMNS), -(-K // (1 + pairs))
        self._left, self._right = _filled(rows * depth), _filled(panels * _COLUMNS * depth)
        self._arguments = _Repeated(
            *(torch.get_num_threads(), rows, depth, panels, times, deep, pairs),
            *(_at_a_line(factor) for factor in (self._left, self._right)),
        )

    def __call__(self) -> None:
        """Multiply."""
        _library().repeat_on_vectors(ctypes.byref(self._arguments))


@cache
def _library() -> ctypes.CDLL:
    options = (*vector_options(), "-mavx512bf16", "-fopenmp")
    return load(Build(Path(__file__).with_suffix(".cpp"), options, function="repeat_on_vectors"))


def _filled(words: int) -> Tensor:
    """Return words that are an ordinary number, as fp32 and as two bf16."""
    return torch.full((words + _LINE,), 0x3F803F80, dtype=torch.int32)


def _at_a_line(words: Tensor) -> int:
    """Return the first address of memory at which a cache line begins."""
    size = _LINE * words.element_size()
    return -(-words.data_ptr() // size) * size
