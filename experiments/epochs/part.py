"""Make a corpus whose train split is the beginning of another's; its held-out splits stay.

python -m experiments.epochs.part --corpus data/reviews --output data/part_3m --megabytes 3.3
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from configs import command
from data_utils.corpus import CORPUS_FILES, META_FILE, Corpus, open_corpus
from data_utils.epochs import taken
from data_utils.preparation.joining import TRAIN, copy_held_out
from data_utils.preparation.merging import SplitWriter
from data_utils.preparation.preparation import new_corpus
from model.bounds import PositiveFloat
from model.errors import InputError
from model.files.storage import whole_folder, write_json
from model.text.tokenizer import BYTES


@dataclass(frozen=True)
class Options:
    """Make a corpus whose train split is the beginning of another's; its held-out splits stay."""

    corpus: Path
    """A prepared corpus of bytes."""
    output: Path
    """The corpus folder to make; it must not exist."""
    megabytes: PositiveFloat
    """Text to keep, in millions of bytes, up to the end of a review."""


def main() -> None:
    options = command.parse(Options, __doc__)
    train = make_part(options.corpus, options.output, round(options.megabytes * 1e6))
    print(f"{options.output}: {train['reviews']:,} reviews, {train['bytes']:,} bytes to learn from")


def make_part(folder: Path, output: Path, wanted: int) -> dict[str, Any]:
    """Write the first reviews that have `wanted` bytes; return the description of the split."""
    corpus = open_corpus(folder)
    train = corpus.splits[TRAIN]
    if corpus.tokenizer is not BYTES or wanted > len(train.tokens):
        raise InputError(f"{folder}: give a corpus of bytes that has {wanted:,} to learn from")
    return write_part(folder, corpus, output, np.arange(np.searchsorted(train.offsets, wanted)))


def write_part(folder: Path, corpus: Corpus, output: Path, reviews: np.ndarray) -> dict[str, Any]:
    """Write a corpus that learns from these reviews of a corpus, by index.

    folder: of the corpus. Returns the description of the split.
    """
    part = taken(corpus.splits[TRAIN], reviews)
    with new_corpus(output), whole_folder(output, CORPUS_FILES) as partial:
        copy_held_out(folder, partial)
        with SplitWriter(partial, TRAIN, len(reviews)) as writer:
            writer.append(part.tokens.tobytes(), np.diff(part.offsets))
        splits = {**corpus.meta["splits"], TRAIN: writer.size()}
        write_json(partial / META_FILE, {**corpus.meta, "splits": splits})
    return writer.size()


if __name__ == "__main__":
    command.run(main)
