"""Corpora of the study, made from a prepared one: a part of it to read often, and sorted reviews.

python -m experiments.recipe.corpora --corpus data/reviews    # data/reviews_quarter, ...
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from configs import command
from data_utils.corpus import META_FILE, Split, offsets_file, open_corpus, tokens_file
from model.errors import InputError
from model.storage import read_json, write_json

BUDGET = 6_000_000  # symbols that a screening run reads
LANES = 64


@dataclass(frozen=True)
class Options:
    """Write the corpora that runs.toml names, each beside the one given."""

    corpus: Path = Path("data/reviews")
    """A prepared corpus, its reviews shuffled."""


def main() -> None:
    options = command.parse(Options, __doc__)
    train = open_corpus(options.corpus).splits["train"]
    if len(train.tokens) < BUDGET:
        raise InputError(f"{options.corpus}: the study needs {BUDGET:,} symbols to train on")
    for name, order in ORDERS.items():
        folder = beside(options.corpus, name)
        write_variant(options.corpus, folder, train, order(train))
        print(folder)


def beside(corpus: Path, name: str) -> Path:
    """Return the folder of a variant of a corpus; without a name, the corpus."""
    return corpus.with_name(f"{corpus.name}_{name}") if name else corpus


def first(split: Split, symbols: int) -> np.ndarray:
    """Return the first reviews that have so many symbols together, int64 [reviews]."""
    return np.arange(np.searchsorted(split.offsets, symbols))


def short_first(split: Split) -> np.ndarray:
    """Return reviews of the whole budget, dealt so that every lane reads from short to long."""
    reviews = first(split, BUDGET)
    by_length = reviews[np.argsort(np.diff(split.offsets)[reviews], kind="stable")]
    return np.concatenate([by_length[lane::LANES] for lane in range(LANES)])


ORDERS: dict[str, Callable[[Split], np.ndarray]] = {
    "quarter": lambda split: first(split, BUDGET // 4),
    "sixteenth": lambda split: first(split, BUDGET // 16),
    "short_first": short_first,
}


def write_variant(corpus: Path, folder: Path, train: Split, order: np.ndarray) -> None:
    """Write a corpus with the given reviews to train on; what it is judged by stays.

    Raises InputError where the folder is there.
    """
    if folder.exists():
        raise InputError(f"{folder}: exists; remove it to make it anew")
    shutil.copytree(corpus, folder, ignore=shutil.ignore_patterns("train.*"))
    lengths = np.diff(train.offsets)[order]
    tokens = np.concatenate(list(reviews_of(train, order)))
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    tokens.tofile(folder / tokens_file("train"))
    offsets.tofile(folder / offsets_file("train"))
    meta = read_json(corpus / META_FILE)
    meta["splits"]["train"] = {
        "reviews": len(order),
        "bytes": len(tokens),
        "sha256": hashlib.sha256(tokens.tobytes()).hexdigest(),
        "offsets_sha256": hashlib.sha256(offsets.tobytes()).hexdigest(),
    }
    write_json(folder / META_FILE, meta)


def reviews_of(split: Split, order: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the symbols of reviews, each uint8 [n]."""
    for review in order:
        yield split.tokens[split.offsets[review] : split.offsets[review + 1]]


if __name__ == "__main__":
    command.run(main)
