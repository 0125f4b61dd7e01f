"""A corpus on disk: per split one file of bytes and one of review offsets, and `meta.json`."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from model.errors import InputError
from model.storage import check_format_version, read_json
from model.text import TextProfile

FORMAT_VERSION = 1
META_FILE = "meta.json"
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Split:
    """The bytes of many reviews, end to end."""

    tokens: np.ndarray  # uint8 [n]
    offsets: np.ndarray  # int64 [reviews + 1], the first byte of each review, then n

    @property
    def reviews(self) -> int:
        """The number of reviews."""
        return len(self.offsets) - 1


@dataclass(frozen=True)
class Corpus:
    """Train, valid and test, and what they were made from."""

    splits: dict[str, Split]
    meta: dict[str, Any]

    @property
    def text_profile(self) -> str:
        """The name of the profile that made the bytes."""
        return str(self.meta["text_profile"])

    @property
    def fingerprint(self) -> str:
        """What tells this corpus from any other: the digests of its splits."""
        return " ".join(str(self.meta["splits"][name]["sha256"])[:16] for name in SPLITS)


def open_corpus(folder: Path) -> Corpus:
    """Map a prepared corpus into memory.

    Raises InputError where a part is missing or has another size than when it was prepared.
    """
    path = folder / META_FILE
    if not path.is_file():
        raise InputError(
            f"{folder}: not a prepared corpus (no {META_FILE}); make one with "
            "scripts/prepare_corpus.py"
        )
    meta = read_json(path)
    check_format_version(meta, FORMAT_VERSION, path)
    if not isinstance(meta.get("text_profile"), str):
        raise InputError(f"{path}: has no text_profile; prepare the corpus again")
    splits = {}
    for name in SPLITS:
        size = _described(meta, name, path)
        splits[name] = Split(
            _map_file(folder / bytes_file(name), np.uint8, size["bytes"]),
            _map_file(folder / offsets_file(name), np.int64, size["reviews"] + 1),
        )
    return Corpus(splits, meta)


def encode_split(texts: Iterable[str], profile: TextProfile) -> Split:
    """Encode texts end to end, in memory."""
    encoded = [profile.encode(text) for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return Split(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)


def bytes_file(split: str) -> str:
    """Return the name of a split's bytes."""
    return f"{split}.bin"


def offsets_file(split: str) -> str:
    """Return the name of a split's offsets: little-endian int64."""
    return f"{split}.offsets"


def _described(meta: dict[str, Any], split: str, path: Path) -> dict[str, Any]:
    try:
        size: dict[str, Any] = meta["splits"][split]
        if all(isinstance(size[key], int) for key in ("bytes", "reviews")) and "sha256" in size:
            return size
    except (KeyError, TypeError):
        pass
    raise InputError(f"{path}: does not describe the split {split!r}; prepare the corpus again")


def _map_file(path: Path, dtype: type[np.generic], count: int) -> np.ndarray:
    expected = count * np.dtype(dtype).itemsize
    found = path.stat().st_size if path.is_file() else -1
    if found != expected:
        state = "is missing" if found < 0 else f"has {found:,} bytes"
        raise InputError(
            f"{path}: {state}, {expected:,} bytes were prepared; prepare the corpus again"
        )
    if count == 0:
        return np.empty(0, dtype)
    return np.memmap(path, dtype=np.dtype(dtype).newbyteorder("<"), mode="r")
