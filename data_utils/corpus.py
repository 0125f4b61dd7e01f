"""A corpus: on disk, or the embedded one, synthetic reviews in memory.

On disk it is `meta.json` and, for each split, a file of tokens and one of offsets. Tokens are
bytes, or those of the vocabulary in the same folder.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mlstm_sentiment.bounds import NonNegativeInt, fill
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import check_format_version, read_json
from mlstm_sentiment.files.tokenizers import load_tokenizer
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.split import Split, encode_split
from mlstm_sentiment.text.tokenizer import BYTES, TOKENIZER_FILE, Tokenizer

BYTES_VERSION = 1
FORMAT_VERSION = 2  # 1: bytes; 2: the tokens of a vocabulary
META_FILE = "meta.json"
EMBEDDED = ["embedded"]  # the sources of the corpus that is part of the package
BLOCK_FOLDER = "blocks"  # in the folder of a corpus that is being prepared
PARTIAL = ".partial"  # suffix of that folder's name
SPLITS = ("train", "valid", "test")
CORPUS_FILES = (META_FILE, TOKENIZER_FILE, *(f"{name}.*" for name in SPLITS))
PIECE_SIZE = 1 << 22  # tokens, and offsets, that are checked at a time
# Of the embedded corpus. The labelled sets for transfer use other seeds, so no review is in both.
REVIEWS = {"train": 16_000, "valid": 400, "test": 400}
SEEDS = {"train": 1, "valid": 2, "test": 3}
LABELLED_SEEDS = {"train": 11, "val": 12, "test": 13}
LABELLED_REVIEWS = {"train": 2_000, "val": 500, "test": 1_000}


@dataclass(frozen=True)
class _SplitSize:
    OTHER_KEYS: ClassVar = True
    reviews: NonNegativeInt
    bytes: NonNegativeInt
    sha256: str
    tokens: NonNegativeInt | None = None  # of a vocabulary


@dataclass(frozen=True)
class _SplitSizes:
    OTHER_KEYS: ClassVar = True
    train: _SplitSize
    valid: _SplitSize
    test: _SplitSize


@dataclass(frozen=True)
class _CorpusDescription:
    OTHER_KEYS: ClassVar = True
    text_profile: str
    sources: list[str]
    reading: dict[str, int]
    splits: _SplitSizes

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
    def train_characters(self) -> float:
        """Bytes of text in the train split: an epoch."""
        return len(self.splits["train"].tokens) * self.characters_per_token

    @property
    def characters_per_token(self) -> float:
        """Characters per token of the train split: 1 for bytes, 0 for a split without text."""
        tokens = len(self.splits["train"].tokens)
        return float(self.meta["splits"]["train"]["bytes"] / max(tokens, 1))


def is_corpus(folder: Path) -> bool:
    return (folder / META_FILE).is_file() and (folder / offsets_file(SPLITS[0])).is_file()


def is_unfinished_corpus(folder: Path) -> bool:
    """Return whether the preparation of a corpus in a folder is running or was cut short."""
    return folder.name.endswith(PARTIAL) and (folder / BLOCK_FOLDER).is_dir()


def open_corpus(folder: Path) -> Corpus:
    """Map a prepared corpus into memory; its tokens are read from disk when they are used.

        corpus = open_corpus(Path("data/reviews"))
        split = corpus.splits["train"]
        first = split.tokens[split.offsets[0] : split.offsets[1]]
        print(corpus.tokenizer.decode(first))

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
        sizes = fill(_CorpusDescription, meta, path).splits
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
    return Split(
        _map_file(folder / tokens_file(name), tokenizer.dtype, tokens),
        _map_file(folder / offsets_file(name), np.dtype(np.int64), reviews + 1),
        tokenizer,
    )


def _check_offsets(split: Split, path: Path) -> None:
    """Refuse offsets by which reviews would overlap or end outside their file."""
    offsets, damaged = split.offsets, bool(split.offsets[0] != 0)
    for start in range(0, split.reviews, PIECE_SIZE):
        damaged |= bool((np.diff(offsets[start : start + PIECE_SIZE + 1]) < 0).any())
    if damaged or offsets[-1] != len(split.tokens):
        raise InputError(
            f"{path}: the offsets do not rise from 0 to the end of the "
            "tokens; prepare the corpus again"
        )


def tokens_file(split: str) -> str:
    return f"{split}.bin"


def offsets_file(split: str) -> str:
    """Return the name of the file of a split's offsets, little-endian int64."""
    return f"{split}.offsets"


def _map_file(path: Path, dtype: np.dtype, count: int) -> np.ndarray:
    expected = count * dtype.itemsize
    size = path.stat().st_size if path.is_file() else -1
    if size != expected:
        state = "is missing" if size < 0 else f"has {size:,} bytes"
        raise InputError(f"{path}: {state} (expected {expected:,} bytes); prepare the corpus again")
    if count == 0:
        return np.empty(0, dtype)
    return np.memmap(path, dtype=dtype.newbyteorder("<"), mode="r")


def load_corpus(folder: Path | None) -> Corpus:
    """Open a prepared corpus; None is the embedded synthetic reviews."""
    return embedded_corpus() if folder is None else open_corpus(folder)


def embedded_corpus() -> Corpus:
    """Make the corpus that a run without `data.corpus` reads; its bytes are always the same."""
    from .synthetic import synthetic_reviews  # only for runs without a corpus

    reviews = {name: synthetic_reviews(REVIEWS[name], SEEDS[name]) for name in SPLITS}
    profile = text_profile("openai")
    splits = {name: encode_split((r.text for r in reviews[name]), profile) for name in SPLITS}
    sizes = {
        name: {
            "reviews": split.reviews,
            "bytes": len(split.tokens),
            "sha256": hashlib.sha256(split.tokens.tobytes()).hexdigest(),
        }
        for name, split in splits.items()
    }
    meta = {"format_version": BYTES_VERSION, "tokenizer": "bytes", "text_profile": "openai"}
    return Corpus(splits, {**meta, "splits": sizes, "sources": EMBEDDED})
