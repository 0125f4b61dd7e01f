"""Files of arrays, as safetensors: read and written with NumPy alone."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize

from ..errors import InputError
from .writer import write_content

GET_AGAIN = "; get it again"  # the remedy for a file that was copied or downloaded
BFLOAT16 = np.dtype(np.uint16)  # NumPy lacks it: the upper half of a float32
_DTYPES: dict[str, Any] = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": BFLOAT16},
    **{"I8": np.int8, "U8": np.uint8},
}

Shape = tuple[int, ...]


def read_arrays(
    path: Path,
    expected: Mapping[str, Shape] | None = None,
    optional: Mapping[str, Shape] | None = None,
) -> dict[str, np.ndarray]:
    """Return the arrays of a safetensors file, by name; bfloat16 as its bits, uint16.

    They are copies, and read-only. expected: the shapes that the description of the file implies;
    None: any. optional: those that the file may have besides. Raises InputError if the file is
    missing, damaged or of another kind, and for other shapes.
    """
    if path.exists() and not path.is_file():  # reading a pipe would wait
        raise InputError(f"{path}: is not a file{GET_AGAIN}")
    try:
        entries = deserialize(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: damaged or cut short ({error}){GET_AGAIN}") from error
    arrays = {name: _array(path, name, entry) for name, entry in entries}
    if expected is not None:
        present = {name: shape for name, shape in (optional or {}).items() if name in arrays}
        actual = {name: array.shape for name, array in arrays.items()}
        required = dict(sorted({**expected, **present}.items()))
        check_shapes(path, actual, required, "the description asks for")
    return arrays


def _array(path: Path, name: str, entry: Mapping[str, Any]) -> np.ndarray:
    dtype = _DTYPES.get(entry["dtype"])
    if dtype is None:
        raise InputError(
            f"{path}: tensor {name} holds {entry['dtype']}, an unknown kind{GET_AGAIN}"
        )
    array: np.ndarray = np.frombuffer(entry["data"], np.dtype(dtype)).reshape(entry["shape"])
    array.flags.writeable = False
    return array


def read_floats(
    path: Path,
    expected: Mapping[str, Shape],
    optional: Mapping[str, Shape] | None = None,
    *,
    integers: Collection[str] = (),
    bits: int = 8,
) -> dict[str, np.ndarray]:
    """Return the arrays of a file as float32; expected, optional: as for `read_arrays`.

    integers: names of arrays that hold integers of `bits`, as `quantize` makes them, and stay so.
    """
    arrays = read_arrays(path, expected, optional)
    for name in integers:
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
    """Raise InputError for the first array with a value that is NaN or infinite."""
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
