"""A model's weights as the page's arithmetic reads them: 8-bit integers in one piece of memory."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..files.quantization import BITS, SCALE, dequantize, is_quantized, quantize, unpack
from ..layers.language_model import LanguageModel

_MULTIPLE = 16  # units and columns are padded to this: the 8-bit weights in one SIMD register


class Packed(NamedTuple):
    """Tensors one after the other, and the byte at which each begins."""

    data: bytes
    places: dict[str, int]


def pack(tensors: Mapping[str, Tensor]) -> Packed:
    """Join tensors, each at a multiple of 16 bytes, where SIMD may load it."""
    data, places = bytearray(), {}
    for name, tensor in tensors.items():
        places[name] = len(data)
        data += tensor.contiguous().numpy().tobytes()
        data += bytes(-len(data) % _MULTIPLE)
    return Packed(bytes(data), places)


def page_tensors(model: LanguageModel) -> dict[str, Tensor]:
    """Return an mLSTM's weights, padded with zeros: matrices are int8, the rest is fp32.

    A tensor named `.scale` has one number for each row of the matrix before it; weight norm is part
    of that number. The integers are those of the model's file. If the file has full weights, they
    are rounded as the shipped models' are. Units are padded to a multiple of 16; the padding stays
    zero, whatever the model reads.
    """
    stored = _integers({name: tensor.cpu() for name, tensor in model.state_dict().items()})
    H = model.config.hidden_size
    tensors = _matrix("embedding", stored, "embedding.weight")
    for index in range(model.config.layers):
        layer = f"layers.{index}."
        tensors |= _joined(
            f"{layer}w_x",
            _matrix("m", stored, f"{layer}w_mx", f"{layer}g_mx", unit_rows=H),
            _matrix("x", stored, f"{layer}w_x", f"{layer}g_x", unit_rows=H),
        )
        tensors |= _matrix(f"{layer}w_mh", stored, f"{layer}w_mh", f"{layer}g_mh", unit_rows=H)
        tensors |= _matrix(f"{layer}w_h", stored, f"{layer}w_h", f"{layer}g_h", unit_rows=H)
        tensors[f"{layer}b"] = _pad_units(stored[f"{layer}b"], H)  # [4H]
    tensors |= _matrix("decoder", stored, "decoder.weight")
    tensors["decoder.b"] = stored["decoder.bias"]
    return tensors


def _integers(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the matrices as int8 with scales, in the model's bits if these are fewer than 8."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for bits in BITS[1:]:
        packed = quantize(tensors, bits)
        again = dequantize(packed, shapes, bits)
        if all(torch.allclose(again[name], each.float()) for name, each in tensors.items()):
            matrices = {name: shape for name, shape in shapes.items() if is_quantized(shape)}
            return packed | {n: unpack(packed[n], s[-1], bits) for n, s in matrices.items()}
    return quantize(tensors)


def padded(size: int) -> int:
    """Return the next multiple of 16."""
    return size + -size % _MULTIPLE


def _matrix(
    name: str, stored: Mapping[str, Tensor], key: str, gain: str = "", *, unit_rows: int = 0
) -> dict[str, Tensor]:
    """Return a matrix and the scale of its rows; unit_rows: H if the rows are units, else 0."""
    matrix, scale = stored[key], stored[key + SCALE]
    if gain in stored:  # weight norm replaces the norms of the stored rows
        lengths = matrix.double().norm(dim=1).clamp(min=1)  # integers: 0, or at least 1
        scale = (stored[gain].double() / lengths).float()
    if unit_rows:
        matrix, scale = _pad_units(matrix, unit_rows), _pad_units(scale, unit_rows)
    return {name: F.pad(matrix, (0, -matrix.shape[-1] % _MULTIPLE)), name + SCALE: scale}


def _joined(name: str, *matrices: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return matrices joined by rows, in order."""
    parts, scales = zip(*(matrix.values() for matrix in matrices), strict=True)
    return {name: torch.cat(parts), name + SCALE: torch.cat(scales)}


def _pad_units(rows: Tensor, H: int) -> Tensor:
    """Pad the units of each gate, [G * H, ...], with zeros to a multiple of 16."""
    gates = rows.unflatten(0, (-1, H))  # [G, H, ...]
    padding = (0, 0) * (rows.dim() - 1) + (0, -H % _MULTIPLE)
    return F.pad(gates, padding).flatten(0, 1)
