"""A model's files as the engine takes them: integers stay integers, and floats floats."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..bounds import fill
from ..errors import InputError
from ..files.shipped import CONFIG_FILE, WEIGHTS_FILE, find_model
from ..files.storage import check_format_version, read_json
from ..files.tensors import (
    SCALE,
    IntegerBits,
    Shape,
    check_finite,
    is_quantized,
    quantized_shapes,
    read_floats,
    unpack,
)
from ..files.tokenizers import load_tokenizer
from ..text.profiles import TextProfile, text_profile
from ..text.tokenizer import Tokenizer
from .architecture import Architecture

# 1: bytes, unquantized; 2: bytes, matrices as 8-bit integers; 3: with a vocabulary; 4: integers of
# fewer bits; 5: the decoder's of other bits
FORMAT_VERSION = 5
CELL = "mlstm"  # that the engine runs
_BLOCK = 512  # rows
_GATES = {"mx": 1, "x": 4, "mh": 1, "h": 4}


@dataclass(frozen=True)
class _ModelDescription:
    """What `config.json` says besides the architecture and the tokenizer."""

    OTHER_KEYS: ClassVar = True
    format_version: int
    text_profile: str
    provenance: dict[str, Any] = field(default_factory=dict)
    quantized: bool | None = None
    bits: Literal[8, 6, 5] = 8
    decoder_bits: Literal[8, 6, 5] | None = None

    def __post_init__(self) -> None:
        text_profile(self.text_profile)

    @property
    def integer_bits(self) -> IntegerBits | None:
        """The bits of the integers that matrices are stored as; None: they are floats."""
        quantized = self.format_version == 2 if self.quantized is None else self.quantized
        return IntegerBits(self.bits, self.decoder_bits) if quantized else None


class StoredMatrix(NamedTuple):
    """A matrix as its file stores it."""

    data: np.ndarray  # float32 [rows, columns], int8, or uint8 [rows, bits columns / 8 rounded up]
    scale: np.ndarray | None  # float32 [rows]: the factor of a row's integers; None: floats
    gain: np.ndarray | None  # float32 [rows], of weight norm
    columns: int
    bits: int

    def integers(self) -> np.ndarray:
        return self.data if self.bits == 8 else unpack(self.data, self.columns, self.bits)

    def floats(self) -> np.ndarray:
        """Return the matrix as float32 [rows, columns], before weight norm."""
        return self.data if self.scale is None else self.integers() * self.scale[:, None]

    def in_blocks(self) -> "Iterator[StoredMatrix]":
        """Yield the matrix some rows at a time: its floats take several times its memory."""
        for first in range(0, len(self.data), _BLOCK):
            rows = slice(first, first + _BLOCK)
            scale = None if self.scale is None else self.scale[rows]
            yield self._replace(data=self.data[rows], scale=scale, gain=None)


@dataclass(frozen=True)
class _StoredLayer:
    """A layer: w_mx [H, in], w_x [4H, in], w_mh [H, H], w_h [4H, H], and b, float32 [4H]."""

    matrices: Mapping[str, StoredMatrix]
    b: np.ndarray


@dataclass(frozen=True)
class ModelFolder:
    """What the folder of a model says of it. Its weights are read later, by whoever computes it."""

    folder: Path
    architecture: Architecture
    tokenizer: Tokenizer
    profile: TextProfile
    provenance: Mapping[str, Any]
    integer_bits: IntegerBits | None  # of the matrices; None: they are floats

    def weights(self, shapes: Mapping[str, Shape]) -> "_StoredWeights":
        """Return the tensors of the weights' file; InputError unless they have these shapes."""
        return _StoredWeights(self.folder / WEIGHTS_FILE, shapes, self.integer_bits)


@dataclass(frozen=True)
class StoredModel(ModelFolder):
    """A model with its weights, as its folder has them."""

    embedding: StoredMatrix
    layers: tuple[_StoredLayer, ...]
    decoder: StoredMatrix
    decoder_bias: np.ndarray

    def digest(self) -> str:
        """Return a digest of the architecture and the weights, as a classifier names its model."""
        tensors: dict[str, StoredMatrix | np.ndarray] = {
            "embedding.weight": self.embedding,
            "decoder.weight": self.decoder,
            "decoder.bias": self.decoder_bias,
        }
        for index, layer in enumerate(self.layers):
            tensors[f"layers.{index}.b"] = layer.b
            for name, matrix in layer.matrices.items():
                tensors[f"layers.{index}.w_{name}"] = matrix
                if matrix.gain is not None:
                    tensors[f"layers.{index}.g_{name}"] = matrix.gain
        digest = new_digest(self.architecture)
        for name, tensor in sorted(tensors.items()):
            digest.update(name.encode())
            if isinstance(tensor, StoredMatrix):
                for block in tensor.in_blocks():
                    digest.update(np.ascontiguousarray(block.floats()))
            else:
                digest.update(np.ascontiguousarray(tensor))
        return digest.hexdigest()


def new_digest(architecture: Architecture, dtype: str = "torch.float32") -> Any:
    """Return the digest of a model without weights yet: their names and values follow, by name.

    dtype: of the products, as files of classifiers have always named it.
    """
    return hashlib.sha256(repr((architecture.architecture(), dtype)).encode())


def open_model(name_or_folder: str | Path) -> ModelFolder:
    """Find a model and read what its folder says of it; see `files.shipped.find_model` for names.

    Raises InputError if a file is missing, damaged or of a newer format.

    >>> open_model("default").architecture.hidden_size
    1024
    """
    folder = find_model(name_or_folder)
    path = folder / CONFIG_FILE
    description = read_json(path)
    check_format_version(description, FORMAT_VERSION, path)
    tokenizer = load_tokenizer(folder, description, path)
    rest = fill(_ModelDescription, description, path)
    architecture = Architecture.of_description(description, path)
    if tokenizer.vocabulary_size != (size := architecture.resolved_vocabulary_size):
        raise InputError(
            f"{path}: {size} tokens, but its tokenizer has {tokenizer.vocabulary_size}"
        )
    profile = text_profile(rest.text_profile)
    return ModelFolder(folder, architecture, tokenizer, profile, rest.provenance, rest.integer_bits)


def read_weights(opened: ModelFolder) -> StoredModel:
    """Return a model as the engine computes it; InputError for another cell than the mLSTM.

    >>> read_weights(open_model("default")).decoder.columns
    1024
    """
    architecture = opened.architecture
    if architecture.cell != CELL:
        raise InputError(
            f"{opened.folder / CONFIG_FILE}: the model's cell is {architecture.cell}, which needs "
            "PyTorch: run classify.py, evaluate.py, featurize.py, generate.py or heatmap.py of "
            "scripts/ in a checkout of the repository"
        )
    weights = opened.weights(_shapes(architecture))
    layers = [
        _StoredLayer(
            {name: weights.matrix(f"layers.{index}.w_{name}") for name in _GATES},
            weights.arrays[f"layers.{index}.b"],
        )
        for index in range(architecture.layers)
    ]
    return StoredModel(
        **vars(opened),
        embedding=weights.matrix("embedding.weight"),
        layers=tuple(layers),
        decoder=weights.matrix("decoder.weight"),
        decoder_bias=weights.arrays["decoder.bias"],
    )


def _shapes(architecture: Architecture) -> dict[str, Shape]:
    H, V = architecture.hidden_size, architecture.resolved_vocabulary_size
    shapes: dict[str, Shape] = {
        "embedding.weight": (V, architecture.embedding_size),
        "decoder.weight": (V, H),
        "decoder.bias": (V,),
    }
    for index in range(architecture.layers):
        prefix, size = f"layers.{index}.", architecture.input_size(index)
        for name, gates in _GATES.items():
            shapes[f"{prefix}w_{name}"] = (gates * H, H if name in ("mh", "h") else size)
            if architecture.weight_norm:
                shapes[f"{prefix}g_{name}"] = (gates * H,)
        shapes[f"{prefix}b"] = (4 * H,)
    return shapes


class _StoredWeights:
    """The tensors of a model's file, taken by name; InputError unless they have these shapes.

    bits: of the integers that matrices are stored as; None: they are floats.
    """

    def __init__(self, path: Path, shapes: Mapping[str, Shape], bits: IntegerBits | None):
        self._shapes, self._bits, expected = shapes, dict[str, int](), shapes
        if bits is not None:
            expected = quantized_shapes(shapes, bits)
            self._bits = {name: bits.of(name) for name in shapes if is_quantized(shapes[name])}
        self.arrays = read_floats(path, expected, integers=self._bits)
        with np.errstate(over="ignore"):
            largest = {
                name: self.arrays[name + SCALE] * np.float32(1 << (each - 1))
                for name, each in self._bits.items()
            }
            check_finite(path, largest)

    def floats(self, name: str) -> np.ndarray:
        is_matrix = is_quantized(self._shapes[name])
        return self.matrix(name).floats() if is_matrix else self.arrays[name]

    def matrix(self, name: str) -> StoredMatrix:
        gain = self.arrays.get(name.replace(".w_", ".g_")) if ".w_" in name else None
        scale, columns = self.arrays.get(name + SCALE), self._shapes[name][1]
        bits = self._bits.get(name, 32)  # 32: of floats
        return StoredMatrix(self.arrays[name], scale, gain, columns, bits)
