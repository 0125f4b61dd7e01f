"""Files of features, float32 [N, F], computed batch by batch: whole, or not there."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ..errors import InputError
from ..files.storage import map_array
from ..files.weights import model_digest
from ..files.writer import path_in_oserrors, write_atomically
from ..layers.language_model import LanguageModel
from .features import FINAL_CELL, FeatureKind, final_states

REMEDY = "remove it; it will be computed again"  # of a damaged file


@dataclass(frozen=True)
class Reading:
    """All that features depend on: a model, texts as it reads them, and the kind of features."""

    model: LanguageModel
    sequences: Sequence[np.ndarray]
    """Tokens [n] of each text."""
    kind: FeatureKind = FINAL_CELL
    batch_size: int = 128

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.sequences), self.kind.size(self.model.config)

    @property
    def tokens(self) -> int:
        """The number of tokens of all texts."""
        return sum(map(len, self.sequences))

    def digest(self) -> str:
        """Return a digest that differs between any two readings."""
        digest = hashlib.sha256(
            f"{model_digest(self.model)} {len(self.sequences)} {self.batch_size}".encode()
        )
        if self.kind != FINAL_CELL:  # the first kind: its files keep their names
            digest.update(repr(self.kind).encode())
        if self.model.uses_int8:
            digest.update(b"int8")
        for sequence in self.sequences:
            digest.update(len(sequence).to_bytes(8, "little") + sequence.tobytes())
        return digest.hexdigest()

    def features(self, advance: Callable[[int], object]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows of each batch and their features."""
        return final_states(
            self.model,
            self.sequences,
            kind=self.kind,
            batch_size=self.batch_size,
            advance=advance,
        )


def write_features(
    path: Path,
    shape: tuple[int, int],
    readings: Iterable[Reading],
    advance: Callable[[int], object],
) -> None:
    """Write the features of readings, one after the other, to the .npy file `path`.

    The file exists only when it is whole. shape: of the features of all readings together. advance:
    called with the number of tokens just processed. Raises InputError if the readings have more or
    fewer texts, and OSError early if the disk is too small.
    """

    def write(temporary: Path) -> None:
        array = _new_array(temporary, shape)
        first = 0
        for reading in readings:
            end = first + len(reading.sequences)
            if end > shape[0]:
                break
            for rows, values in reading.features(advance):
                array[first + rows] = values
            first = end
        else:
            if first == shape[0]:
                array.flush()
                return
        raise InputError("the input has changed while it was read; run the command again")

    write_atomically(path, write)


def _new_array(path: Path, shape: tuple[int, int]) -> np.memmap:
    """Map a new file of features; a full disk raises OSError now."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    if hasattr(os, "posix_fallocate"):  # a sparse memory map would crash the process later
        with path_in_oserrors(path), open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def mapped(path: Path, mode: Literal["r", "r+"], shape: tuple[int, int]) -> np.memmap:
    """Map features without reading them; InputError if the file holds anything else."""
    array = map_array(path, mode, REMEDY)
    if (array.dtype, array.shape) != (np.float32, shape):
        raise InputError(
            f"{path}: holds {array.dtype} {list(array.shape)}, not features {list(shape)}; {REMEDY}"
        )
    return array
