"""The test sets of the board: what every method has learned, what is near to it, what is far.

Texts are never kept in a result; a digest shows that two methods classified the same ones.
"""

import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from data_utils.labelled import read_label_columns, read_labelled_sets
from experiments.published_sets import SETS
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.records import read_records

SEED = 0  # draws texts
FILMS = 2000  # reviews drawn from IMDB's test set, half of them of each label
REVIEWS = 1000  # reviews drawn for a set of other reviews, half of them of each label
LENGTHS = range(20, 1001)  # characters of these reviews
SIDES = {1.0: 0, 2.0: 0, 4.0: 1, 5.0: 1}  # of stars
PLEASANT = ("joy", "love", "optimism", "trust")
UNPLEASANT = ("anger", "disgust", "fear", "pessimism", "sadness")
REMARKS = {"neg": 0.0, "neutral": 0.5, "pos": 1.0}


@dataclass(frozen=True)
class Texts:
    """Texts with their labels."""

    texts: list[str]
    labels: np.ndarray  # float64 [N]: 1 positive, 0 negative, 0.5 neither
    kinds: list[str] = field(default_factory=list)  # of each text, where the set has kinds

    @property
    def digest(self) -> str:
        content = repr((self.texts, self.labels.tolist()))
        return hashlib.sha256(content.encode(errors="replace")).hexdigest()[:16]


@dataclass(frozen=True)
class TextSet:
    """A set of texts: its title, how far it is from the training text and labels, its reader."""

    title: str
    distance: str
    read: Callable[[Path], Texts]


def given(name: str) -> Callable[[Path], Texts]:
    """Return a reader of a published set's test texts; of all texts where it has folds."""

    def read(data: Path) -> Texts:
        task = SETS[name].read(data)
        part = task.sets[-1] if len(task.folds) == 1 else task.texts
        return Texts(part.texts, part.labels.astype(float))

    return read


def films(data: Path) -> Texts:
    """Return a sample of IMDB's test reviews."""
    (whole,) = read_labelled_sets([data / "imdb/imdb_test.jsonl.gz"])
    chooser = random.Random(SEED)
    rows = [
        row
        for label in (0, 1)
        for row in chooser.sample(np.flatnonzero(whole.labels == label).tolist(), FILMS // 2)
    ]
    return Texts([one_line(whole.texts[row]) for row in rows], whole.labels[rows].astype(float))


def one_line(text: str) -> str:
    """Return a review without HTML line breaks, with single spaces."""
    return " ".join(text.replace("<br />", " ").split())


def starred(pattern: str, *sources: str) -> Callable[[Path], Texts]:
    """Return a reader of reviews with stars of these sources; `pattern` names the files."""

    def read(data: Path) -> Texts:
        sides: tuple[list[str], list[str]] = ([], [])
        for text, side, source in reviews_with_stars(data, pattern):
            if source in sources:
                sides[side].append(text)
        return balanced(sides, REVIEWS)

    return read


def reviews_with_stars(data: Path, pattern: str) -> Iterator[tuple[str, int, str]]:
    """Yield text, side and source of each short review with one, two, four or five stars."""
    for path in sorted(data.glob(pattern)):
        for record in read_records(path, strict=False):
            text = one_line(str(record["reviewText"]))
            side = SIDES.get(float(record.get("overall") or 0))
            if side is not None and len(text) in LENGTHS:
                yield text, side, str(record["source"])


def balanced(sides: tuple[list[str], list[str]], count: int) -> Texts:
    """Return `count` texts drawn at random, half of them negative, in random order."""
    if min(map(len, sides)) < count // 2:
        raise InputError(f"{min(map(len, sides))} texts of one side; it needs {count // 2}")
    chooser = random.Random(SEED)
    rows = [(t, float(i)) for i in (0, 1) for t in chooser.sample(sides[i], count // 2)]
    chooser.shuffle(rows)
    return Texts([text for text, _ in rows], np.array([label for _, label in rows]))


def tweets(data: Path) -> Texts:
    """Return the tweets that have only pleasant or only unpleasant emotions."""
    names = (*PLEASANT, *UNPLEASANT)
    (emotions,) = read_label_columns([data / "semeval/val.csv"], "Tweet", names)
    columns = [list(emotions.classes).index(name) for name in names]
    labels = emotions.labels[:, columns].astype(bool)
    sides = np.split(labels, [len(PLEASANT)], axis=1)
    pleasant, unpleasant = (np.asarray(side.any(axis=1)) for side in sides)
    rows = np.flatnonzero(pleasant != unpleasant)
    return Texts([emotions.texts[row] for row in rows], pleasant[rows].astype(float))


def remarks(data: Path) -> Texts:
    """Return everyday remarks by another author: columns label, kind and text."""
    records = list(read_records(data / "everyday/test.tsv", strict=True))
    for record in records:
        if record.get("label") not in REMARKS:
            raise InputError(f"{record.place}: label {record.get('label')!r}; not in {[*REMARKS]}")
    labels = np.array([REMARKS[record["label"]] for record in records])
    return Texts([str(r["text"]) for r in records], labels, [str(r["kind"]) for r in records])


AMAZON, OTHER = "amazon/*.jsonl.gz", "other/reviews_other-*.jsonl.xz"
YELP = ("yelp_10k", "yelp_augpe", "yelp_full_olora")
DISTANCES = {  # of the test sets
    "in-domain": "films: the texts and labels that all learned methods have",
    "near": "reviews of things; no method has a label of the source, nor text, unless noted",
    "far": "no reviews; only `default` and `default_small` have labels of any such texts",
}
TEST_SETS = {
    "sst": TextSet("SST", "in-domain", given("sst")),
    "imdb": TextSet("IMDB (2,000)", "in-domain", films),
    "cr": TextSet("CR", "near", given("cr")),
    "tablets": TextSet("tablets", "near", starred(AMAZON, "tablets_iamprem")),
    "care": TextSet("personal care", "near", starred(AMAZON, "personal_care_qmng")),
    "restaurants": TextSet("restaurants", "near", starred(OTHER, *YELP)),
    "hotels": TextSet("hotels", "near", starred(OTHER, "tripadvisor_canada_mie451")),
    "tweets": TextSet("tweets", "far", tweets),
    "remarks": TextSet("everyday remarks", "far", remarks),
}


@cache
def read_set(texts: TextSet, data: Path) -> Texts:
    """Read a set once for all its uses; InputError if its files are not there."""
    return texts.read(data)


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """Print why something cannot be measured here, and go on without it."""
    try:
        yield
    except InputError as error:
        print(f"{name}: left out: {error}", flush=True)
