"""Encodes the text of a corpus with the tokens of a vocabulary, in parallel.

Every review is encoded by itself, so neither the stretches nor the number of processes changes the
result.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlstm_sentiment.reading.progress import ProgressBar
from mlstm_sentiment.text.split import Split
from mlstm_sentiment.text.subwords import SubwordTokenizer
from mlstm_sentiment.text.tokenizer import Tokenizer

from ..corpus import SPLITS, map_split
from .merging import SplitWriter
from .processes import map_in_order

TOKENIZED_BYTES = 4 << 20  # of text encoded at a time; takes many times as much memory


class _Stretch(NamedTuple):
    """Some reviews of a split of text."""

    split: str
    first: int
    last: int  # exclusive


def tokenize(
    text: Path,
    sizes: Mapping[str, Any],
    tokenizer: Tokenizer,
    output: Path,
    workers: int,
    stretch_bytes: int = TOKENIZED_BYTES,
) -> dict[str, Any]:
    """Write the splits as tokens to `output`; return their entries for meta.json.

    text: a folder of splits in bytes; sizes: their description by `merge`. tokenizer: of a
    vocabulary. stretch_bytes: how much text is encoded at a time; it does not change the result.
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
        vocabulary = tokenizer.kind, tokenizer.content
        encode = partial(_encode_stretch, text=text, sizes=sizes, vocabulary=vocabulary)
        encoded = map_in_order(encode, stretches, workers)
        for stretch, (content, lengths) in zip(stretches, encoded, strict=True):
            writers[stretch.split].append(content, lengths)
            offsets = splits[stretch.split].offsets
            progress.advance(int(offsets[stretch.last] - offsets[stretch.first]))
    return {
        name: {**writers[name].size(), "tokens": writers[name].position, "bytes": len(split.tokens)}
        for name, split in splits.items()
    }


def _text_split(text: Path, name: str, sizes: Mapping[str, Any]) -> Split:
    return map_split(text, name, sizes[name]["reviews"], sizes[name]["bytes"])


def _cut(name: str, split: Split, stretch_bytes: int) -> Iterator[_Stretch]:
    # From 0 even if all reviews are empty.
    goals = np.arange(0, max(len(split.tokens), 1), stretch_bytes)
    edges = np.unique([*np.searchsorted(split.offsets, goals), split.reviews]).tolist()
    for first, last in pairwise(edges):
        yield _Stretch(name, first, last)


def _encode_stretch(
    stretch: _Stretch, *, text: Path, sizes: Mapping[str, Any], vocabulary: tuple[str, bytes]
) -> tuple[bytes, np.ndarray]:
    """Return a stretch's tokens, little-endian, and its reviews' lengths in them, int64 [n]."""
    split = _text_split(text, stretch.split, sizes)
    offsets = split.offsets[stretch.first : stretch.last + 1].tolist()
    content = split.tokens[offsets[0] : offsets[-1]].tobytes()
    places = pairwise(offset - offsets[0] for offset in offsets)
    tokenizer = _loaded(*vocabulary)
    encoded = [tokenizer.encode(content[start:end]) for start, end in places]
    tokens = np.concatenate(encoded)
    assert tokenizer.decode(tokens) == content, f"{stretch}: decoded tokens differ from the text"
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return tokens.astype(tokenizer.dtype.newbyteorder("<")).tobytes(), lengths


@lru_cache(maxsize=1)  # a process encodes many stretches
def _loaded(kind: str, content: bytes) -> Tokenizer:
    return SubwordTokenizer(kind, content)
