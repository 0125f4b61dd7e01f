"""Weights as 8-bit integers: a quarter of the size, for a model shipped with the code."""

from collections.abc import Mapping

import torch
from torch import Tensor

SCALE = ".scale"  # suffix for the factors of a matrix's integers, one per row
LARGEST = 127  # symmetric: -128 is left out


def is_quantized(shape: tuple[int, ...]) -> bool:
    """Return whether a tensor is stored as integers: matrices are, gains and biases are not."""
    return len(shape) >= 2


def quantize(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Round each row of each matrix to int8 times its own scale, fp32 [rows].

    A tensor of more dimensions is many matrices: its scales have all its dimensions but the last.
    """
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not is_quantized(tuple(tensor.shape)):
            result[name] = tensor
            continue
        scale = tensor.float().abs().amax(dim=-1) / LARGEST
        scale = scale.clamp(min=torch.finfo(torch.float32).tiny)  # a row of zeros
        result[name] = (tensor.float() / scale.unsqueeze(-1)).round().to(torch.int8)
        result[name + SCALE] = scale
    return result


def dequantize(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return fp32 tensors under the names that `quantize` was given."""
    return {
        name: tensor.float() * tensors[name + SCALE].unsqueeze(-1)
        if name + SCALE in tensors
        else tensor
        for name, tensor in tensors.items()
        if not name.endswith(SCALE)
    }


def quantized_shapes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the shapes that `quantize` makes from tensors of these shapes."""
    scales = {name + SCALE: shape[:-1] for name, shape in shapes.items() if is_quantized(shape)}
    return {**shapes, **scales}
