"""A model's files as the engine takes them: integers stay integers, and floats floats."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..bounds import Bound, fill
from ..errors import InputError
from ..files.shipped import CONFIG_FILE, WEIGHTS_FILE, find_model
from ..files.storage import check_format_version, read_json
from ..files.tokenizers import load_tokenizer
from ..text.profiles import TextProfile, text_profile
from ..text.tokenizer import Tokenizer

FORMAT_VERSION = 4  # the newest that the engine reads
CELL = "mlstm"
MOST = 1 << 20  # of each size
_DTYPES = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16},
    **{"I8": np.int8, "U8": np.uint8},
}
_MATRICES = ("mx", "x", "mh", "h")
_GATES = {"mx": 1, "x": 4, "mh": 1, "h": 4}
Size = Annotated[int, Bound(min=1, max=MOST)]


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The sizes of a multiplicative LSTM, as `config.json` names them."""

    cell: str
    hidden_size: Size
    embedding_size: Size
    vocabulary_size: Size = 256
    layers: Annotated[int, Bound(min=1, max=1 << 10)]
    weight_norm: bool
    forget_gate_bias: float = 0.0


@dataclass(frozen=True)
class _Description:
    """What `config.json` says besides the architecture and the tokenizer."""

    OTHER_KEYS: ClassVar = True
    text_profile: str
    quantized: bool | None = None
    bits: Literal[8, 6, 5] = 8


class StoredMatrix(NamedTuple):
    """A matrix as its file stores it."""

    data: np.ndarray  # float32 [rows, columns], int8, or uint8 [rows, bits columns / 8 rounded up]
    scale: np.ndarray | None  # float32 [rows]: the factor of a row's integers; None: floats
    gain: np.ndarray | None  # float32 [rows], of weight norm
    columns: int
    bits: int


@dataclass(frozen=True)
class StoredLayer:
    """A layer: w_mx [H, in], w_x [4H, in], w_mh [H, H], w_h [4H, H], and b, float32 [4H]."""

    matrices: Mapping[str, StoredMatrix]
    b: np.ndarray


@dataclass(frozen=True)
class StoredModel:
    """A model with its tokenizer and text profile, as its folder has them."""

    folder: Path
    architecture: Architecture
    tokenizer: Tokenizer
    profile: TextProfile
    embedding: StoredMatrix
    layers: tuple[StoredLayer, ...]
    decoder: StoredMatrix
    decoder_bias: np.ndarray

    @property
    def is_float(self) -> bool:
        """Whether the matrices are floats."""
        return self.embedding.scale is None


def load_stored(name_or_folder: str | Path) -> StoredModel:
    """Read a model's folder; see `model.files.shipped.find_model` for the names.

    Raises InputError for files that are missing, damaged or of a newer format, and for a model of
    another cell than the mLSTM.
    """
    folder = find_model(name_or_folder)
    path = folder / CONFIG_FILE
    description = read_json(path)
    check_format_version(description, FORMAT_VERSION, path)
    architecture = _architecture(description, path)
    tokenizer = load_tokenizer(folder, description, path)
    if tokenizer.vocabulary_size != architecture.vocabulary_size:
        raise InputError(
            f"{path}: {architecture.vocabulary_size} tokens, but its tokenizer has "
            f"{tokenizer.vocabulary_size}"
        )
    rest = fill(_Description, description, path)
    quantized = description["format_version"] == 2 if rest.quantized is None else rest.quantized
    file = folder / WEIGHTS_FILE
    weights = _Weights(file, read_tensors(file), rest.bits if quantized else None)
    H, E, V = architecture.hidden_size, architecture.embedding_size, architecture.vocabulary_size
    layers = []
    for index in range(architecture.layers):
        prefix, size = f"layers.{index}.", H if index else E
        matrices = {
            name: weights.matrix(
                f"{prefix}w_{name}",
                (_GATES[name] * H, H if name in ("mh", "h") else size),
                f"{prefix}g_{name}" if architecture.weight_norm else None,
            )
            for name in _MATRICES
        }
        layers.append(StoredLayer(matrices, weights.vector(f"{prefix}b", 4 * H)))
    return StoredModel(
        folder,
        architecture,
        tokenizer,
        text_profile(rest.text_profile),
        weights.matrix("embedding.weight", (V, E)),
        tuple(layers),
        weights.matrix("decoder.weight", (V, H)),
        weights.vector("decoder.bias", V),
    )


def _architecture(description: Mapping[str, Any], path: Path) -> Architecture:
    section = description.get("architecture")
    if not isinstance(section, dict):
        raise InputError(f"{path}: has no architecture section")
    if (cell := section.get("cell")) != CELL:
        raise InputError(
            f"{path}: cell {cell!r}; the engine runs the {CELL}, the others need torch"
        )
    return fill(Architecture, section, path, "architecture.")


class _Weights:
    """The tensors of a file, taken by name and checked."""

    def __init__(self, path: Path, tensors: Mapping[str, np.ndarray], bits: int | None):
        self._path, self._tensors, self._bits = path, tensors, bits

    def vector(self, name: str, size: int) -> np.ndarray:
        return self._floats(name, (size,))

    def matrix(self, name: str, shape: tuple[int, int], gain: str | None = None) -> StoredMatrix:
        rows, columns = shape
        gains = None if gain is None else self.vector(gain, rows)
        if self._bits is None:
            return StoredMatrix(self._floats(name, shape), None, gains, columns, 32)
        packed = -(-columns * self._bits // 8)
        dtype = np.int8 if self._bits == 8 else np.uint8
        data = self._tensor(name, (rows, packed))
        if data.dtype != dtype:
            raise InputError(f"{self._path}: {name} is {data.dtype}, not {np.dtype(dtype)}")
        scale = self.vector(f"{name}.scale", rows)
        return StoredMatrix(np.ascontiguousarray(data), scale, gains, columns, self._bits)

    def _floats(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        tensor = self._tensor(name, shape)
        if tensor.dtype == np.uint16:  # bfloat16, which NumPy lacks: the upper half of a float32
            tensor = (tensor.astype(np.uint32) << 16).view(np.float32)
        if tensor.dtype.kind != "f":
            raise InputError(f"{self._path}: {name} is {tensor.dtype}, not floating-point")
        values = np.ascontiguousarray(tensor, np.float32)
        if not np.isfinite(values).all():
            raise InputError(f"{self._path}: {name} has NaN or infinite values")
        return values

    def _tensor(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name not in self._tensors:
            raise InputError(f"{self._path}: lacks {name}")
        tensor = self._tensors[name]
        if tensor.shape != shape:
            raise InputError(
                f"{self._path}: {name} is {list(tensor.shape)}; the description asks for "
                f"{list(shape)}"
            )
        return tensor


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a safetensors file, by name; bfloat16 as its bits, uint16.

    Raises InputError if the file is missing, damaged or of another kind.
    """
    try:
        content = path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    if content is None:
        raise InputError(f"{path}: no such file")
    try:
        return _parsed(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: damaged or cut short ({error}); get it again") from error


def _parsed(content: bytes) -> dict[str, np.ndarray]:
    start = 8 + int.from_bytes(content[:8], "little")
    if len(content) < 8 or start > len(content):
        raise ValueError("its header is longer than the file")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    tensors, end = {}, start
    for name, entry in header.items():
        shape, dtype = tuple(entry["shape"]), _DTYPES.get(entry["dtype"])
        first, last = entry["data_offsets"]
        if dtype is None or not all(isinstance(n, int) and n >= 0 for n in (*shape, first, last)):
            raise ValueError(f"{name} is described in a way that is unknown")
        part = content[start + first : start + last]
        if len(part) != last - first:
            raise ValueError(f"{name} is cut short")
        tensors[name] = np.frombuffer(part, dtype).reshape(shape)
        end = max(end, start + last)
    if end != len(content):
        raise ValueError("it is longer than its header says")
    return tensors
