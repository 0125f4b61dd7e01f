"""Features of labelled texts, computed once and kept; an interrupted computation continues."""

import hashlib
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from tqdm import tqdm

from model.errors import InputError, checked_whole
from model.features import FINAL_CELL, FeatureKind, final_states
from model.files.arrays import map_array
from model.files.locks import one_at_a_time
from model.files.storage import read_json, write_json
from model.files.weights import model_digest
from model.language_model import LanguageModel

BATCH_SIZE = 128
SECONDS_BETWEEN_SAVES = 10.0
REMEDY = "remove it, it is computed anew"  # of a damaged file
BUSY = "%s: another command is computing these features; waiting for them"

log = logging.getLogger(__name__)


class FeatureCache:
    """A folder of feature arrays, one per (model, texts as read, kind), named by their digest."""

    def __init__(
        self,
        folder: Path,
        kind: FeatureKind = FINAL_CELL,
        *,
        batch_size: int = BATCH_SIZE,
        seconds_between_saves: float = SECONDS_BETWEEN_SAVES,
    ):
        self.folder = folder
        self.kind = kind
        self.batch_size = batch_size
        self.seconds_between_saves = seconds_between_saves

    def features(
        self, model: LanguageModel, sequences: Sequence[np.ndarray], name: str
    ) -> np.ndarray:
        """Return float32 [N, F], the features of each text, in the texts' order.

        sequences: the texts as the model reads them, tokens [n] each. While another process
        computes them, waits for it. Raises InputError for a file of the cache that is damaged.
        """
        digest = hashlib.sha256(
            f"{model_digest(model)} {len(sequences)} {self.batch_size}".encode()
        )
        if self.kind != FINAL_CELL:  # the first kind: its files keep the names they have
            digest.update(repr(self.kind).encode())
        if model.multiplies_integers:
            digest.update(b"int8")
        for sequence in sequences:
            digest.update(len(sequence).to_bytes(8, "little") + sequence.tobytes())
        path = self.folder / f"{digest.hexdigest()[:24]}.npy"
        if not path.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            with one_at_a_time(path.with_suffix(".lock"), lambda: log.info(BUSY, path)):
                if not path.is_file():
                    self._compute(model, sequences, path, name)
        return _finite(path, np.array(_map(path, "r", self._shape(model, sequences))))

    def _shape(self, model: LanguageModel, sequences: Sequence[np.ndarray]) -> tuple[int, int]:
        return len(sequences), self.kind.size(model.config)

    def _compute(
        self, model: LanguageModel, sequences: Sequence[np.ndarray], path: Path, name: str
    ) -> None:
        partial = path.with_suffix(".partial.npy")
        progress = path.with_suffix(".progress.json")
        shape, total = self._shape(model, sequences), -(-len(sequences) // self.batch_size)
        done = 0
        if progress.is_file() and partial.is_file():
            noted = read_json(progress).get("batches")
            done = checked_whole(f"{progress}: batches", noted, 0, total)
        if done:
            array = _map(partial, "r+", shape)
        else:
            progress.unlink(missing_ok=True)  # it may be of a file that was removed
            array = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float32, shape=shape)
        reserve_space(partial)
        saved_at = time.monotonic()
        batches = final_states(
            model, sequences, kind=self.kind, batch_size=self.batch_size, skip=done
        )
        for rows, values in tqdm(batches, desc=name, initial=done, total=total, disable=None):
            array[rows] = values
            done += 1
            if time.monotonic() - saved_at > self.seconds_between_saves:
                array.flush()  # before the note that says how much of it is there
                write_json(progress, {"batches": done})
                saved_at = time.monotonic()
        array.flush()
        partial.rename(path)
        progress.unlink(missing_ok=True)


def _map(path: Path, mode: Literal["r", "r+"], shape: tuple[int, int]) -> np.memmap:
    """Map features without reading them; InputError if the file holds anything else."""
    array = map_array(path, mode, REMEDY)
    if (array.dtype, array.shape) != (np.float32, shape):
        raise InputError(
            f"{path}: holds {array.dtype} {list(array.shape)}, not features {list(shape)}; {REMEDY}"
        )
    return array


def _finite(path: Path, features: np.ndarray) -> np.ndarray:
    """Return features, [N, features]; InputError if one is not a finite number."""
    if not all(np.isfinite(row).all() for row in features):
        raise InputError(f"{path}: holds NaN or infinity; {REMEDY}")
    return features


def reserve_space(path: Path) -> None:
    """Turn a full disk into an OSError now; a sparse memory map would crash the process later."""
    if hasattr(os, "posix_fallocate"):
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
