"""Reviews to a shuffled, split corpus, in bounded memory.

Every review gets a 128-bit key, a seeded hash of its index. The corpus is the reviews sorted by
key, cut into train, valid and test. Pass one appends each review to the bucket that its key's
first bits name; pass two sorts one bucket at a time in memory. The number of buckets changes how
much memory that takes, and nothing in what comes out.
"""

import hashlib
import logging
import math
import shutil
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from tqdm import tqdm

from model.errors import InputError
from model.storage import write_json
from model.text import TextProfile, text_profile

from .corpus import FORMAT_VERSION, META_FILE, SPLITS, bytes_file, offsets_file
from .records import ReadingReport, read_texts

KEY_BYTES = 16
HEADER = struct.Struct(f"<{KEY_BYTES}sQ")  # key, length of the review in bytes
BUCKET_BYTES = 64 << 20  # aimed at; sorting a bucket takes a few times as much memory
MAX_BUCKETS = 512  # open files
COMPRESSION_RATIO = 4  # of review text under gzip, for the guess at the number of buckets

log = logging.getLogger(__name__)


def prepare_corpus(
    inputs: Sequence[Path],
    output: Path,
    *,
    text_key: str | None = None,
    split: Sequence[float] = (1000, 1, 1),
    seed: int = 0,
    profile: str = "openai",
    strict: bool = False,
) -> dict[str, Any]:
    """Write the corpus folder `output` and return its `meta.json`.

    Nothing that looks finished exists before the end: the work happens in `output` + ".partial".
    Raises InputError for inputs that cannot be read, and where `output` exists.
    """
    _check_request(inputs, output, split, seed)
    partial = output.with_name(output.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    report = ReadingReport()
    try:
        partial.mkdir(parents=True)
        reviews = _encode(read_texts(inputs, text_key, report, strict=strict), profile)
        buckets, count = _scatter(reviews, partial, _bucket_count(inputs), seed)
        log.info(report.summary())
        counts = split_counts(count, split)
        sizes = _gather(buckets, partial, counts)
        meta = _describe(inputs, report, sizes, split, seed, profile)
        write_json(partial / META_FILE, meta)
        partial.rename(output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return meta


def _check_request(inputs: Sequence[Path], output: Path, split: Sequence[float], seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise InputError(f"--seed {seed}: it must be between 0 and 2^63")
    for path in inputs:
        if not path.exists():
            raise InputError(f"{path}: no such file")
    if output.exists():
        raise InputError(f"{output}: exists already; remove it or name another folder")
    finite = all(math.isfinite(part) for part in split)
    if len(split) != len(SPLITS) or not finite or min(split) < 0 or split[0] <= 0:
        raise InputError(
            f"--split {','.join(f'{part:g}' for part in split)}: expected three parts for train, "
            "valid and test, none negative, the first above zero, as in 1000,1,1"
        )


def _encode(texts: Iterable[str], profile: str) -> Iterator[bytes]:
    encoder: TextProfile = text_profile(profile)
    return (encoder.encode(text) for text in texts)


def _bucket_count(inputs: Sequence[Path]) -> int:
    size = sum(
        path.stat().st_size * (COMPRESSION_RATIO if path.suffix in (".gz", ".xz") else 1)
        for path in inputs
    )
    return min(1 + size // BUCKET_BYTES, MAX_BUCKETS)


def _scatter(
    reviews: Iterable[bytes], folder: Path, buckets: int, seed: int
) -> tuple[list[Path], int]:
    """Append every review to its bucket's file; return the files in key order and the count."""
    paths = [folder / f"bucket-{index:03d}" for index in range(buckets)]
    seed_bytes = struct.pack("<q", seed)
    count = 0
    with ExitStack() as stack:
        files = [stack.enter_context(open(path, "wb")) for path in paths]
        # disable=None: a bar on a terminal, nothing in a log
        for review in tqdm(reviews, desc="reading", unit=" reviews", disable=None):
            key = hashlib.blake2b(struct.pack("<Q", count), digest_size=KEY_BYTES, key=seed_bytes)
            digest = key.digest()
            bucket = int.from_bytes(digest[:8], "big") * buckets >> 64
            files[bucket].write(HEADER.pack(digest, len(review)) + review)
            count += 1
    return paths, count


def _gather(buckets: Sequence[Path], folder: Path, counts: Sequence[int]) -> dict[str, Any]:
    """Write the splits from the buckets in order; remove each bucket once it is used."""
    reviews = _shuffled(buckets)
    return {
        name: _write_split(folder, name, reviews, count)
        for name, count in zip(SPLITS, counts, strict=True)
    }


def _shuffled(buckets: Sequence[Path]) -> Iterator[bytes]:
    for path in tqdm(buckets, desc="shuffling", unit=" buckets", disable=None):
        with open(path, "rb") as file:
            entries = sorted(_entries(file))
        path.unlink()
        for _, review in entries:
            yield review


def _entries(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    while header := file.read(HEADER.size):
        key, length = HEADER.unpack(header)
        yield key, file.read(length)


def _write_split(folder: Path, name: str, reviews: Iterator[bytes], count: int) -> dict[str, Any]:
    digest, position = hashlib.sha256(), 0
    with (
        open(folder / bytes_file(name), "wb") as content,
        open(folder / offsets_file(name), "wb") as offsets,
    ):
        offsets.write(struct.pack("<q", 0))
        for _ in range(count):
            review = next(reviews)
            content.write(review)
            digest.update(review)
            position += len(review)
            offsets.write(struct.pack("<q", position))
    return {"reviews": count, "bytes": position, "sha256": digest.hexdigest()}


def split_counts(reviews: int, parts: Sequence[float]) -> list[int]:
    """Share reviews out in proportion, at least one for every part that is not zero."""
    wanted = sum(part > 0 for part in parts)
    if reviews < wanted:
        raise InputError(
            f"{reviews} reviews cannot fill {wanted} splits; give more reviews, or a --split "
            "with zeros, as in 1,0,0"
        )
    edges = np.rint(np.cumsum(parts) / np.sum(parts) * reviews).astype(int)
    counts = np.diff(edges, prepend=0).tolist()
    for index, part in enumerate(parts):
        if part > 0 and counts[index] == 0:
            counts[index] += 1
            counts[int(np.argmax(counts))] -= 1
    return counts


def _describe(
    inputs: Sequence[Path],
    report: ReadingReport,
    sizes: dict[str, Any],
    split: Sequence[float],
    seed: int,
    profile: str,
) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "tokenizer": "bytes",
        "text_profile": profile,
        "seed": seed,
        "split": list(split),
        "splits": sizes,
        "sources": [path.name for path in inputs],
        "reading": vars(report),
    }
