"""A tokenizer's file: `tokenizer.model`, next to the JSON file that names its digest."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..text.tokenizer import BYTES, SUBWORD_KINDS, TOKENIZER_FILE, Tokenizer
from .writer import write_content


def save_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    """Write a vocabulary into a folder, whole or not at all; nothing for bytes, which have none."""
    if tokenizer.content:
        write_content(folder / TOKENIZER_FILE, tokenizer.content, "part of a folder")


def load_tokenizer(folder: Path, description: Mapping[str, Any], path: Path) -> Tokenizer:
    """Return the tokenizer that `path`, JSON in `folder`, describes, else raise InputError."""
    kind = description.get("tokenizer")
    if kind == BYTES.kind:
        return BYTES
    if kind not in SUBWORD_KINDS:
        raise InputError(f"{path}: tokenizer {kind!r} is unknown")
    vocabulary = folder / TOKENIZER_FILE
    if not vocabulary.is_file():
        raise InputError(f"{vocabulary}: no such file, but {path.name} needs it; get it again")
    content = vocabulary.read_bytes()
    if hashlib.sha256(content).hexdigest() != description.get("tokenizer_sha256"):
        raise InputError(f"{vocabulary}: does not match the digest in {path.name}; get it again")
    from ..text.subwords import SubwordTokenizer

    try:
        return SubwordTokenizer(str(kind), content)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error


def check_same_tokenizer(
    place: str | Path, tokenizer: Tokenizer, expected: Tokenizer, whose: str
) -> None:
    """Raise InputError if the model or corpus at `place` has another tokenizer than `expected`."""
    if tokenizer.fingerprint != expected.fingerprint:
        is_bytes = expected.kind == BYTES.kind
        raise InputError(
            f"{place}: its tokenizer is {tokenizer.fingerprint}, but {whose} is "
            f"{expected.fingerprint}; prepare the corpus with --tokenizer "
            f"{'bytes' if is_bytes else 'FOLDER, the folder of the model'}"
        )
