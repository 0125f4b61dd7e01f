"""A corpus checked against its description, byte by byte."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from model.errors import InputError
from model.text.profiles import text_profile
from model.text.split import Split

from ..corpus import META_FILE, PIECE_SIZE, SPLITS, offsets_file, open_corpus, tokens_file


def check_corpus(folder: Path, piece_size: int = PIECE_SIZE) -> dict[str, Any]:
    """Check every byte of the splits against meta.json; return its entries for them.

    piece_size: tokens, and offsets, that are in memory at a time.
    Raises InputError if a file is missing or cut short, if a checksum differs, if the offsets do
    not rise from zero to the end, or if a review does not begin as in its text profile.
    """
    corpus = open_corpus(folder)  # which checks the vocabulary against its digest
    prefix = text_profile(corpus.text_profile).prefix.encode()
    for name in SPLITS:
        split, size = corpus.splits[name], corpus.meta["splits"][name]
        _check_digest(folder / tokens_file(name), size["sha256"])
        if "offsets_sha256" in size:  # corpora of the first release have none
            _check_digest(folder / offsets_file(name), size["offsets_sha256"])
        _check_offsets(split, prefix, folder / offsets_file(name), piece_size)
        _check_tokens(split, size["bytes"], folder / tokens_file(name), piece_size)
    sizes: dict[str, Any] = corpus.meta["splits"]
    return sizes


def _check_digest(path: Path, expected: str) -> None:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != expected:
        raise InputError(
            f"{path}: has changed since it was prepared (SHA-256 {digest[:16]}..., {META_FILE} "
            f"says {expected[:16]}...); prepare the corpus again"
        )


def _check_offsets(split: Split, prefix: bytes, path: Path, piece_size: int) -> None:
    offsets = split.offsets
    last = max(len(split.tokens) - 1, 0)
    for start in range(0, split.reviews, piece_size):
        piece = np.asarray(offsets[start : start + piece_size + 1])
        if (np.diff(piece) < min(len(prefix), 1)).any():
            raise InputError(f"{path}: does not rise by whole reviews; prepare the corpus again")
        # The prefix takes at most as many tokens as it has bytes.
        begins = split.tokens[np.minimum(piece[:-1, None] + np.arange(len(prefix)), last)]
        different = np.unique(begins, axis=0) if len(prefix) else begins[:0]
        if not all(split.tokenizer.decode(row).startswith(prefix) for row in different):
            raise InputError(f"{path}: a review does not begin at its offset; prepare it again")


def _check_tokens(split: Split, text_bytes: int, path: Path, piece_size: int) -> None:
    """Check the tokens against the vocabulary, and their text against the number of bytes."""
    byte_count = 0
    for start in range(0, len(split.tokens), piece_size):
        piece = np.asarray(split.tokens[start : start + piece_size])
        if piece.max() >= split.tokenizer.vocabulary_size:
            raise InputError(f"{path}: a token that the vocabulary lacks; prepare it again")
        byte_count += split.tokenizer.count_bytes(piece)
    if byte_count != text_bytes:
        raise InputError(
            f"{path}: says {byte_count:,} bytes of text, {META_FILE} {text_bytes:,}; prepare it "
            "again"
        )
