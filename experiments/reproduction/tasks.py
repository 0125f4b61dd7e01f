"""The published transfer tasks, each as folds of train, val and test indices.

SST has its own three parts. IMDB has 25,000 train and 25,000 test reviews; val is drawn from
train. MR has no split: ten folds, as in Radford et al. 2017, with val drawn from each one's train.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_utils.labelled import LabelledSet, read_labelled_sets
from model.errors import InputError

SEED = 0
FOLDS = 10
IMDB_VAL = 5_000  # of the 25,000 to train on
MR_ENCODING = "cp1252"


@dataclass(frozen=True)
class Fold:
    """Indices into a task's texts."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Task:
    """All texts of a task, and what is fitted, chosen and tested on which of them."""

    name: str
    texts: LabelledSet
    folds: list[Fold]


def sst(folder: Path) -> Task:
    """Read the binary Stanford Sentiment Treebank: train.csv, val.csv, test.csv."""
    parts = read_labelled_sets([folder / f"{name}.csv" for name in ("train", "val", "test")])
    ends = np.cumsum([len(part.texts) for part in parts])
    train, val, test = np.split(np.arange(ends[-1]), ends[:-1])
    return Task("sst", joined(parts), [Fold(train, val, test)])


def imdb(folder: Path) -> Task:
    """Read the Large Movie Review Dataset: imdb_train and imdb_test, .jsonl.gz."""
    paths = [folder / f"imdb_{name}.jsonl.gz" for name in ("train", "test")]
    parts = read_labelled_sets(paths)
    count = len(parts[0].texts)
    order = np.random.default_rng(SEED).permutation(count)
    test = np.arange(count, count + len(parts[1].texts))
    return Task("imdb", joined(parts), [Fold(order[IMDB_VAL:], order[:IMDB_VAL], test)])


def mr(folder: Path) -> Task:
    """Read the movie-review sentences: rt-polarity.neg and rt-polarity.pos, a sentence a line."""
    texts: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(("rt-polarity.neg", "rt-polarity.pos")):
        path = folder / name
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        lines = path.read_text(encoding=MR_ENCODING, errors="replace").split("\n")
        sentences = [line.strip() for line in lines if line.strip()]
        texts += sentences
        labels += [label] * len(sentences)
    folds = list(cross_validation(len(texts)))
    return Task("mr", LabelledSet(texts, np.array(labels), ("neg", "pos")), folds)


TASKS: dict[str, Callable[[Path], Task]] = {"sst": sst, "imdb": imdb, "mr": mr}


def cross_validation(count: int) -> Iterator[Fold]:
    """Yield folds of shuffled indices; a ninth of what is not tested chooses C."""
    parts = np.array_split(np.random.default_rng(SEED).permutation(count), FOLDS)
    for index, test in enumerate(parts):
        val = parts[(index + 1) % FOLDS]
        train = np.concatenate(
            [p for i, p in enumerate(parts) if i not in (index, (index + 1) % FOLDS)]
        )
        yield Fold(train, val, test)


def sizes(fold: Fold) -> dict[str, int]:
    """Return how many examples are fitted on, chosen on and tested on."""
    return {"train": len(fold.train), "val": len(fold.val), "test": len(fold.test)}


def joined(parts: list[LabelledSet]) -> LabelledSet:
    """Return sets one after the other."""
    texts = [text for part in parts for text in part.texts]
    return LabelledSet(texts, np.concatenate([p.labels for p in parts]), parts[0].classes)
