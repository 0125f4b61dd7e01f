"""Make a corpus that learns from short reviews with titles; its held-out splits are another's.

python -m experiments.titles.titled --corpus data/reviews --output data/titled --longest 500
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from configs import command
from data_utils.corpus import open_corpus
from data_utils.preparation.joining import TRAIN
from data_utils.titles import titles_of
from experiments.epochs.part import write_part
from model.bounds import PositiveInt
from model.text.split import Split


@dataclass(frozen=True)
class Options:
    """Make a corpus that learns from short reviews with titles; its held-out splits stay."""

    corpus: Path
    """A prepared corpus of bytes."""
    output: Path
    """The corpus folder to make; it must not exist."""
    longest: PositiveInt = 500
    """Most bytes of a review with its title."""


def main() -> None:
    options = command.parse(Options, __doc__)
    corpus = open_corpus(options.corpus)
    chosen = titled(corpus.splits[TRAIN], options.longest)
    train = write_part(options.corpus, corpus, options.output, chosen)
    print(f"{options.output}: {train['reviews']:,} reviews, {train['bytes']:,} bytes to learn from")


def titled(split: Split, longest: int) -> np.ndarray:
    """Return the indices of the reviews that have a title and at most `longest` bytes."""
    offsets = np.asarray(split.offsets)
    with_title = np.searchsorted(offsets, [end for _, end in titles_of(split)]) - 1
    return with_title[np.diff(offsets)[with_title] <= longest]


if __name__ == "__main__":
    command.run(main)
