"""The domains in which the unit is compared with labels: tested texts, and others to learn from."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.labelled import read_labelled_sets
from experiments.models.overlap import HeldOut
from experiments.models.select_reviews import EXCLUDED
from experiments.published_sets import SETS
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.records import read_records

from .sets import (
    AMAZON,
    LENGTHS,
    OTHER,
    SEED,
    TEST_SETS,
    YELP,
    Texts,
    TextSet,
    balanced,
    one_line,
    read_set,
    reviews_with_stars,
)

COUNTS = (10, 30, 100, 300, 1000, 3000)  # labels of the domain
TESTED = 1000  # texts, half of them of each label, as those to learn from
SIDES = {"negative": 0, "positive": 1}


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
        records = read_records(data / f"labelled/{name}.jsonl.xz", strict=False)
        rows = ((str(r["text"]), SIDES.get(str(r["label"]))) for r in records)
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
        raise InputError(f"only {min(len(negative), len(positive))} texts of one side")
    tested = balanced((negative[:cut], positive[:cut]), TESTED)
    held_out = HeldOut(tested.texts)
    unseen = [
        [text for text in side[cut:] if not held_out.shares_with(text)]
        for side in (negative, positive)
    ]
    half = min(COUNTS[-1] // 2, *map(len, unseen))
    if 2 * half < COUNTS[2]:
        raise InputError(f"only {2 * half} texts to learn from")
    others = balanced((unseen[0][:half], unseen[1][:half]), 2 * half)
    return Texts(tested.texts + others.texts, np.concatenate([tested.labels, others.labels]))


DISTANCES = ("films", "products", "other reviews", "no reviews")
DOMAINS = {
    "imdb": TextSet("film reviews (IMDB)", "films", published("imdb")),
    "amazon": TextSet("Amazon, mixed", "products", starred(AMAZON, lambda s: s not in EXCLUDED)),
    "cr": TextSet("cameras and players (CR)", "products", published("cr")),
    "tablets": TextSet("tablets", "products", starred(AMAZON, "tablets_iamprem".__eq__)),
    "care": TextSet("personal care", "products", starred(AMAZON, "personal_care_qmng".__eq__)),
    "clothing": TextSet("clothing", "other reviews", starred(OTHER, "womens_clothing".__eq__)),
    "restaurants": TextSet("restaurants", "other reviews", starred(OTHER, YELP.__contains__)),
    "fast_food": TextSet("fast food", "other reviews", starred(OTHER, "mcdonalds_google".__eq__)),
    "hotels": TextSet(
        "hotels", "other reviews", starred(OTHER, "tripadvisor_canada_mie451".__eq__)
    ),
    "apps": TextSet("apps", "other reviews", labelled("android_reviews_amitt")),
    "employers": TextSet("employers", "no reviews", labelled("glassdoor")),
    "tweets": TextSet("tweets", "no reviews", labelled("semeval_tweets")),
    "airlines": TextSet("tweets to airlines", "no reviews", labelled("airline_tweets")),
    "reddit": TextSet("Reddit comments", "no reviews", labelled("goemotions")),
}


def tested_texts(data: Path) -> list[str]:
    """Return all texts on which the board and these domains test, of the sets that are there."""
    texts: list[str] = []
    for test_set in TEST_SETS.values():
        with suppress(InputError):
            texts += read_set(test_set, data).texts
    for domain in DOMAINS.values():
        with suppress(InputError):
            texts += read_set(domain, data).texts[:TESTED]
    return texts
