"""Muon's iterations on Intel AMX: their products add up in fp32, of factors in bf16."""

import torch
from torch import Tensor

from ...compilation import struct
from ...memory_pool import pooled_empty
from .. import library
from ..products import BLOCK, blocks_of, empty_factor

_Orthogonal = struct(  # of orthogonal.h
    "threads rows columns turned iterations",
    "norm from to left across right other_right gram_left gram_right polynomial sums",
    floats="a b c",
)


def iterate(
    matrix: Tensor, norm: Tensor, coefficients: tuple[float, float, float], iterations: int
) -> Tensor:
    """Return X = matrix / norm after some iterations of X <- (a + b G + c G^2) X.

    matrix: fp32 on the CPU. norm: fp32, more than 0. coefficients: a, b, c. iterations: 1 or more.
    G is X X', or X' X if that is smaller; then X is multiplied from the right. It needs
    `_tile_library` to return a library.
    """
    matrix = matrix.contiguous()
    rows, columns = sorted(matrix.shape)
    M, N = blocks_of(rows), blocks_of(columns)
    out = pooled_empty(*matrix.shape, dtype=torch.float32)
    memory = {
        "left": empty_factor(N, M),
        "across": empty_factor(N, M),
        "right": empty_factor(M, N),
        "other_right": empty_factor(M, N),
        "gram_left": empty_factor(M, M),
        "gram_right": empty_factor(M, M),
        "polynomial": empty_factor(M, M),
        "sums": pooled_empty(M * N * BLOCK * BLOCK, dtype=torch.float32),
        "norm": norm,
        "from": matrix,
        "to": out,
    }
    arguments = _Orthogonal(
        threads=torch.get_num_threads(),
        rows=rows,
        columns=columns,
        turned=matrix.shape[0] > matrix.shape[1],
        iterations=iterations,
        **dict(zip("abc", coefficients, strict=True)),
        **memory,
    )
    library.call("orthogonalize", arguments)
    return out
