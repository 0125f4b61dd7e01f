"""Statistics of a corpus: counts, lengths, bytes, stars, duplicates.

Everything except the digests takes the same memory for any size of corpus: blocks of BLOCK_BYTES,
or the longest review. A digest takes 8 bytes per review, about 10 megabytes per million reviews
while duplicates are counted.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from model.errors import InputError
from model.reading.progress import ProgressBar
from model.reading.records import Record
from model.reading.texts import ReadingReport, read_reviews
from model.text.profiles import text_profile
from model.text.split import Split, encode_split
from model.text.tokenizer import BYTES

from ..corpus import SPLITS, offsets_file, open_corpus, tokens_file

BLOCK_BYTES = 4 << 20
BLOCK_REVIEWS = 1 << 16
STARS_KEYS = ("overall", "rating")
NO_STARS = "none"
DIGEST_BYTES = 8  # two of 100 million texts have the same one with a chance of 1 in 3,700
# Lower edges in bytes, two to a doubling: 0, 1, 2, 3, 4, 6, 8, 11, 16, ... and no upper end.
LENGTH_EDGES = np.unique(np.rint([0, *(2 ** (step / 2) for step in range(64))]).astype(np.int64))
EXACT_LENGTHS = 1 << 16  # quantiles are exact below this many bytes
QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99}


class Duplicates:
    """Counts texts that occurred before, by digests of DIGEST_BYTES."""

    def __init__(self) -> None:
        self._digests = array("Q")
        self._part_start = 0

    def add(self, block: Split) -> None:
        """Add the reviews of a block."""
        content = block.tokens.tobytes()
        self._digests.frombytes(
            b"".join(
                hashlib.blake2b(content[start:end], digest_size=DIGEST_BYTES).digest()
                for start, end in pairwise(block.offsets.tolist())
            )
        )

    def end_part(self) -> int:
        """Return the duplicates within the reviews added since the last call."""
        count = self._count(self._part_start)
        self._part_start = len(self._digests)
        return count

    def count(self) -> int:
        """Return the duplicates within all reviews, also across parts."""
        return self._count(0)

    def _count(self, start: int) -> int:
        values = np.frombuffer(self._digests, dtype=np.uint64)[start:]
        values.sort()  # in place: no second copy
        return int(np.count_nonzero(values[1:] == values[:-1]))


class Tally:
    """Counts over the reviews of one part; the counts of parts can be added."""

    def __init__(self, block_bytes: int = BLOCK_BYTES) -> None:
        self._block_bytes = block_bytes  # bincount takes 8 times as much memory
        self.bytes = np.zeros(256, dtype=np.int64)
        self.lengths = np.zeros(EXACT_LENGTHS + 1, dtype=np.int64)  # the last one: any longer
        self.histogram = np.zeros(len(LENGTH_EDGES), dtype=np.int64)
        self.longest = 0
        self.reviews_outside_ascii = 0
        self.stars: Counter[str] = Counter()

    def add(self, block: Split) -> None:
        """Count a block of whole reviews."""
        lengths = np.diff(block.offsets)
        if not len(lengths):
            return
        self.longest = max(self.longest, int(lengths.max()))
        self.lengths += np.bincount(np.minimum(lengths, EXACT_LENGTHS), minlength=len(self.lengths))
        bins = np.searchsorted(LENGTH_EDGES, lengths, side="right") - 1
        self.histogram += np.bincount(bins, minlength=len(self.histogram))
        for start in range(0, len(block.tokens), self._block_bytes):
            part = block.tokens[start : start + self._block_bytes]
            self.bytes += np.bincount(part, minlength=256)
        outside = np.flatnonzero(block.tokens >= 128)
        owners = np.searchsorted(block.offsets, outside, side="right")
        self.reviews_outside_ascii += len(np.unique(owners))

    def merge(self, other: "Tally") -> None:
        """Add another part's counts."""
        self.bytes += other.bytes
        self.lengths += other.lengths
        self.histogram += other.histogram
        self.longest = max(self.longest, other.longest)
        self.reviews_outside_ascii += other.reviews_outside_ascii
        self.stars += other.stars

    def quantile(self, fraction: float) -> int:
        """Return the shortest length that `fraction` of the reviews do not exceed, in bytes.

        Lengths beyond EXACT_LENGTHS are counted together; the quantile is then EXACT_LENGTHS.
        """
        return int(np.searchsorted(np.cumsum(self.lengths), fraction * self.lengths.sum()))

    def describe(self, duplicates: int) -> dict[str, Any]:
        """Return everything in the form of JSON; lengths in bytes."""
        reviews, size = int(self.lengths.sum()), int(self.bytes.sum())
        outside = int(self.bytes[128:].sum())
        used = np.flatnonzero(self.histogram)
        last = int(used[-1]) + 1 if len(used) else 0
        return {
            "reviews": reviews,
            "bytes": size,
            "mean_length": size / reviews if reviews else None,
            **{name: self.quantile(fraction) for name, fraction in QUANTILES.items() if reviews},
            "longest": self.longest,
            "bytes_outside_ascii": outside,
            "share_outside_ascii": outside / size if size else None,
            "reviews_outside_ascii": self.reviews_outside_ascii,
            "duplicates": duplicates,
            "stars": dict(sorted(self.stars.items())) if set(self.stars) - {NO_STARS} else {},
            "length_histogram": {
                "lower_edges": LENGTH_EDGES[:last].tolist(),
                "reviews": self.histogram[:last].tolist(),
            },
            "byte_counts": self.bytes.tolist(),
        }


def describe_corpus(
    folder: Path, *, block_bytes: int = BLOCK_BYTES, block_reviews: int = BLOCK_REVIEWS
) -> dict[str, Any]:
    """Describe the splits of a prepared corpus; lengths include the frame of its text profile.

    block_bytes and block_reviews bound what is in memory at a time.
    Raises InputError if a part is missing or damaged.
    """
    corpus = open_corpus(folder)
    tallies, duplicates, within = {}, Duplicates(), {}
    for name in SPLITS:
        tallies[name] = Tally(block_bytes)
        for block in _read_split(folder, name, corpus.splits[name], block_bytes, block_reviews):
            tallies[name].add(block)
            duplicates.add(block)
        within[name] = duplicates.end_part()
    return {"text_profile": corpus.text_profile, **_describe(tallies, duplicates, within)}


def _read_split(
    folder: Path, name: str, split: Split, block_bytes: int, block_reviews: int
) -> Iterator[Split]:
    """Yield a split in blocks, read from the files: mapped pages would count as memory in use."""
    position = 0
    with ProgressBar(name, split.reviews, unit=" reviews") as progress:
        while position < split.reviews:
            count = min(block_reviews, split.reviews - position) + 1
            path = folder / offsets_file(name)
            offsets = np.fromfile(path, "<i8", count, offset=8 * position)
            ending = int(np.searchsorted(offsets, offsets[0] + block_bytes, side="right")) - 1
            offsets = offsets[: max(ending, 1) + 1]
            first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
            dtype = split.tokens.dtype
            place = first * dtype.itemsize
            tokens = np.fromfile(folder / tokens_file(name), dtype, size, offset=place)
            yield _as_text(Split(tokens, offsets - first, split.tokenizer))
            position += len(offsets) - 1
            progress.advance(len(offsets) - 1)


def _as_text(block: Split) -> Split:
    """Return a block of tokens as the bytes that they represent."""
    if block.tokenizer.kind == BYTES.kind:
        return block
    if len(block.tokens) and block.tokens.max() >= block.tokenizer.vocabulary_size:
        raise InputError("the corpus has a token that its vocabulary lacks; prepare it again")
    ends = np.zeros(len(block.tokens) + 1, np.int64)
    np.cumsum(block.tokenizer.byte_lengths(block.tokens), out=ends[1:])
    text = np.frombuffer(block.tokenizer.decode(block.tokens), np.uint8)
    return Split(text, ends[block.offsets])


def describe_reviews(
    paths: Sequence[Path],
    *,
    text_key: str | None = None,
    stars_key: str | None = None,
    strict: bool = False,
) -> dict[str, Any]:
    """Describe files of reviews, as texts in UTF-8 without a frame.

    Raises InputError for what `read_records` cannot read.
    """
    report = ReadingReport()
    tallies, duplicates, within = {}, Duplicates(), {}
    for name, path in zip(_names(paths), paths, strict=True):
        tally = tallies[name] = Tally()
        reviews = read_reviews(path, text_key, report, strict=strict)
        with ProgressBar(path.name, unit=" reviews") as progress:
            for block in _blocks(reviews, tally.stars, stars_key):
                tally.add(block)
                duplicates.add(block)
                progress.advance(block.reviews)
        if stars_key is not None and set(tally.stars) == {NO_STARS}:
            raise InputError(f"{path}: no record has the key {stars_key!r} (--stars-key)")
        within[name] = duplicates.end_part()
    return {"reading": vars(report), **_describe(tallies, duplicates, within)}


def _names(paths: Sequence[Path]) -> list[str]:
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else [path.as_posix() for path in paths]


def _blocks(
    reviews: Iterator[tuple[str, Record]], stars: Counter[str], stars_key: str | None
) -> Iterator[Split]:
    profile = text_profile("raw")
    key, texts, characters = stars_key, [], 0
    for text, record in reviews:
        key = key or next((name for name in STARS_KEYS if name in record), None)
        stars[_stars(record.get(key) if key else None)] += 1
        texts.append(text)
        characters += len(text)
        if characters >= BLOCK_BYTES or len(texts) >= BLOCK_REVIEWS:
            yield encode_split(texts, profile)
            texts, characters = [], 0
    yield encode_split(texts, profile)


def _stars(value: object) -> str:
    """Name a rating: whole and half stars up to 10 by their number, everything else `other`."""
    if value is None or value == "":
        return NO_STARS
    try:
        number = float(str(value))
    except ValueError:
        return "other"
    return f"{number:g}" if 0 <= number <= 10 and (2 * number).is_integer() else "other"


def _describe(
    tallies: dict[str, Tally], duplicates: Duplicates, within: dict[str, int]
) -> dict[str, Any]:
    total = Tally()
    for tally in tallies.values():
        total.merge(tally)
    parts = {name: tally.describe(within[name]) for name, tally in tallies.items()}
    return {"parts": parts, "all": total.describe(duplicates.count())}
