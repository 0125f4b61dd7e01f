"""A corpus held against its description, byte by byte."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from model.errors import InputError
from model.text import text_profile

from .corpus import META_FILE, SPLITS, Split, bytes_file, offsets_file, open_corpus

PIECE = 1 << 24  # bytes, and offsets, in memory at a time


def check_corpus(folder: Path) -> dict[str, Any]:
    """Return what meta.json says of the splits, once every byte has been held against it.

    Raises InputError where a file is missing or cut short, a checksum differs, the offsets do not
    rise from zero to the end, or a review does not begin as its text profile has it.
    """
    corpus = open_corpus(folder)
    prefix = text_profile(corpus.text_profile).prefix.encode()
    for name in SPLITS:
        size = corpus.meta["splits"][name]
        _check_digest(folder / bytes_file(name), size["sha256"])
        if "offsets_sha256" in size:  # corpora of the first release have none
            _check_digest(folder / offsets_file(name), size["offsets_sha256"])
        _check_offsets(corpus.splits[name], prefix, folder / offsets_file(name))
    sizes: dict[str, Any] = corpus.meta["splits"]
    return sizes


def _check_digest(path: Path, expected: str) -> None:
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise InputError(
            f"{path}: has changed since it was prepared (SHA-256 {found[:16]}..., {META_FILE} says "
            f"{expected[:16]}...); prepare the corpus again"
        )


def _check_offsets(split: Split, prefix: bytes, path: Path) -> None:
    offsets = split.offsets
    if not (offsets[0] == 0 and offsets[-1] == len(split.tokens)):
        raise InputError(f"{path}: does not run from zero to the end; prepare the corpus again")
    wanted = np.frombuffer(prefix, np.uint8)
    for start in range(0, split.reviews, PIECE):
        piece = np.asarray(offsets[start : start + PIECE + 1])
        if (np.diff(piece) < len(prefix)).any():
            raise InputError(f"{path}: does not rise by whole reviews; prepare the corpus again")
        begins = split.tokens[piece[:-1, None] + np.arange(len(prefix))]
        if (begins != wanted).any():
            raise InputError(f"{path}: a review does not begin where it says; prepare it again")
