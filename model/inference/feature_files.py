"""Files of features, float32 [N, F], computed batch by batch, that survive interruptions."""

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

import numpy as np

from ..errors import InputError, checked_whole
from ..files.storage import (
    first_free,
    flush_to_disk,
    map_array,
    path_in_oserrors,
    read_json,
    write_json,
)
from ..files.weights import model_digest
from ..layers.language_model import LanguageModel
from ..text.split import ragged_batches
from .features import FINAL_CELL, FeatureKind, final_states

SECONDS_BETWEEN_SAVES = 10.0
REMEDY = "remove it; it will be computed again"  # of a damaged file

log = logging.getLogger(__name__)


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
    def batches(self) -> int:
        return -(-len(self.sequences) // self.batch_size)

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

    def features(
        self, skip: int, advance: Callable[[int], object]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows of each batch and their features, without the first `skip` batches."""
        return final_states(
            self.model,
            self.sequences,
            kind=self.kind,
            batch_size=self.batch_size,
            skip=skip,
            advance=advance,
        )

    def tokens_in(self, batches: int) -> int:
        """Return how many tokens the first batches have."""
        lengths = list(map(len, self.sequences))
        ragged = ragged_batches(lengths, self.batch_size, block=max(lengths, default=1))
        first = (batch.indices for batch, _ in zip(ragged, range(batches), strict=False))
        return sum(lengths[index] for indices in first for index in indices)


class LongReading:
    """A reading of more texts than fit into memory, in parts that are made one at a time.

    parts: returns the readings of the parts, one after the other, the same at every call.
    """

    def __init__(self, parts: Callable[[], Iterator[Reading]]):
        """Make every part once, to know its size."""
        self._parts = parts
        digest = hashlib.sha256()
        self._sizes: list[tuple[int, int, int]] = []  # texts, batches, tokens of each part
        for part in parts():
            digest.update(part.digest().encode())
            tokens = sum(map(len, part.sequences))
            self._sizes.append((len(part.sequences), part.batches, tokens))
            width = part.shape[1]
        self._digest = digest.hexdigest()
        self.shape = (sum(texts for texts, _, _ in self._sizes), width)
        self.batches = sum(batches for _, batches, _ in self._sizes)

    def digest(self) -> str:
        """Return a digest that differs between any two readings."""
        return self._digest

    def features(
        self, skip: int, advance: Callable[[int], object]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows of each batch from `skip` on and their features; refuse changed texts."""
        first = 0
        for part, size in zip_longest(self._parts(), self._sizes):
            if part is None or size is None or len(part.sequences) != size[0]:
                raise InputError("the input has changed while it was read; run the command again")
            texts, batches, _ = size
            for rows, values in part.features(min(skip, batches), advance):
                yield first + rows, values
            first, skip = first + texts, max(skip - batches, 0)

    def tokens_in(self, batches: int) -> int:
        """Return about how many tokens the first batches have."""
        total = 0.0
        for _, in_part, tokens in self._sizes:
            done = min(batches, in_part)
            total += tokens * done / in_part
            batches -= done
        return round(total)


def compute(
    reading: Reading | LongReading, path: Path, digest: str, advance: Callable[[int], object]
) -> None:
    """Write the features to the .npy file `path`, which exists only when it is whole.

    A call for the same path and `digest` continues where an interrupted one stopped. Only one
    process may write a path. Raises InputError for damaged files of an interrupted call, and
    OSError early if the disk is too small. advance: called with the number of tokens read.
    """
    partial, progress = path.with_suffix(".partial.npy"), path.with_suffix(".progress.json")
    done = _batches_done(reading, partial, progress, digest)
    array = _open_array(partial, reading.shape, anew=not done)
    saved_at = time.monotonic()
    try:
        advance(reading.tokens_in(done))
        for rows, values in reading.features(done, advance):
            array[rows] = values
            done += 1
            if time.monotonic() - saved_at > SECONDS_BETWEEN_SAVES:
                _save(array, partial, progress, done, digest)
                saved_at = time.monotonic()
    except BaseException:
        if done:
            _save(array, partial, progress, done, digest)
            log.info("%s: kept; the same command continues it", partial)
        else:
            partial.unlink()
        raise
    _flush(array, partial)
    flush_to_disk(partial)
    partial.replace(path)
    progress.unlink(missing_ok=True)


def _batches_done(
    reading: Reading | LongReading, partial: Path, progress: Path, digest: str
) -> int:
    """Return how many batches an interrupted call with this digest has computed."""
    if not (progress.is_file() and partial.is_file()):
        return 0
    noted = read_json(progress)
    if noted.get("digest", digest) != digest:
        _rename_to_free_name(partial, progress)
        return 0
    return checked_whole(f"{progress}: batches", noted.get("batches"), 0, reading.batches)


def _rename_to_free_name(*files: Path) -> None:
    """Give another command's unfinished files a free name: they may have taken hours."""
    free = first_free(lambda n: [path.with_suffix(f".{n}{path.suffix}") for path in files])
    for path, name in zip(files, free, strict=True):
        path.rename(name)
    log.info("%s: belongs to other texts or options; renamed to %s", files[0], free[0])


def _open_array(partial: Path, shape: tuple[int, int], *, anew: bool) -> np.memmap:
    """Map the file that is being written; a full disk raises OSError now."""
    try:
        if anew:
            with path_in_oserrors(partial):
                array = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float32, shape=shape)
        else:
            array = mapped(partial, "r+", shape)
        if hasattr(os, "posix_fallocate"):  # a sparse memory map would crash the process later
            with path_in_oserrors(partial), open(partial, "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, partial.stat().st_size)
    except OSError:
        if anew:
            partial.unlink(missing_ok=True)
        raise
    return array


def _flush(array: np.memmap, path: Path) -> None:
    with path_in_oserrors(path):
        array.flush()


def _save(array: np.memmap, partial: Path, progress: Path, done: int, digest: str) -> None:
    _flush(array, partial)  # before the note of how much of it is complete
    write_json(progress, {"batches": done, "digest": digest})


def mapped(path: Path, mode: Literal["r", "r+"], shape: tuple[int, int]) -> np.memmap:
    """Map features without reading them; InputError if the file holds anything else."""
    array = map_array(path, mode, REMEDY)
    if (array.dtype, array.shape) != (np.float32, shape):
        raise InputError(
            f"{path}: holds {array.dtype} {list(array.shape)}, not features {list(shape)}; {REMEDY}"
        )
    return array
