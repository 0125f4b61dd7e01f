"""The domains in which unit 410 is compared with labels: tested texts, and others to learn from."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.labelled import read_labelled_sets
from experiments.models.overlap import HeldOut
from experiments.models.select_reviews import EXCLUDED
from experiments.published_sets import SETS
from mlstm_sentiment.reading.records import read_records

from .sets import (
    AMAZON,
    LENGTHS,
    OTHER,
    SEED,
    TEST_SETS,
    YELP,
    Absent,
    Texts,
    balanced,
    one_line,
    read_set,
    reviews_with_stars,
)

COUNTS = (10, 30, 100, 300, 1000, 3000)  # labels of the domain
TESTED = 1000  # texts, half of them of each label, as those to learn from
SIDES = {"negative": 0, "positive": 1}


@dataclass(frozen=True)
class Domain:
    """A domain: its title, its distance from films, and the reader of its two sides."""

    title: str
    distance: str
    read: Callable[[Path], Texts]


def starred(pattern: str, wanted: Callable[[str], bool]) -> Callable[[Path], Texts]:
    """Return a reader of reviews with stars from the wanted sources."""

    def read(data: Path) -> Texts:
        rows = (
            (t, side) for t, side, source in reviews_with_stars(data, pattern) if wanted(source)
        )
        return of_sides(rows)

    return read


def labelled(name: str) -> Callable[[Path], Texts]:
    """Return a reader of the positive and negative texts of a file in labelled/."""

    def read(data: Path) -> Texts:
        path = data / f"labelled/{name}.jsonl.xz"
        if not path.is_file():
            raise Absent(f"{path}: no such file")
        rows = (
            (str(r["text"]), SIDES.get(str(r["label"]))) for r in read_records(path, strict=False)
        )
        return of_sides((text, side) for text, side in rows if side is not None)

    return read


def published(name: str) -> Callable[[Path], Texts]:
    """Return a reader of all texts of a published set without its train split, if it has one."""

    def read(data: Path) -> Texts:
        if name == "imdb":
            (part,) = read_labelled_sets([data / "imdb/imdb_test.jsonl.gz"])
        else:
            part = SETS[name].read(data).texts
        rows = zip(map(one_line, part.texts), part.labels.tolist(), strict=True)
        return of_sides((text, side) for text, side in rows if len(text) in LENGTHS)

    return read


def of_sides(rows: Any) -> Texts:
    """Return drawn texts, as many of each side: of the first TESTED, and of the others.

    rows: pairs of a text and its side. No other text shares twelve words in a row with a tested
    one.
    """
    sides: tuple[list[str], list[str]] = ([], [])
    for text, side in rows:
        sides[side].append(text)
    chooser, cut = random.Random(SEED), TESTED // 2
    negative, positive = (chooser.sample(side, len(side)) for side in sides)
    if min(len(negative), len(positive)) < cut:
        raise Absent(f"only {min(len(negative), len(positive))} texts of one side")
    tested = balanced((negative[:cut], positive[:cut]), TESTED)
    held_out = HeldOut(tested.texts)
    unseen = [
        [text for text in side[cut:] if not held_out.shares_with(text)]
        for side in (negative, positive)
    ]
    half = min(COUNTS[-1] // 2, *map(len, unseen))
    if 2 * half < COUNTS[2]:
        raise Absent(f"only {2 * half} texts to learn from")
    others = balanced((unseen[0][:half], unseen[1][:half]), 2 * half)
    return Texts(tested.texts + others.texts, np.concatenate([tested.labels, others.labels]))


DISTANCES = ("films", "products", "other reviews", "no reviews")
DOMAINS = {
    "imdb": Domain("film reviews (IMDB)", "films", published("imdb")),
    "amazon": Domain("Amazon, mixed", "products", starred(AMAZON, lambda s: s not in EXCLUDED)),
    "cr": Domain("cameras and players (CR)", "products", published("cr")),
    "tablets": Domain("tablets", "products", starred(AMAZON, "tablets_iamprem".__eq__)),
    "care": Domain("personal care", "products", starred(AMAZON, "personal_care_qmng".__eq__)),
    "clothing": Domain("clothing", "other reviews", starred(OTHER, "womens_clothing".__eq__)),
    "restaurants": Domain("restaurants", "other reviews", starred(OTHER, YELP.__contains__)),
    "fast_food": Domain("fast food", "other reviews", starred(OTHER, "mcdonalds_google".__eq__)),
    "hotels": Domain("hotels", "other reviews", starred(OTHER, "tripadvisor_canada_mie451".__eq__)),
    "apps": Domain("apps", "other reviews", labelled("android_reviews_amitt")),
    "employers": Domain("employers", "no reviews", labelled("glassdoor")),
    "tweets": Domain("tweets", "no reviews", labelled("semeval_tweets")),
    "airlines": Domain("tweets to airlines", "no reviews", labelled("airline_tweets")),
    "reddit": Domain("Reddit comments", "no reviews", labelled("goemotions")),
}


@cache
def read_domain(name: str, data: Path) -> Texts:
    """Read a domain's texts once for all its uses; Absent if its files are not there."""
    try:
        return DOMAINS[name].read(data)
    except OSError as error:
        raise Absent(str(error)) from error


def tested_texts(data: Path) -> list[str]:
    """Return all texts on which the board and these domains test, of the sets that are there."""
    texts: list[str] = []
    for name in TEST_SETS:
        try:
            texts += read_set(name, data).texts
        except Absent:
            continue
    for name in DOMAINS:
        try:
            texts += read_domain(name, data).texts[:TESTED]
        except Absent:
            continue
    return texts
