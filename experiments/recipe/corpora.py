"""Make the variants of a corpus that the study needs: a quarter of it, and sorted lanes.

python -m experiments.recipe.corpora --corpus data/reviews    # data/reviews_quarter, ...
"""

import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from configs import command
from data_utils.corpus import META_FILE, open_corpus
from data_utils.preparation.merging import SplitWriter
from experiments.training_runs import beside
from model.errors import InputError
from model.files.storage import read_json, write_json
from model.text.split import Split, shard_bounds
from model.text.tokenizer import BYTES

RUNS = tomllib.loads((Path(__file__).parent / "runs.toml").read_text())
BUDGET = RUNS["budget"]["screening"]
LANES = RUNS["base"]["data.lanes"]


@dataclass(frozen=True)
class Options:
    """Write the variants that runs.toml names, each beside the given corpus."""

    corpus: Path = Path("data/reviews")
    """A prepared corpus of bytes with shuffled reviews."""


def main() -> None:
    given = command.parse(Options, __doc__).corpus.resolve()
    train = open_corpus(given).splits["train"]
    if train.tokenizer.kind != BYTES.kind or len(train.tokens) < BUDGET:
        raise InputError(f"{given}: the study needs a corpus of bytes, {BUDGET:,} to train on")
    for name, order in ORDERS.items():
        write_variant(given, beside(given, name), train, order(train))
        print(beside(given, name))


def first(split: Split, symbols: int) -> np.ndarray:
    """Return the first reviews that together have so many symbols, int64 [reviews]."""
    return np.arange(np.searchsorted(split.offsets, symbols))


def short_first(split: Split) -> np.ndarray:
    """Return the reviews of the whole budget; each lane goes from short to long reviews."""
    taken = first(split, BUDGET)
    part = Split(split.tokens[: split.offsets[len(taken)]], split.offsets[: len(taken) + 1])
    lengths = np.diff(part.offsets)
    ends = np.searchsorted(part.offsets, shard_bounds(part, LANES))
    lanes = [np.arange(*pair) for pair in pairwise(ends)]
    return np.concatenate([lane[np.argsort(lengths[lane], kind="stable")] for lane in lanes])


ORDERS: dict[str, Callable[[Split], np.ndarray]] = {
    "quarter": lambda split: first(split, BUDGET // 4),
    "short_first": short_first,
}


def write_variant(corpus: Path, folder: Path, train: Split, order: np.ndarray) -> None:
    """Write a corpus with the given reviews as its train split and the same other splits.

    Raises InputError if the folder exists.
    """
    if folder.exists():
        raise InputError(f"{folder}: exists; remove it to write it again")
    shutil.copytree(corpus, folder, ignore=shutil.ignore_patterns("train.*"))
    with SplitWriter(folder, "train", len(order)) as writer:
        for review in order:
            content = train.tokens[train.offsets[review] : train.offsets[review + 1]]
            writer.append(content.tobytes(), np.array([len(content)]))
    meta = read_json(corpus / META_FILE)
    meta["splits"]["train"] = writer.size()
    write_json(folder / META_FILE, meta)


if __name__ == "__main__":
    command.run(main)
