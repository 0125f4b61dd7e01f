"""Count held-out reviews that are near copies of train reviews, and score them apart.

python -m experiments.models.near_copies --model amazon_1024 --corpus data/reviews \\
    --output experiments/models/results/near_copies.json

No review of a corpus that was prepared with --deduplicate is in two splits, byte for byte. But the
same review may come from two sources, once with its title in front.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from configs import command
from data_utils.corpus import open_corpus
from data_utils.provenance import describe_origin
from experiments.models.overlap import RUN, Words, run_hashes
from mlstm_sentiment.commands.options import Model
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_json
from mlstm_sentiment.text.split import Split
from model.inference.weights import LoadedModel, load_model

HALF = 0.5  # a near copy shares at least this fraction of its runs with one train review


@dataclass(frozen=True, kw_only=True)
class Options:
    """Find near copies in valid and test; score test's near copies and other reviews separately."""

    model: Model = "amazon_1024"
    corpus: Path
    """The model's training corpus."""
    output: Path
    """The JSON file to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    splits = open_corpus(options.corpus).splits
    loaded = load_model(options.model, compute_dtype=torch.float32)
    valid, test = splits["valid"], splits["test"]
    held_out = [*reviews_of(valid), *reviews_of(test)]
    is_copy = largest_shares(held_out, reviews_of(splits["train"])) >= HALF
    of_valid, of_test = np.split(is_copy, [valid.reviews])
    found = {
        "valid": counted(valid, of_valid),
        "test": {**counted(test, of_test), **scored(loaded, test, of_test)},
    }
    write_json(options.output, {**found, "share": HALF, "origin": describe_origin()}, "a result")
    print(found)


def reviews_of(split: Split) -> Iterator[str]:
    """Yield the reviews of a split of bytes as text. Raises InputError for one of subwords."""
    if split.tokens.dtype != np.uint8:
        raise InputError("the corpus is of subwords; give one of bytes, of the same reviews")
    for tokens in np.split(split.tokens, split.offsets[1:-1]):
        yield tokens.tobytes().decode(errors="replace")


def largest_shares(held_out: Sequence[str], train: Iterable[str]) -> np.ndarray:
    """Return for each held-out text the largest fraction of its runs found in one train text."""
    words = Words()
    runs = [np.unique(run_hashes(words.read(text), RUN)) for text in held_out]
    hashes = np.concatenate(runs)
    owners = np.repeat(np.arange(len(runs)), list(map(len, runs)))
    order = np.argsort(hashes, kind="stable")
    hashes, owners = hashes[order], owners[order]
    shares = np.zeros(len(runs))
    for text in train:
        found = np.unique(run_hashes(words.read(text), RUN))
        first, last = (np.searchsorted(hashes, found, side) for side in ("left", "right"))
        shared = [owners[first[hit] : last[hit]] for hit in np.flatnonzero(first < last)]
        if shared:
            owned, counts = np.unique(np.concatenate(shared), return_counts=True)
            sizes = np.array([len(runs[owner]) for owner in owned])
            shares[owned] = np.maximum(shares[owned], counts / sizes)
    return shares


def counted(split: Split, is_copy: np.ndarray) -> dict[str, int]:
    """Return how many reviews and bytes a split has, and how many of them are near copies."""
    sizes = np.diff(split.offsets)
    return {
        "reviews": len(sizes),
        "characters": int(sizes.sum()),
        "copies": int(is_copy.sum()),
        "characters_of_copies": int(sizes[is_copy].sum()),
    }


def scored(loaded: LoadedModel, split: Split, is_copy: np.ndarray) -> dict[str, float | None]:
    """Return the bits per character of near copies and of other reviews, None if there are none.

    Each review is read alone.
    """
    sizes = np.diff(split.offsets)
    reviews = np.split(split.tokens, split.offsets[1:-1])
    bits = loaded.read(reviews, (), bits=True).bits
    assert bits is not None
    return {
        name: float(bits[rows].sum() / sizes[rows].sum()) if sizes[rows].any() else None
        for name, rows in (("bits_of_copies", is_copy), ("bits_of_others", ~is_copy))
    }


if __name__ == "__main__":
    command.run(main)
