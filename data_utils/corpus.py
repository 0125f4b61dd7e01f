"""A corpus on disk: `meta.json` and, for each split, a file of tokens and one of offsets.

Tokens are bytes, or those of the vocabulary in the same folder."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from model.bounds import NonNegativeInt, fill
from model.errors import InputError
from model.files.storage import check_format_version, read_json
from model.files.tokenizers import load_tokenizer
from model.text.profiles import text_profile
from model.text.split import Split
from model.text.tokenizer import BYTES, TOKENIZER_FILE, Tokenizer

BYTES_VERSION = 1
FORMAT_VERSION = 2  # 1: bytes; 2: the tokens of a vocabulary
META_FILE = "meta.json"
EMBEDDED = ["embedded"]  # the sources of the corpus that is part of the package
REQUEST_FILE = "request.json"  # in the folder of a corpus that is being prepared
PARTIAL = ".partial"  # suffix of that folder's name
SPLITS = ("train", "valid", "test")
CORPUS_FILES = (META_FILE, TOKENIZER_FILE, *(f"{name}.*" for name in SPLITS))
PIECE_SIZE = 1 << 22  # tokens, and offsets, that are checked at a time


@dataclass(frozen=True)
class SplitSize:
    """What `meta.json` says of a split."""

    OTHER_KEYS: ClassVar = True
    reviews: NonNegativeInt
    bytes: NonNegativeInt
    sha256: str
    tokens: NonNegativeInt | None = None  # of a vocabulary


@dataclass(frozen=True)
class SplitSizes:
    """What `meta.json` says of the splits."""

    OTHER_KEYS: ClassVar = True
    train: SplitSize
    valid: SplitSize
    test: SplitSize


@dataclass(frozen=True)
class CorpusDescription:
    """What `meta.json` must say; it may say more."""

    OTHER_KEYS: ClassVar = True
    text_profile: str
    sources: list[str]
    reading: dict[str, int]
    splits: SplitSizes

    def __post_init__(self) -> None:
        text_profile(self.text_profile)


@dataclass(frozen=True)
class Corpus:
    """The splits train, valid and test, with their description."""

    splits: dict[str, Split]
    meta: dict[str, Any]
    tokenizer: Tokenizer = BYTES

    @property
    def text_profile(self) -> str:
        """The name of the text profile that the corpus was prepared with."""
        return str(self.meta["text_profile"])

    @property
    def is_embedded(self) -> bool:
        """Whether it is the embedded one, of generated reviews."""
        return bool(self.meta["sources"] == EMBEDDED)

    @property
    def fingerprint(self) -> str:
        """Identifies the corpus: the digests of its splits and of its vocabulary."""
        digests = [self.meta["splits"][name]["sha256"] for name in SPLITS]
        digests += filter(None, [self.meta.get("tokenizer_sha256")])
        return " ".join(str(digest)[:16] for digest in digests)

    @property
    def characters_per_token(self) -> float:
        """Characters of the train split over its tokens: 1 of bytes, 0 of a split without text."""
        tokens = len(self.splits["train"].tokens)
        return float(self.meta["splits"]["train"]["bytes"] / max(tokens, 1))


def is_corpus(folder: Path) -> bool:
    """Return whether a folder holds a prepared corpus."""
    return (folder / META_FILE).is_file() and (folder / offsets_file(SPLITS[0])).is_file()


def is_unfinished_corpus(folder: Path) -> bool:
    """Return whether the preparation of a corpus in a folder is running or was cut short."""
    return folder.name.endswith(PARTIAL) and (folder / REQUEST_FILE).is_file()


def open_corpus(folder: Path) -> Corpus:
    """Map a prepared corpus into memory.

    Raises InputError if a file is missing, if its size has changed since the preparation, if the
    vocabulary has, or if the offsets do not rise from zero to the end.
    """
    path = folder / META_FILE
    if not path.is_file():
        raise InputError(
            f"{folder}: not a prepared corpus (no {META_FILE}); make one with "
            "scripts/prepare_corpus.py"
        )
    meta = read_json(path)
    check_format_version(meta, FORMAT_VERSION, path)
    try:
        sizes = fill(CorpusDescription, meta, path).splits
    except InputError as error:
        raise InputError(f"{error}; prepare the corpus again") from error
    tokenizer = load_tokenizer(folder, meta, path)
    splits = {}
    for name, size in vars(sizes).items():
        tokens = size.bytes if tokenizer.kind == BYTES.kind else size.tokens
        if tokens is None:
            raise InputError(f"{path}: splits.{name}.tokens is missing; prepare the corpus again")
        splits[name] = map_split(folder, name, size.reviews, tokens, tokenizer)
        _check_offsets(splits[name], folder / offsets_file(name))
    return Corpus(splits, meta, tokenizer)


def map_split(
    folder: Path, name: str, reviews: int, tokens: int, tokenizer: Tokenizer = BYTES
) -> Split:
    """Map one split into memory; InputError if a file has another size."""
    paths = folder / tokens_file(name), folder / offsets_file(name)
    arrays = (
        _map_file(paths[0], tokenizer.dtype, tokens),
        _map_file(paths[1], np.dtype(np.int64), reviews + 1),
    )
    mapped = [(path, path.stat()) for path in paths]
    return Split(*arrays, tokenizer, partial(_check_sizes, mapped))


def _check_sizes(mapped: Sequence[tuple[Path, os.stat_result]]) -> None:
    """Refuse files that have shrunk since they were mapped; see `Split.check`."""
    for path, then in mapped:
        try:
            now = path.stat()
        except OSError:
            continue  # removed: what was mapped stays readable, as that of a replaced file does
        if now.st_size < then.st_size and os.path.samestat(now, then):
            raise InputError(
                f"{path}: shrank from {then.st_size:,} to {now.st_size:,} bytes while it was read; "
                "restore it, then run again (a training continues with --resume)"
            )


def _check_offsets(split: Split, path: Path) -> None:
    """Refuse offsets by which reviews would overlap or end outside their file."""
    offsets, damaged = split.offsets, bool(split.offsets[0] != 0)
    for start in range(0, split.reviews, PIECE_SIZE):
        damaged |= bool((np.diff(offsets[start : start + PIECE_SIZE + 1]) < 0).any())
    if damaged or offsets[-1] != len(split.tokens):
        raise InputError(f"{path}: does not rise from zero to the end; prepare the corpus again")


def tokens_file(split: str) -> str:
    """Return the name of the file of a split's tokens."""
    return f"{split}.bin"


def offsets_file(split: str) -> str:
    """Return the name of the file of a split's offsets, little-endian int64."""
    return f"{split}.offsets"


def _map_file(path: Path, dtype: np.dtype, count: int) -> np.ndarray:
    expected = count * dtype.itemsize
    found = path.stat().st_size if path.is_file() else -1
    if found != expected:
        state = "is missing" if found < 0 else f"has {found:,} bytes"
        raise InputError(
            f"{path}: {state}, {expected:,} bytes were prepared; prepare the corpus again"
        )
    if count == 0:
        return np.empty(0, dtype)
    return np.memmap(path, dtype=dtype.newbyteorder("<"), mode="r")
