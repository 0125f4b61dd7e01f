"""Sorted runs merged into the files of a corpus, one stretch of keys at a time."""

import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from model.reading.progress import ProgressBar

from ..corpus import SPLITS, offsets_file, tokens_file
from .sorted_runs import DATA, SortedRun

SORTED_BYTES = 24 << 20  # of a stretch, about; sorting takes several times as much memory
SAMPLES = 256  # keys sampled from a stretch to decide where the next one begins


def merge(
    runs: Sequence[SortedRun],
    folder: Path,
    counts: Sequence[int],
    stretch_bytes: int = SORTED_BYTES,
) -> dict[str, Any]:
    """Write the splits, of `counts` reviews each, from the runs in the order of the keys.

    stretch_bytes: how much is sorted at a time; it does not change the result.
    """
    total = sum(run.report()["bytes"] for run in runs)
    with ExitStack() as stack:
        writers = [
            stack.enter_context(SplitWriter(folder, name, count))
            for name, count in zip(SPLITS, counts, strict=True)
        ]
        progress = stack.enter_context(ProgressBar("sorting", total))
        writing = stack.enter_context(ThreadPoolExecutor(1))  # while the next stretch is sorted
        written: Future[int] | None = None
        for reviews in stretches(runs, stretch_bytes):
            if written is not None:
                progress.advance(written.result())
            written = writing.submit(_write, writers, reviews)
        if written is not None:
            progress.advance(written.result())
    return {name: writer.size() for name, writer in zip(SPLITS, writers, strict=True)}


def _write(writers: Sequence["SplitWriter"], reviews: list[memoryview]) -> int:
    """Write reviews, filling split after split; return their bytes."""
    size = sum(map(len, reviews))
    for writer in writers:
        reviews = writer.fill(reviews)
    return size


def stretches(runs: Sequence[SortedRun], stretch_bytes: int) -> Iterator[list[memoryview]]:
    """Yield reviews in the order of their keys, a stretch of keys at a time.

    Only the runs that have a review in a stretch are opened for it; memory grows by a few bytes
    for each run and each stretch.
    """
    heads = np.array([_key(run.entries(), 0) for run in runs], np.uint64)  # each run's next key
    left = np.array([len(run.entries()) for run in runs], np.int64)
    places = np.zeros((len(runs), 2), np.int64)  # in each run: its next review, and next byte
    for edge in [*_edges(runs, stretch_bytes), None]:
        placed, parts, start = [], [], 0
        inside = left > 0 if edge is None else (left > 0) & (heads < edge)
        for number in np.flatnonzero(inside).tolist():
            run, (first, position) = runs[number], places[number].tolist()
            entries = run.entries()
            index = entries[first : _end(entries, first, edge)]
            size = int(index["length"].sum(dtype=np.int64))
            parts.append(_bytes_of(run, position, size))
            placed.append(_placed(index, run, first, start))
            start += size
            places[number] += len(index), size
            left[number] -= len(index)
            heads[number] = _key(entries, first + len(index))
        yield _sorted(placed, b"".join(parts))


def _key(entries: np.ndarray, place: int) -> int:
    """Return the key of a review; 0 after the last one."""
    return int(entries["key"][place]) if place < len(entries) else 0


def _end(entries: np.ndarray, first: int, edge: np.uint64 | None) -> int:
    """Return where the keys, from the first on, reach the edge; without one, the end of all."""
    return len(entries) if edge is None else bisect_left(entries["key"], edge, lo=first)


def _edges(runs: Sequence[SortedRun], stretch_bytes: int) -> np.ndarray:
    """Return keys, uint64, that cut the reviews into stretches of about the same size."""
    step = max(1, stretch_bytes // SAMPLES)
    starts = np.random.default_rng(len(runs)).integers(step, size=len(runs))
    samples = [_sample(run, start, step) for run, start in zip(runs, starts.tolist(), strict=True)]
    sample = np.concatenate([np.empty(0, np.uint64), *samples])
    sample.sort()
    return np.unique(sample[SAMPLES::SAMPLES])


def _sample(run: SortedRun, start: int, step: int) -> np.ndarray:
    """Return the keys of the reviews that contain every `step`-th byte of a run, uint64.

    start: the first of these bytes, drawn, so that short runs do not all give their smallest keys.
    """
    entries = run.entries()
    ends = np.cumsum(entries["length"], dtype=np.int64)
    if not len(ends):
        return np.empty(0, np.uint64)
    places = np.searchsorted(ends, np.arange(start, ends[-1], step), side="right")
    return entries["key"][places].astype(np.uint64)


def _bytes_of(run: SortedRun, start: int, size: int) -> bytes:
    with open(run.path(DATA), "rb") as file:
        file.seek(start)
        return file.read(size)


_PLACED = np.dtype([("key", "<u8"), ("start", "<i8"), ("end", "<i8")])


def _placed(index: np.ndarray, run: SortedRun, first: int, start: int) -> np.ndarray:
    """Return keys and places of reviews in a stretch's bytes; duplicates are left out."""
    placed = np.empty(len(index), _PLACED)
    placed["key"] = index["key"]
    placed["end"] = start + np.cumsum(index["length"], dtype=np.int64)
    placed["start"] = placed["end"] - index["length"]
    distinct = run.distinct()
    return placed if distinct is None else placed[distinct[first : first + len(index)]]


def _sorted(entries: list[np.ndarray], content: bytes) -> list[memoryview]:
    rows = np.concatenate(entries) if entries else np.empty(0, _PLACED)
    rows = rows[np.argsort(rows["key"], kind="stable")]
    view = memoryview(content)
    starts, ends = rows["start"].tolist(), rows["end"].tolist()
    return [view[start:end] for start, end in zip(starts, ends, strict=True)]


class SplitWriter:
    """The two files of a split, to be filled with a number of reviews."""

    def __init__(self, folder: Path, name: str, reviews: int):
        self.left, self.reviews, self.position = reviews, reviews, 0
        self.content_digest, self.offsets_digest = hashlib.sha256(), hashlib.sha256()
        self.paths = (folder / tokens_file(name), folder / offsets_file(name))

    def __enter__(self) -> "SplitWriter":
        self.content: BinaryIO = open(self.paths[0], "wb")  # closed in __exit__
        self.offsets: BinaryIO = open(self.paths[1], "wb")
        self._write_offsets(np.zeros(1, "<i8"))
        return self

    def __exit__(self, *error: object) -> None:
        for file in (self.content, self.offsets):
            file.flush()
            os.fsync(file.fileno())  # before the folder gets the name of a whole corpus
            file.close()

    def fill(self, reviews: list[memoryview]) -> list[memoryview]:
        """Write what still fits; return the rest."""
        mine, rest = reviews[: self.left], reviews[self.left :]
        if mine:
            self.append(b"".join(mine), np.fromiter(map(len, mine), np.int64, len(mine)))
        return rest

    def append(self, content: bytes, lengths: np.ndarray) -> None:
        """Write reviews end to end; lengths, int64 [n], are in tokens."""
        self.left -= len(lengths)
        self._write_offsets(self.position + lengths.cumsum())
        self.position += int(lengths.sum())
        self.content.write(content)
        self.content_digest.update(content)

    def _write_offsets(self, offsets: np.ndarray) -> None:
        packed = offsets.astype("<i8").tobytes()
        self.offsets.write(packed)
        self.offsets_digest.update(packed)

    def size(self) -> dict[str, Any]:
        """Return the description of the split for meta.json."""
        return {
            "reviews": self.reviews,
            "bytes": self.position,
            "sha256": self.content_digest.hexdigest(),
            "offsets_sha256": self.offsets_digest.hexdigest(),
        }
