"""Features of labelled texts, computed once and kept; an interrupted computation goes on."""

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from model.features import FINAL_CELL, final_states
from model.language_model import LanguageModel
from model.pooling import FeatureKind
from model.storage import read_json, write_json
from model.weights import model_digest

BATCH_SIZE = 128
SECONDS_BETWEEN_SAVES = 10.0


class FeatureCache:
    """A folder of feature arrays, one per (model, texts as read, kind), named by their digest."""

    def __init__(self, folder: Path, kind: FeatureKind = FINAL_CELL):
        self.folder = folder
        self.kind = kind

    def features(
        self, model: LanguageModel, sequences: Sequence[np.ndarray], name: str
    ) -> np.ndarray:
        """Return float32 [N, F], the features of each text, in the texts' order.

        sequences: the texts as the model reads them, symbols [n] each.
        """
        digest = hashlib.sha256(f"{model_digest(model)} {len(sequences)} {BATCH_SIZE}".encode())
        if self.kind != FINAL_CELL:  # whose name was given before there were others
            digest.update(repr(self.kind).encode())
        for sequence in sequences:
            digest.update(len(sequence).to_bytes(8, "little") + sequence.tobytes())
        path = self.folder / f"{digest.hexdigest()[:24]}.npy"
        if not path.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._compute(model, sequences, path, name)
        return np.load(path, allow_pickle=False)

    def _compute(
        self, model: LanguageModel, sequences: Sequence[np.ndarray], path: Path, name: str
    ) -> None:
        partial = path.with_suffix(".partial.npy")
        progress = path.with_suffix(".progress.json")
        shape = (len(sequences), self.kind.size(model.config))
        done = read_json(progress)["batches"] if progress.is_file() and partial.is_file() else 0
        array = np.lib.format.open_memmap(
            partial, mode="r+" if done else "w+", dtype=np.float32, shape=None if done else shape
        )
        reserve_space(partial)
        saved_at = time.monotonic()
        batches = final_states(model, sequences, kind=self.kind, batch_size=BATCH_SIZE, skip=done)
        total = -(-len(sequences) // BATCH_SIZE)
        for rows, values in tqdm(batches, desc=name, initial=done, total=total, disable=None):
            array[rows] = values
            done += 1
            if time.monotonic() - saved_at > SECONDS_BETWEEN_SAVES:
                array.flush()  # before the note that says how much of it is there
                write_json(progress, {"batches": done})
                saved_at = time.monotonic()
        array.flush()
        partial.rename(path)
        progress.unlink(missing_ok=True)


def reserve_space(path: Path) -> None:
    """Make a full disk an OSError now, where a sparse memory map would crash the process later."""
    if hasattr(os, "posix_fallocate"):
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
