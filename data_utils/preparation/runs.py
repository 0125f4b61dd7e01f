"""Blocks encoded by several processes; each is written as a run, sorted by key.

A run has three files: the reviews end to end; an index with each review's key, place in the input,
end and, if asked for, digest; and a report. The report is written last, so a run without one was
not finished. A later call reuses the runs that were made of the same input in the same way.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import flush_folder, read_json
from mlstm_sentiment.files.writer import open_work, remove_work, write_json
from mlstm_sentiment.reading.inputs import Input
from mlstm_sentiment.reading.progress import ProgressBar
from mlstm_sentiment.reading.texts import ReadingReport

from .blocks import Block, Request, Reviews, cut, read_block, row_ids
from .processes import map_in_order

_INDEX = np.dtype([("key", "<u8"), ("id", "<u8"), ("end", "<u8"), ("digest", "<u8", 2)])
REPORT, DATA, ENTRIES = ".json", ".bin", ".index"


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
    stored = sum(source.stored_bytes or 0 for source in inputs)
    with ProgressBar("reading", unit=" blocks") as progress:
        work = partial(_encode_block, folder=folder, request=request, seed=seed)
        for done in map_in_order(work, blocks, workers if stored > 0 else 1):
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


def total_report(runs: Sequence[Run]) -> ReadingReport:
    return sum((ReadingReport(**run.report["reading"]) for run in runs), ReadingReport())


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
