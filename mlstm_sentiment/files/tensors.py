"""Files of arrays, as safetensors: read and written with NumPy alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, deserialize

from ..errors import InputError
from .writer import write_content

SCALE = ".scale"  # suffix for the factors of a matrix's integers, one per row
BITS = (8, 6, 5)  # of an integer
DECODER = "decoder.weight"


class IntegerBits(NamedTuple):
    """The bits of the integers that matrices are stored as, each one of BITS."""

    matrices: int
    decoder: int | None = None  # of the matrix that predicts tokens; None: as the others

    def of(self, name: str) -> int:
        return self.matrices if name != DECODER or self.decoder is None else self.decoder


def is_quantized(shape: tuple[int, ...]) -> bool:
    """Return whether a tensor is stored as integers: matrices are, gains and biases are not."""
    return len(shape) >= 2


def quantize(arrays: Mapping[str, np.ndarray], integers: IntegerBits) -> dict[str, np.ndarray]:
    """Round each row of each matrix to integers times its own scale, float32 [rows].

    Integers of 8 bits are int8, fewer are packed.
    """
    result: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if not is_quantized(array.shape):
            result[name] = array
            continue
        bits, values = integers.of(name), array.astype(np.float32)
        largest = np.float32(2 ** (bits - 1) - 1)  # symmetric: the lowest integer is left out
        scale = np.abs(values).max(axis=-1) / largest
        scale = scale.clip(min=np.finfo(np.float32).tiny)  # a row of zeros
        rounded = np.rint(values / scale[..., None]).astype(np.int8)
        result[name] = rounded if bits == 8 else _pack(rounded, bits)
        result[name + SCALE] = scale
    return result


def quantized_shapes(
    shapes: Mapping[str, tuple[int, ...]], integers: IntegerBits
) -> dict[str, tuple[int, ...]]:
    result = dict(shapes)
    for name, shape in shapes.items():
        if is_quantized(shape):
            result[name] = (*shape[:-1], -(-shape[-1] * integers.of(name) // 8))
            result[name + SCALE] = shape[:-1]
    return result


def _pack(integers: np.ndarray, bits: int) -> np.ndarray:
    """Put the lowest bits of int8 [..., n] side by side, uint8 [..., bits n / 8 rounded up]."""
    spread = np.unpackbits(integers.view(np.uint8)[..., None], axis=-1)  # [..., n, 8]
    return np.packbits(spread[..., 8 - bits :].reshape(*integers.shape[:-1], -1), axis=-1)


def unpack(packed: np.ndarray, count: int, bits: int) -> np.ndarray:
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


GET_AGAIN = "; get it again"  # the remedy for a file that was copied or downloaded
BFLOAT16 = np.dtype(np.uint16)  # NumPy lacks it: the upper half of a float32
_DTYPES: dict[str, Any] = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": BFLOAT16},
    **{"I8": np.int8, "U8": np.uint8},
}

Shape = tuple[int, ...]


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a safetensors file, by name; bfloat16 as its bits, uint16.

    They are copies, and read-only. Raises InputError if the file is missing, damaged or of another
    kind.
    """
    if path.exists() and not path.is_file():  # reading a pipe would wait
        raise InputError(f"{path}: is not a file{GET_AGAIN}")
    try:
        entries = deserialize(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: damaged or cut short ({error}){GET_AGAIN}") from error
    arrays = {}
    for name, entry in entries:
        kind = entry["dtype"]
        if kind not in _DTYPES:
            raise InputError(f"{path}: tensor {name} holds {kind}, an unknown kind{GET_AGAIN}")
        arrays[name] = np.frombuffer(entry["data"], _DTYPES[kind]).reshape(entry["shape"])
        arrays[name].flags.writeable = False
    return arrays


def read_floats(
    path: Path,
    expected: Mapping[str, Shape],
    *,
    integers: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, np.ndarray]:
    """Return the arrays of a file, by name, as float32.

    expected: the shapes that the description of the file implies. integers: bits of the arrays that
    hold integers, as `quantize` makes them, and stay so. Raises the errors of `read_arrays`, and
    InputError for other shapes.
    """
    arrays = read_arrays(path)
    actual = {name: array.shape for name, array in arrays.items()}
    check_shapes(path, actual, dict(sorted(expected.items())), "the description asks for")
    for name, bits in integers.items():
        if arrays[name].dtype != (np.int8 if bits == 8 else np.uint8):
            raise InputError(
                f"{path}: tensor {name} holds {arrays[name].dtype}, not {bits}-bit "
                f"integers{GET_AGAIN}"
            )
    return {
        name: np.ascontiguousarray(array) if name in integers else as_floats(path, name, array)
        for name, array in arrays.items()
    }


def as_floats(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    """Return an array of a file as float32; InputError for integers, NaN and infinity."""
    if array.dtype == BFLOAT16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    if array.dtype.kind != "f":
        raise InputError(
            f"{path}: tensor {name} holds {array.dtype}, not floating-point numbers{GET_AGAIN}"
        )
    with np.errstate(over="ignore"):  # of float64: refused below
        values = np.ascontiguousarray(array, np.float32)
    check_finite(path, {name: values})
    return values


def check_finite(source: Path, arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise InputError(
                f"{source}: {name} holds NaN or infinity; it is damaged, or its training diverged"
            )


def check_shapes(
    source: Path, actual: Mapping[str, Shape], expected: Mapping[str, Shape], authority: str
) -> None:
    """Raise InputError for the first tensor that is missing, unknown, or of another shape.

    authority: where the expected shapes come from, with a verb, for the message.
    """
    for name in [*expected, *sorted(set(actual) - set(expected))]:
        if actual.get(name) != expected.get(name):
            required = _text(expected[name]) if name in expected else "none of that name"
            raise InputError(
                f"{source}: tensor {name} is {_text(actual.get(name))}, but {authority} {required}"
            )


def _text(shape: Sequence[int] | None) -> str:
    return "absent" if shape is None else str(list(shape))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as safetensors, whole or not at all.

    Raises InputError, and leaves an existing file unchanged, if a value is not finite.
    """
    check_finite(path, arrays)
    from safetensors.numpy import save  # not for those who only read

    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    write_content(path, content, "part of a folder")
