"""Blocks encoded by several processes, each written as a run, sorted by key; then merged.

A run has three files: the reviews end to end; an index with each review's key, place in the input,
end and, if asked for, digest; and a report. The report is written last, so a run without one was
not finished. A later call reuses the runs that were made of the same input in the same way.
They are merged into the files of a corpus one stretch of keys at a time.
"""

import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import flush_folder, read_json
from mlstm_sentiment.files.writer import open_work, remove_work, write_json
from mlstm_sentiment.reading.inputs import Input
from mlstm_sentiment.reading.progress import ProgressBar

from ..corpus import SPLITS, offsets_file, tokens_file
from .blocks import Block, Request, Reviews, cut, read_block, row_ids
from .processes import map_in_order

Kind = TypeVar("Kind")
_INDEX = np.dtype([("key", "<u8"), ("id", "<u8"), ("end", "<u8"), ("digest", "<u8", 2)])
REPORT, DATA, ENTRIES = ".json", ".bin", ".index"
_SORTED_BYTES = 24 << 20  # of a stretch, about; sorting takes several times as much memory


class Run(NamedTuple):
    """The files of one block's reviews, and its report."""

    base: Path
    input_number: int
    report: dict[str, Any]

    def path(self, suffix: str) -> Path:
        return self.base.with_name(self.base.name + suffix)

    def entries(self) -> np.ndarray:
        """Return the index, _INDEX [reviews] in the order of the keys."""
        path = self.path(ENTRIES)
        return np.memmap(path, _INDEX, mode="r") if path.stat().st_size else np.empty(0, _INDEX)


def encode(
    inputs: Sequence[Input], folder: Path, request: Request, seed: int | None, workers: int
) -> list[Run]:
    """Encode every block of every input; return the runs in the order of the input.

    seed: decides the order of the corpus; None keeps that of the input. Raises InputError for an
    input that changes while it is read.
    """
    runs: list[Run] = []
    identities = [source.identity for source in inputs]  # of all, also for the processes
    blocks = (block for n, source in enumerate(inputs) for block in cut(n, source, request))
    with ProgressBar("reading", unit=" blocks") as progress:
        work = partial(_encode_block, folder=folder, request=request, seed=seed)
        for done in map_in_order(work, blocks, workers):
            runs += done
            progress.advance(len(done))
    for source, before in zip(inputs, identities, strict=True):
        if replace(source).identity != before:
            raise InputError(
                f"{source.location}: has changed while it was read; run the command again"
            )
    return runs


def _encode_block(block: Block, folder: Path, request: Request, seed: int | None) -> list[Run]:
    """Encode a block and write its runs: one, or several if its input cannot be cut by lines."""
    source = block.source
    origin = {
        "input": source.identity,
        "table": asdict(source.options),
        "seed": seed,
        **asdict(request),
        "text_keys": list(request.text_keys),
    }
    is_whole = block.lines is None and block.span is None
    if not is_whole and (finished := _finished(_run(block, folder, 0), origin)):
        return [finished]
    runs = []
    for number, reviews in enumerate(read_block(block, request)):
        run, ids = _run(block, folder, number), row_ids(block, block.index + number, reviews.rows)
        runs.append(_write_run(run, reviews, ids, _keys_of(ids, seed), request.digests, origin))
    return runs


def _run(block: Block, folder: Path, number: int) -> Run:
    name = f"block-{block.input_number:05d}-{block.index + number:07d}"
    return Run(folder / name, block.input_number, {})


def _finished(run: Run, origin: dict[str, Any]) -> Run | None:
    """Return the run with its report if all of it was written, from this origin; else None."""
    try:
        report = read_json(run.path(REPORT))
    except InputError:  # it is absent
        return None
    sizes = {DATA: report["bytes"], ENTRIES: report["reviews"] * _INDEX.itemsize}
    is_whole = all(
        run.path(suffix).is_file() and run.path(suffix).stat().st_size == size
        for suffix, size in sizes.items()
    )
    # Text that passed strict reading is the same in lenient reading.
    is_same = report.get("origin") in (origin, {**origin, "strict": True})
    return run._replace(report=report) if is_whole and is_same else None


def _write_run(
    run: Run,
    reviews: Reviews,
    ids: np.ndarray,
    keys: np.ndarray,
    digests: bool,
    origin: dict[str, Any],
) -> Run:
    """Write reviews with their places and keys, uint64 [n] each; return the run with its report."""
    order = np.argsort(keys, kind="stable")
    encoded = [reviews.encoded[i] for i in order.tolist()]
    index = np.zeros(len(order), _INDEX)
    index["key"], index["id"] = keys[order], ids[order]
    index["end"] = np.cumsum(np.fromiter(map(len, encoded), np.uint64, len(encoded)))
    if digests:
        index["digest"] = digests_of(encoded)
    remove_work(run.path(REPORT))  # an earlier call's: its data is overwritten
    flush_folder(run.base.parent)
    for suffix, content in ((DATA, b"".join(encoded)), (ENTRIES, index.tobytes())):
        with open_work(run.path(suffix), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # before the report that says that it exists
    report = {
        "reading": vars(reviews.report),
        "found_keys": reviews.found_keys,
        "keys": reviews.keys,
        "table": None if reviews.table is None else asdict(reviews.table),
        "reviews": len(encoded),
        "bytes": int(index["end"][-1]) if encoded else 0,
        "origin": origin,
    }
    write_json(run.path(REPORT), report, None)
    return run._replace(report=report)


def _keys_of(ids: np.ndarray, seed: int | None) -> np.ndarray:
    """Return the keys that order the corpus, uint64 [n]: the places, or a bijection of them.

    The bijection is SplitMix64's finaliser (Steele, Lea and Flood 2014) of place + seeded offset.
    """
    if seed is None:
        return ids
    z = ids * np.uint64(0x9E3779B97F4A7C15) + _splitmix64_finalizer(np.array([seed], np.uint64))
    return _splitmix64_finalizer(z)


def _splitmix64_finalizer(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def digests_of(encoded: Sequence[bytes]) -> np.ndarray:
    """Return 128 bits that identify each review, uint64 [n, 2]."""
    joined = b"".join(hashlib.blake2b(review, digest_size=16).digest() for review in encoded)
    return np.frombuffer(joined, "<u8").reshape(-1, 2)


def holds_reviews(folder: Path) -> bool:
    return any(read_json(report)["reviews"] for report in folder.glob(f"block-*{REPORT}"))


def from_stored(kind: type[Kind], stored: dict[str, Any]) -> Kind:
    """Return a dataclass with stored values; those of fields that it no longer has are left out."""
    return kind(**{f.name: stored[f.name] for f in fields(kind) if f.name in stored})  # type: ignore[arg-type]


def find_repeats(runs: Sequence[Run], most: int) -> list[np.ndarray]:
    """Return for each run which of its reviews equal an earlier one in the input, bool [reviews].

    most: about how many reviews to compare at a time; each takes 56 bytes of memory.
    """
    repeats = [np.zeros(run.report["reviews"], bool) for run in runs]
    partitions = 1 + sum(map(len, repeats)) // most  # equal digests share a partition
    for partition in range(partitions):
        columns = []
        for number, run in enumerate(runs):
            entries = run.entries()
            digests = entries["digest"]
            places = np.flatnonzero(digests[:, 0] % np.uint64(partitions) == partition)
            ids, runs_of = entries["id"][places], np.full(len(places), number)
            columns.append((digests[places, 0], digests[places, 1], ids, runs_of, places))
        if not columns:
            break
        high, low, ids, runs_of, places = map(np.concatenate, zip(*columns, strict=True))
        order = np.lexsort((ids, low, high))
        before, after = order[:-1], order[1:]
        repeated = after[(high[before] == high[after]) & (low[before] == low[after])]
        for number in np.unique(runs_of[repeated]).tolist():
            repeats[number][places[repeated[runs_of[repeated] == number]]] = True
    return repeats


def merge(
    runs: Sequence[Run],
    folder: Path,
    counts: Sequence[int],
    *,
    shuffled: bool,
    repeats: Sequence[np.ndarray] | None = None,
) -> dict[str, Any]:
    """Write the splits, of `counts` reviews each, from the runs in the order of the keys.

    shuffled: whether keys are uniform; else they rise from run to run. repeats: reviews to leave
    out.
    """
    total = sum(run.report["bytes"] for run in runs)
    with ExitStack() as stack:
        writers = [
            stack.enter_context(SplitWriter(folder, name, count))
            for name, count in zip(SPLITS, counts, strict=True)
        ]
        progress = stack.enter_context(ProgressBar("sorting", total, unit="B"))
        writing = stack.enter_context(ThreadPoolExecutor(1))  # while the next stretch is sorted
        written: Future[int] | None = None
        for reviews in stretches(runs, shuffled, repeats, _SORTED_BYTES):
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
