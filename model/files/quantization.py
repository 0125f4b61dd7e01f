"""Matrices as integers of 8, 6 or 5 bits: a quarter of the size or less, for shipped models."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

SCALE = ".scale"  # suffix for the factors of a matrix's integers, one per row
BITS = (8, 6, 5)  # of an integer


def is_quantized(shape: tuple[int, ...]) -> bool:
    """Return whether a tensor is stored as integers: matrices are, gains and biases are not."""
    return len(shape) >= 2


def quantize(tensors: Mapping[str, Tensor], bits: int = 8) -> dict[str, Tensor]:
    """Round each row of each matrix to integers times its own scale, fp32 [rows].

    A tensor of more dimensions is many matrices: its scales have all its dimensions but the last.
    bits: of an integer, one of BITS; integers of 8 bits are int8, fewer are packed.
    """
    largest = 2 ** (bits - 1) - 1  # symmetric: the lowest integer is left out
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not is_quantized(tuple(tensor.shape)):
            result[name] = tensor
            continue
        scale = tensor.float().abs().amax(dim=-1) / largest
        scale = scale.clamp(min=torch.finfo(torch.float32).tiny)  # a row of zeros
        integers = (tensor.float() / scale.unsqueeze(-1)).round().to(torch.int8)
        result[name] = integers if bits == 8 else pack(integers, bits)
        result[name + SCALE] = scale
    return result


def dequantize(
    tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]], bits: int = 8
) -> dict[str, Tensor]:
    """Return fp32 tensors under the names that `quantize` was given.

    shapes: of the tensors that it was given.
    """
    result = {}
    for name, shape in shapes.items():
        result[name] = tensors[name]
        if name + SCALE in tensors:
            integers = tensors[name] if bits == 8 else unpack(tensors[name], shape[-1], bits)
            result[name] = integers.float() * tensors[name + SCALE].unsqueeze(-1)
    return result


def quantized_shapes(
    shapes: Mapping[str, tuple[int, ...]], bits: int = 8
) -> dict[str, tuple[int, ...]]:
    """Return the shapes that `quantize` makes from tensors of these shapes."""
    result = dict(shapes)
    for name, shape in shapes.items():
        if is_quantized(shape):
            result[name] = (*shape[:-1], -(-shape[-1] * bits // 8))
            result[name + SCALE] = shape[:-1]
    return result


def pack(integers: Tensor, bits: int) -> Tensor:
    """Put the lowest bits of int8 [..., n] side by side, uint8 [..., bits n / 8 rounded up]."""
    spread = np.unpackbits(integers.cpu().numpy().view(np.uint8)[..., None], axis=-1)  # [..., n, 8]
    lowest = spread[..., 8 - bits :].reshape(*integers.shape[:-1], -1)
    return torch.from_numpy(np.packbits(lowest, axis=-1))


def unpack(packed: Tensor, count: int, bits: int) -> Tensor:
    """Return the int8 [..., count] that `pack` was given."""
    spread = np.unpackbits(packed.numpy(), axis=-1, count=count * bits)
    raised = np.packbits(spread.reshape(*packed.shape[:-1], count, bits), axis=-1)[..., 0]
    # Each integer stands in the upper bits of its byte; the shift copies its sign downwards.
    return torch.from_numpy(raised.view(np.int8) >> (8 - bits))
