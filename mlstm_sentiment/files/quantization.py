"""Matrices as integers of 8, 6 or 5 bits: a quarter of the size or less, for shipped models."""

from collections.abc import Mapping

import numpy as np

SCALE = ".scale"  # suffix for the factors of a matrix's integers, one per row
BITS = (8, 6, 5)  # of an integer


def is_quantized(shape: tuple[int, ...]) -> bool:
    """Return whether a tensor is stored as integers: matrices are, gains and biases are not."""
    return len(shape) >= 2


def quantize(arrays: Mapping[str, np.ndarray], bits: int = 8) -> dict[str, np.ndarray]:
    """Round each row of each matrix to integers times its own scale, float32 [rows].

    bits: of an integer, one of BITS; integers of 8 bits are int8, fewer are packed.
    """
    largest = np.float32(2 ** (bits - 1) - 1)  # symmetric: the lowest integer is left out
    result: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if not is_quantized(array.shape):
            result[name] = array
            continue
        values = array.astype(np.float32)
        scale = np.abs(values).max(axis=-1) / largest
        scale = scale.clip(min=np.finfo(np.float32).tiny)  # a row of zeros
        integers = np.rint(values / scale[..., None]).astype(np.int8)
        result[name] = integers if bits == 8 else pack(integers, bits)
        result[name + SCALE] = scale
    return result


def quantized_shapes(
    shapes: Mapping[str, tuple[int, ...]], bits: int = 8
) -> dict[str, tuple[int, ...]]:
    """Return the shapes that `quantize` makes from arrays of these shapes."""
    result = dict(shapes)
    for name, shape in shapes.items():
        if is_quantized(shape):
            result[name] = (*shape[:-1], -(-shape[-1] * bits // 8))
            result[name + SCALE] = shape[:-1]
    return result


def pack(integers: np.ndarray, bits: int) -> np.ndarray:
    """Put the lowest bits of int8 [..., n] side by side, uint8 [..., bits n / 8 rounded up]."""
    spread = np.unpackbits(integers.view(np.uint8)[..., None], axis=-1)  # [..., n, 8]
    return np.packbits(spread[..., 8 - bits :].reshape(*integers.shape[:-1], -1), axis=-1)


def unpack(packed: np.ndarray, count: int, bits: int) -> np.ndarray:
    """Return the int8 [..., count] that `pack` was given."""
    # Eight integers are `bits` bytes, read as one number; spreading every bit would be slow.
    padding = [(0, 0)] * (packed.ndim - 1) + [(0, -packed.shape[-1] % bits)]
    groups = np.pad(packed, padding).reshape(*packed.shape[:-1], -1, bits)
    words = np.zeros(groups.shape[:-1], np.uint64)
    for byte in range(bits):
        words = words << np.uint64(8) | groups[..., byte]
    raised = np.empty((*words.shape, 8), np.uint8)
    for place in range(8):  # each integer goes into the upper bits of its byte
        raised[..., place] = (words >> np.uint64((7 - place) * bits)).astype(np.uint8) << (8 - bits)
    integers = raised.reshape(*packed.shape[:-1], -1)[..., :count]
    return np.asarray(integers.view(np.int8) >> (8 - bits))  # copies the sign downwards
