"""Encodes the text of a corpus with the tokens of a vocabulary: in parallel, resumable.

Each stretch of whole reviews is encoded into a part, and the parts are joined. Every review is
encoded by itself, so neither the stretches nor the number of processes changes the result.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from model.files.storage import read_json, write_atomically
from model.files.tokenizers import load_tokenizer
from model.reading.progress import ProgressBar
from model.text.split import Split
from model.text.tokenizer import Tokenizer

from ..corpus import SPLITS, map_split
from .merging import SplitWriter
from .processes import map_in_order

DESCRIPTION_FILE = "tokenizer.json"  # of the vocabulary in the folder of the parts
TOKENIZED_BYTES = 4 << 20  # of text, encoded at a time, in many times as much memory


class Stretch(NamedTuple):
    """Some reviews of a split of text."""

    split: str
    first: int
    last: int  # exclusive


def tokenize(
    text: Path,
    sizes: Mapping[str, Any],
    parts: Path,
    output: Path,
    workers: int,
    stretch_bytes: int = TOKENIZED_BYTES,
) -> dict[str, Any]:
    """Write the splits as tokens to `output`; return their entries for meta.json.

    text: a folder of splits in bytes; sizes: their description by `merge`. parts: a folder with
    the vocabulary; parts that are already in it are not encoded again.
    stretch_bytes: how much text one part holds; it does not change the result.
    """
    splits = {name: _text_split(text, name, sizes) for name in SPLITS}
    stretches = [stretch for name in SPLITS for stretch in _cut(name, splits[name], stretch_bytes)]
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(SplitWriter(output, name, splits[name].reviews))
            for name in SPLITS
        }
        total = sum(len(split.tokens) for split in splits.values())
        progress = stack.enter_context(ProgressBar("encoding", total))
        encode = partial(encode_stretch, text=text, sizes=sizes, parts=parts)
        for stretch, part in zip(stretches, map_in_order(encode, stretches, workers), strict=True):
            lengths = np.fromfile(_lengths_file(part), "<i8")
            writers[stretch.split].append(part.read_bytes(), lengths)
            offsets = splits[stretch.split].offsets
            progress.advance(int(offsets[stretch.last] - offsets[stretch.first]))
    return {
        name: {**writers[name].size(), "tokens": writers[name].position, "bytes": len(split.tokens)}
        for name, split in splits.items()
    }


def _text_split(text: Path, name: str, sizes: Mapping[str, Any]) -> Split:
    return map_split(text, name, sizes[name]["reviews"], sizes[name]["bytes"])


def _cut(name: str, split: Split, stretch_bytes: int) -> Iterator[Stretch]:
    """Cut a split into stretches of about the same number of bytes."""
    # From 0 even if all reviews are empty.
    goals = np.arange(0, max(len(split.tokens), 1), stretch_bytes)
    edges = np.unique([*np.searchsorted(split.offsets, goals), split.reviews]).tolist()
    for first, last in pairwise(edges):
        yield Stretch(name, first, last)


def encode_stretch(stretch: Stretch, *, text: Path, sizes: Mapping[str, Any], parts: Path) -> Path:
    """Encode a stretch unless that was done before; return the file of its tokens."""
    part = parts / f"{stretch.split}-{stretch.first:012d}-{stretch.last:012d}.bin"
    if not _lengths_file(part).is_file():
        split = _text_split(text, stretch.split, sizes)
        offsets = split.offsets[stretch.first : stretch.last + 1].tolist()
        content = split.tokens[offsets[0] : offsets[-1]].tobytes()
        places = pairwise(offset - offsets[0] for offset in offsets)
        _write_part(part, content, [content[start:end] for start, end in places])
    return part


def _write_part(part: Path, content: bytes, reviews: list[bytes]) -> None:
    tokenizer = _tokenizer_of(part.parent)
    encoded = [tokenizer.encode(review) for review in reviews]
    tokens = np.concatenate(encoded)
    assert tokenizer.decode(tokens) == content, f"{part}: the vocabulary loses text"
    lengths = np.fromiter(map(len, encoded), "<i8", len(encoded))
    little_endian = tokens.astype(tokenizer.dtype.newbyteorder("<"))
    _write_array(part, little_endian)
    _write_array(_lengths_file(part), lengths)


def _write_array(path: Path, array: np.ndarray) -> None:
    # No sweep of the folder for each part: leftovers of a kill are removed before the first.
    write_atomically(path, lambda file: file.write_bytes(array.tobytes()), sweep=False)


def _lengths_file(part: Path) -> Path:
    """Return the file of the reviews' lengths in tokens; it is written last and ends a part."""
    return part.with_suffix(".lengths")


def _tokenizer_of(parts: Path) -> Tokenizer:
    """Return the tokenizer in a folder; it is loaded once, unless it is replaced by another."""
    path = parts / DESCRIPTION_FILE
    description = read_json(path)
    return _loaded(path, description["tokenizer"], description["tokenizer_sha256"])


@lru_cache(maxsize=1)
def _loaded(path: Path, kind: str, sha256: str) -> Tokenizer:
    return load_tokenizer(path.parent, {"tokenizer": kind, "tokenizer_sha256": sha256}, path)
