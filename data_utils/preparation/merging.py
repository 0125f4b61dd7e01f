"""Sorted runs merged into the files of a corpus, one stretch of keys at a time."""

import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from mlstm_sentiment.files.writer import open_work
from mlstm_sentiment.reading.progress import ProgressBar

from ..corpus import SPLITS, offsets_file, tokens_file
from .runs import DATA, Run

SORTED_BYTES = 24 << 20  # of a stretch, about; sorting takes several times as much memory


def merge(
    runs: Sequence[Run],
    folder: Path,
    counts: Sequence[int],
    *,
    shuffled: bool,
    repeats: Sequence[np.ndarray] | None = None,
    stretch_bytes: int = SORTED_BYTES,
) -> dict[str, Any]:
    """Write the splits, of `counts` reviews each, from the runs in the order of the keys.

    shuffled: whether keys are uniform; else they rise from run to run. repeats: reviews to leave
    out. stretch_bytes: how much is sorted at a time; it does not change the result.
    """
    total = sum(run.report["bytes"] for run in runs)
    with ExitStack() as stack:
        writers = [
            stack.enter_context(SplitWriter(folder, name, count))
            for name, count in zip(SPLITS, counts, strict=True)
        ]
        progress = stack.enter_context(ProgressBar("sorting", total))
        writing = stack.enter_context(ThreadPoolExecutor(1))  # while the next stretch is sorted
        written: Future[int] | None = None
        for reviews in stretches(runs, shuffled, repeats, stretch_bytes):
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


def stretches(
    runs: Sequence[Run], shuffled: bool, repeats: Sequence[np.ndarray] | None, stretch_bytes: int
) -> Iterator[list[memoryview]]:
    """Yield reviews in the order of their keys, a stretch of keys at a time.

    Only the runs that have a review in a stretch are opened for it; memory grows by a few bytes
    for each run and each stretch.
    """
    numbers = [number for number, run in enumerate(runs) if run.report["reviews"]]
    heads = np.array([runs[n].entries()["key"][0] for n in numbers], np.uint64)  # next keys
    counts = np.array([runs[n].report["reviews"] for n in numbers], np.int64)
    sizes = np.array([runs[n].report["bytes"] for n in numbers], np.int64)
    places = np.zeros(len(numbers), np.int64)  # in each run, its next review
    for edge in [*_edges(heads, sizes, shuffled, stretch_bytes), None]:
        keys, spans, parts, start = [], [], [], 0
        inside = places < counts if edge is None else (places < counts) & (heads < np.uint64(edge))
        for row in np.flatnonzero(inside).tolist():
            run, first = runs[numbers[row]], int(places[row])
            entries = run.entries()
            last = len(entries) if edge is None else bisect_left(entries["key"], edge, lo=first)
            ends = entries["end"][first:last].astype(np.int64)
            begin = int(entries["end"][first - 1]) if first else 0
            starts = np.concatenate([[begin], ends[:-1]])
            selected = slice(None) if repeats is None else ~repeats[numbers[row]][first:last]
            keys.append(entries["key"][first:last][selected])
            spans.append(np.stack([starts, ends], axis=1)[selected] + (start - begin))
            with open(run.path(DATA), "rb") as file:
                file.seek(begin)
                parts.append(file.read(int(ends[-1]) - begin))
            start += len(parts[-1])
            places[row] = last
            heads[row] = entries["key"][last] if last < len(entries) else 0
        if parts:
            view = memoryview(b"".join(parts))
            order = np.argsort(np.concatenate(keys), kind="stable")
            yield [view[a:b] for a, b in np.concatenate(spans)[order].tolist()]


def _edges(
    heads: np.ndarray, sizes: np.ndarray, shuffled: bool, stretch_bytes: int
) -> Sequence[int]:
    """Return keys that cut the reviews into stretches of about the same size.

    heads: the first key of each run; sizes: its bytes.
    """
    if shuffled:
        count = -(-int(sizes.sum()) // stretch_bytes)
        return [(number << 64) // count for number in range(1, count)]
    stretch_of = np.cumsum(sizes) // stretch_bytes
    edges: list[int] = heads[1:][np.diff(stretch_of) > 0].tolist()
    return edges


class SplitWriter:
    """The two files of a split, to be filled with a number of reviews."""

    def __init__(self, folder: Path, name: str, reviews: int):
        self.left, self.reviews, self.position = reviews, reviews, 0
        self.content_digest, self.offsets_digest = hashlib.sha256(), hashlib.sha256()
        self.paths = (folder / tokens_file(name), folder / offsets_file(name))

    def __enter__(self) -> "SplitWriter":
        self.content: IO[bytes] = open_work(self.paths[0], "wb")  # closed in __exit__
        self.offsets: IO[bytes] = open_work(self.paths[1], "wb")
        self._write_offsets(np.zeros(1, "<i8"))
        return self

    def __exit__(self, *error: object) -> None:
        for file in (self.content, self.offsets):
            file.flush()
            os.fsync(file.fileno())  # before the folder gets the name of a whole corpus
            file.close()

    def fill(self, reviews: list[memoryview]) -> list[memoryview]:
        """Write the reviews that still fit; return the rest."""
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
        return {
            "reviews": self.reviews,
            "bytes": self.position,
            "sha256": self.content_digest.hexdigest(),
            "offsets_sha256": self.offsets_digest.hexdigest(),
        }
