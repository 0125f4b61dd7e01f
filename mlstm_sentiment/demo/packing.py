"""A model as the page's engine takes it: the arrays of its file, and what engine.h calls them."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine import library
from ..engine.stored import StoredMatrix, StoredModel

_MULTIPLE = 16  # bytes: where JavaScript may view numbers of any size
_KINDS = {ctypes.c_int64: "int64", ctypes.c_float: "float", ctypes.c_double: "double"}


class Packer:
    """Arrays one after the other, in one piece of memory."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, array: np.ndarray | None) -> int | None:
        """Append an array; return the byte at which it begins, or None for none."""
        if array is None:
            return None
        place = len(self.data)
        self.data += array.tobytes()
        self.data += bytes(-len(self.data) % _MULTIPLE)
        return place

    def add_model(self, stored: StoredModel, *, is_fast: bool = False) -> dict[str, Any]:
        """Append a model's arrays; return the fields of engine.h's StoredModel, with places."""
        sizes = stored.architecture
        layers = [
            {name: self._matrix(matrix) for name, matrix in layer.matrices.items()}
            | {"b": self.add(layer.b)}
            for layer in stored.layers
        ]
        return {
            "hidden": sizes.hidden_size,
            "embedding": sizes.embedding_size,
            "vocabulary": sizes.resolved_vocabulary_size,
            "layers": len(layers),
            "layer": layers,
            "embed": self._matrix(stored.embedding),
            "decoder": self._matrix(stored.decoder),
            "decoder_bias": self.add(stored.decoder_bias),
            "parts": 1 if is_fast else 2,
            "path": library.PATHS.index("plain"),
        }

    def _matrix(self, matrix: StoredMatrix) -> dict[str, int | None]:
        return {
            **{name: self.add(getattr(matrix, name)) for name in ("data", "scale", "gain")},
            "rows": len(matrix.data),
            "columns": matrix.columns,
            "bits": matrix.bits,
        }


def structures() -> dict[str, Any]:
    """Return the fields of engine.h's structures, in order: each one's name and kind."""
    return {
        structure.__name__: _fields(structure)
        for structure in (library.StoredLayer, library.StoredModel, library.Job)
    }


def _fields(structure: type[ctypes.Structure]) -> dict[str, Any]:
    fields: Sequence[tuple[str, Any]] = structure._fields_  # type: ignore[assignment]
    return {
        name: _fields(kind) if issubclass(kind, ctypes.Structure) else _KINDS.get(kind, "pointer")
        for name, kind in fields
    }
