"""Make a corpus whose train split is the beginning of another's; its held-out splits stay.

python -m experiments.epochs.part --corpus data/reviews --output data/part_3m --megabytes 3.3
"""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from configs import command
from data_utils.corpus import META_FILE, SPLITS, offsets_file, open_corpus, tokens_file
from model.bounds import PositiveFloat
from model.errors import InputError
from model.files.storage import is_taken, whole_folder, write_json
from model.text.tokenizer import BYTES

TRAIN, *HELD_OUT = SPLITS


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
    if is_taken(output):
        raise InputError(f"{output}: exists already; remove it or name another folder")
    reviews = int(np.searchsorted(train.offsets, wanted))
    offsets = np.asarray(train.offsets[: reviews + 1])
    files = {tokens_file: train.tokens[: offsets[-1]].tobytes(), offsets_file: offsets.tobytes()}
    with whole_folder(output) as partial:
        for file in (make(name) for name in HELD_OUT for make in files):
            shutil.copyfile(folder / file, partial / file)
        for make, content in files.items():
            (partial / make(TRAIN)).write_bytes(content)
        digests = [hashlib.sha256(content).hexdigest() for content in files.values()]
        size = {"reviews": reviews, "bytes": int(offsets[-1])}
        size |= dict(zip(("sha256", "offsets_sha256"), digests, strict=True))
        splits = {**corpus.meta["splits"], TRAIN: size}
        write_json(partial / META_FILE, {**corpus.meta, "splits": splits})
    return size


if __name__ == "__main__":
    command.run(main)
