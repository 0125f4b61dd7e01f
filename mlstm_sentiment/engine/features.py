"""The features of texts, from any model: in memory, or in a file that is whole or not there."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files.storage import map_array
from ..files.writer import path_in_oserrors, write_atomically
from .interface import Reading, TextModel
from .kinds import FINAL_CELL, FeatureKind

REMEDY = "remove it; it will be computed again"  # of a damaged file
NUMBERS_AT_ONCE = 1 << 22
"""The most features that are in memory at once, for all texts together."""


def read_features(
    model: TextModel, sequences: Sequence[np.ndarray], kind: FeatureKind, **options: Any
) -> tuple[np.ndarray, Reading]:
    """Return the features of texts, float32 [N, F], and what else was asked for.

    sequences: tokens [n] of each text. options: those of `read`. Raises InputError if a feature is
    not finite.
    """
    architecture = model.architecture
    layers = kind.layers_of(architecture)
    reading = model.read(
        sequences, kind.poolings, state=kind.state, layers=layers, tanh=kind.tanh, **options
    )
    return kind.chosen(architecture, reading, model.precision), reading


def features_in_parts(
    model: TextModel,
    sequences: Sequence[np.ndarray],
    kind: FeatureKind,
    advance: Callable[[int], object] | None = None,
    **options: Any,
) -> Iterator[tuple[np.ndarray, Reading]]:
    """Yield what `read_features` returns of some texts at a time, in order; once if there are none.

    They are few enough for their features to be in memory together.
    """
    step = max(NUMBERS_AT_ONCE // kind.size(model.architecture), 1)
    for first in range(0, max(len(sequences), 1), step):
        part = sequences[first : first + step]
        yield read_features(model, part, kind, advance=advance, **options)


@dataclass(frozen=True)
class TextFeatures:
    """All that features depend on: a model, texts as tokens, and the kind of features."""

    model: TextModel
    sequences: Sequence[np.ndarray]
    """Tokens [n] of each text."""
    kind: FeatureKind = FINAL_CELL

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.sequences), self.kind.size(self.model.architecture)

    @property
    def tokens(self) -> int:
        return sum(map(len, self.sequences))

    def digest(self) -> str:
        """Return a digest that differs between any two of them."""
        described = (self.model.digest(), self.model.precision, len(self.sequences), self.kind)
        digest = hashlib.sha256(repr(described).encode())
        for sequence in self.sequences:
            digest.update(len(sequence).to_bytes(8, "little") + sequence.tobytes())
        return digest.hexdigest()


def write_features(
    path: Path,
    shape: tuple[int, int],
    parts: Iterable[TextFeatures],
    advance: Callable[[int], object],
) -> None:
    """Write the features of parts of the texts, one after the other, to the .npy file `path`.

    The file exists only when it is whole. shape: of the features of all parts together. advance:
    called with the number of tokens just processed. Raises InputError if the parts have more or
    fewer texts, and OSError early if the disk is too small.
    """

    def write(temporary: Path) -> None:
        array = _new_array(temporary, shape)
        first = 0
        for part in parts:
            if first + len(part.sequences) > shape[0]:
                break
            of = part.model, part.sequences, part.kind
            # The features alone: a reading would be in memory while the next one is made.
            for values in (each[0] for each in features_in_parts(*of, advance)):
                array[first : first + len(values)] = values
                first += len(values)
        else:
            if first == shape[0]:
                array.flush()
                return
        raise InputError("the input has changed while it was read; run the command again")

    write_atomically(path, write, "features")


def _new_array(path: Path, shape: tuple[int, int]) -> np.memmap:
    """Map a new file of features; a full disk raises OSError now."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    if hasattr(os, "posix_fallocate"):  # a sparse memory map would crash the process later
        with path_in_oserrors(path), open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def mapped(path: Path, shape: tuple[int, int]) -> np.memmap:
    """Map features without reading them; InputError if the file holds anything else."""
    array = map_array(path, REMEDY)
    if (array.dtype, array.shape) != (np.float32, shape):
        raise InputError(
            f"{path}: holds {array.dtype} {list(array.shape)}, not features {list(shape)}; {REMEDY}"
        )
    return array
