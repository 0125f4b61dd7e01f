"""Encoded blocks on disk, each sorted by the keys that order the corpus.

A run has three files: the reviews end to end; an index with each review's key, length, place in the
input and, if asked for, digest; and the block's report. The report is written last, so a run
without one was not finished.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from model.files.storage import flush_to_disk, read_json, write_json
from model.reading.texts import ReadingReport

from .blocks import Reviews

INDEX = np.dtype([("key", "<u8"), ("id", "<u8"), ("length", "<u4")])
DIGESTS = np.dtype([("high", "<u8"), ("low", "<u8")])
REPORT, DATA, ENTRIES, DIGEST, DROPPED = ".json", ".bin", ".index", ".digests", ".dropped"


@dataclass(frozen=True)
class SortedRun:
    """The files of one block's reviews."""

    base: Path
    input_number: int  # number of its input

    def path(self, suffix: str) -> Path:
        """Return the path of one of the files."""
        return self.base.with_name(self.base.name + suffix)

    def is_finished(self, digests: bool) -> bool:
        """Return whether all of it was written and exists; digests: including these."""
        if not self.path(REPORT).is_file():
            return False
        report = self.report()
        if "found_keys" not in report:  # an earlier version wrote it
            return False
        sizes = {DATA: report["bytes"], ENTRIES: report["reviews"] * INDEX.itemsize}
        if digests:
            sizes[DIGEST] = report["reviews"] * DIGESTS.itemsize
        return all(
            self.path(suffix).is_file() and self.path(suffix).stat().st_size == size
            for suffix, size in sizes.items()
        )

    def report(self) -> dict[str, Any]:
        """Return the block's report."""
        return read_json(self.path(REPORT))

    def entries(self) -> np.ndarray:
        """Return the index, INDEX [reviews] in the order of the keys."""
        return _mapped(self.path(ENTRIES), INDEX)

    def digests(self) -> np.ndarray:
        """Return the digests, DIGESTS [reviews]."""
        return _mapped(self.path(DIGEST), DIGESTS)

    def distinct(self) -> np.ndarray | None:
        """Return which reviews are no duplicates, bool [reviews]; None if there are none."""
        path = self.path(DROPPED)
        return ~_mapped(path, np.dtype(bool)) if path.is_file() else None


def _mapped(path: Path, dtype: np.dtype) -> np.ndarray:
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


def holds_reviews(folder: Path) -> bool:
    """Return whether any block in the folder has a review."""
    return any(read_json(report)["reviews"] for report in folder.glob(f"block-*{REPORT}"))


def write_run(
    run: SortedRun, reviews: Reviews, ids: np.ndarray, keys: np.ndarray, digests: bool
) -> None:
    """Write reviews with their places and keys, uint64 [n] each, in the order of the keys."""
    order = np.argsort(keys, kind="stable")
    encoded = [reviews.encoded[i] for i in order.tolist()]
    index = np.empty(len(order), INDEX)
    index["key"], index["id"] = keys[order], ids[order]
    index["length"] = np.fromiter(map(len, encoded), np.uint32, len(encoded))
    contents = {DATA: b"".join(encoded), ENTRIES: index.tobytes()}
    if digests:
        contents[DIGEST] = digests_of(encoded).tobytes()
    for suffix, content in contents.items():
        run.path(suffix).write_bytes(content)
        flush_to_disk(run.path(suffix))  # before the report that says that it exists
    report = {
        "reading": vars(reviews.report),
        "found_keys": reviews.found_keys,
        "keys": reviews.keys,
        "table": None if reviews.table is None else asdict(reviews.table),
        "reviews": len(encoded),
        "bytes": int(index["length"].sum(dtype=np.int64)),
    }
    write_json(run.path(REPORT), report, sweep=False)


def digests_of(encoded: Sequence[bytes]) -> np.ndarray:
    """Return 128 bits that identify each review, DIGESTS [n]."""
    joined = b"".join(hashlib.blake2b(review, digest_size=16).digest() for review in encoded)
    return np.frombuffer(joined, DIGESTS)


def total_report(runs: Sequence[SortedRun]) -> ReadingReport:
    """Return the sum of the reports of all blocks."""
    total = ReadingReport()
    for run in runs:
        total += ReadingReport(**run.report()["reading"])
    return total


def mark_duplicates(runs: Sequence[SortedRun], partitions: int) -> int:
    """Of equal reviews, mark all but the first in the order of the input; return how many.

    Digests are divided into `partitions`, equal ones into the same one. One partition is in
    memory at a time, 24 bytes for each of its reviews.
    """
    dropped = [np.zeros(len(run.entries()), bool) for run in runs]
    count = 0
    for partition in range(partitions):
        parts = [
            _of_partition(run, number, partition, partitions) for number, run in enumerate(runs)
        ]
        rows = np.concatenate(parts)
        rows = rows[np.lexsort((rows["id"], rows["low"], rows["high"]))]
        same = (rows["high"][1:] == rows["high"][:-1]) & (rows["low"][1:] == rows["low"][:-1])
        for row in rows[1:][same]:
            dropped[row["run"]][row["place"]] = True
        count += int(same.sum())
    for run, marks in zip(runs, dropped, strict=True):
        run.path(DROPPED).write_bytes(marks.tobytes())
    return count


_ROW = np.dtype([("high", "<u8"), ("low", "<u8"), ("id", "<u8"), ("run", "<u4"), ("place", "<u4")])


def _of_partition(run: SortedRun, number: int, partition: int, partitions: int) -> np.ndarray:
    digests, entries = run.digests(), run.entries()
    places = np.flatnonzero(digests["high"] % np.uint64(partitions) == partition)
    rows = np.empty(len(places), _ROW)
    rows["high"], rows["low"] = digests["high"][places], digests["low"][places]
    rows["id"], rows["place"], rows["run"] = entries["id"][places], places, number
    return rows
