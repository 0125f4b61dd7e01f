"""Select texts for a later training by a recipe: some of the first, and what was rare in it.

python -m experiments.default_model.later_texts second data/default --output data/second
python -m experiments.default_model.later_texts third data/default --output data/third \\
    --amazon amazon/*.jsonl.gz --held-out sst/val.csv sst/test.csv imdb/imdb_test.jsonl.gz
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import tyro

from configs import command
from data_utils.provenance import describe_origin
from experiments.default_model.everyday import VALIDATION, everyday_sentences
from experiments.default_model.grammar import words
from experiments.default_model.noise import noisy
from experiments.default_model.texts import (
    SENTENCE_END,
    STARS,
    Example,
    counted,
    new_sentences,
    read_examples,
    reviews_and_titles,
    write_examples,
)
from experiments.default_model.wording import normalized
from experiments.shipped.overlap import HeldOut
from model.errors import InputError
from model.files.storage import write_json
from model.reading.texts import ReadingReport, read_texts

LONGEST_REVIEW = LONGEST_PART = 300  # characters of a whole Amazon review, of a part of IMDB's
LONGEST_SENTENCE = 160  # characters of a review that is one sentence
MOST_NOISY = 120  # characters of a text that gets mistakes
NEGATOR = re.compile(
    r"\b(?:not|no|never|nothing|nobody|none|nor|neither|hardly|barely|without|cannot|far from|"
    r"(?:is|was|are|were|do|does|did|has|have|had|would|could|should|wo|ca)n'?t)\b",
    re.IGNORECASE,
)
CONTRAST = re.compile(
    r"\b(?:but|although|though|however|until|yet|despite|except|luckily|unfortunately|still)\b",
    re.IGNORECASE,
)
CUES = {  # what makes a text rare; a text belongs to the first that it has
    "ratings": re.compile(
        r"\b\d+ ?/ ?\d+\b|\b(?:one|two|three|four|five|zero|\d) ?stars?\b|★|⭐"
        r"|\bout of (?:5|five|10)|\bthumbs\b|\brating\b|\d ?%",
        re.IGNORECASE,
    ),
    "signs": re.compile(r"(?:[:;=]-?[)(D/|]|<3|[\u2600-\u27bf\U0001f300-\U0001faff])(?!\w)"),
    "contrast": CONTRAST,
    "negation": NEGATOR,
    "neither": re.compile(""),
}


@dataclass(frozen=True)
class Recipe:
    """How many texts of each kind; of the first training's sources, each text once."""

    seed: int
    kept: Mapping[str, int]
    """Most texts of each source of the first training."""
    sentences: int
    """Sentences of the grammar."""
    whole: int = 0
    """Most whole reviews of IMDB of the first training, beside `kept`."""
    rare: Mapping[str, int] = field(default_factory=dict)
    """Most titles and reviews of one sentence with each cue, a fifth of each number of stars."""
    noisy: int = 0
    """Copies of short natural texts with mistakes."""


RECIPES = {
    "second": Recipe(
        1, {"sst": 7000, "imdb": 2000, "amazon": 4000, "titles": 4000}, sentences=30_000
    ),
    "third": Recipe(
        2,
        {"sst": 7000, "imdb": 2000, "amazon": 17_000},
        sentences=27_000,
        whole=3000,
        rare={
            "negation": 14_000,
            "contrast": 10_000,
            "ratings": 3000,
            "signs": 2000,
            "neither": 4000,
        },
        noisy=9000,
    ),
}


@dataclass(frozen=True)
class Options:
    """Write train.jsonl, a report, and the first training's val.jsonl with everyday sentences."""

    recipe: Annotated[Literal["second", "third"], tyro.conf.Positional]
    """Which later training."""
    texts: Annotated[Path, tyro.conf.Positional]
    """The folder that experiments.default_model.texts wrote."""
    output: Path
    """The folder to write."""
    amazon: tuple[Path, ...] = ()
    """Amazon reviews with stars and titles, for a recipe with rare texts."""
    held_out: tuple[Path, ...] = ()
    """Files of texts that must not occur among them."""
    show: int = 0
    """Texts of each source to print."""


def main() -> None:
    options = command.parse(Options, __doc__)
    recipe = RECIPES[options.recipe]
    if recipe.rare and not (options.amazon and options.held_out):
        raise InputError(f"the recipe {options.recipe} needs --amazon and --held-out")
    chooser = random.Random(recipe.seed)
    val = read_examples(options.texts / "val.jsonl")
    known = {normalized(example.text) for example in val}
    train = kept(read_examples(options.texts / "train.jsonl"), recipe, chooser)
    if recipe.rare:
        taken = known | {normalized(example.text) for example in train}
        train += rare_texts(read_pool(options.amazon, options.held_out), taken, recipe, chooser)
    train += noisy_copies(train, recipe.noisy, chooser)
    train += new_sentences(recipe.sentences, known, chooser, by_kind=True)
    chooser.shuffle(train)
    options.output.mkdir(parents=True, exist_ok=True)
    write_examples(options.output / "train.jsonl", train)
    val += [Example(s.text, s.label, "everyday") for s in everyday_sentences(VALIDATION)]
    write_examples(options.output / "val.jsonl", val)
    report = {name: counted(part) for name, part in (("train", train), ("val", val))}
    write_json(options.output / "report.json", {**report, "origin": describe_origin()})
    print(json.dumps(report, indent=1))
    show(train, options.show)


def kept(first: Sequence[Example], recipe: Recipe, chooser: random.Random) -> list[Example]:
    """Draw what a recipe keeps of the first training's texts, each text at most once."""
    by_source: dict[str, dict[str, Example]] = defaultdict(dict)
    for example in first:
        by_source[example.source][example.text] = example
    wanted = dict(recipe.kept)
    if recipe.whole:
        films = by_source.pop("imdb", {}).values()
        for name, long in (("imdb", False), ("imdb whole", True)):
            by_source[name] = {
                e.text: e._replace(source=name)
                for e in films
                if (len(e.text) > LONGEST_PART + 1) == long  # of two halves, with a space between
            }
        wanted["imdb whole"] = recipe.whole
    result = []
    for source, count in wanted.items():
        examples = list(by_source[source].values())
        result += chooser.sample(examples, min(count, len(examples)))
    return result


def read_pool(amazon: Iterable[Path], held_out: Sequence[Path]) -> list[Example]:
    """Read the titles and the reviews of one sentence whose words agree with their stars."""
    apart = HeldOut(read_texts(held_out, None, ReadingReport(), strict=False))
    reviews, titles = reviews_and_titles(amazon, apart, LONGEST_REVIEW)
    sentences = [
        review
        for review in reviews
        if len(review.text) <= LONGEST_SENTENCE and len(SENTENCE_END.split(review.text)) == 1
    ]
    return [e for e in (*titles, *sentences) if not contradicts(e.text, int(e.label))]


def rare_texts(
    pool: Iterable[Example], taken: set[str], recipe: Recipe, chooser: random.Random
) -> list[Example]:
    """Draw texts with every cue, as equally over the stars as there are such texts."""
    parts: dict[tuple[str, str], list[Example]] = defaultdict(list)
    for example in pool:
        if normalized(example.text) not in taken:
            cue = cue_of(example.text)
            parts[cue, example.label].append(example._replace(source=f"{example.source} {cue}"))
    result = []
    for cue, most in recipe.rare.items():
        for stars in STARS:
            found = parts[cue, stars]
            result += chooser.sample(found, min(most // len(STARS), len(found)))
    return result


def cue_of(text: str) -> str:
    """Return the first cue that a text has."""
    return next(cue for cue, pattern in CUES.items() if pattern.search(text))


@cache
def sides() -> tuple[Mapping[str, int], re.Pattern[str]]:
    """Return 1 for praising words of the grammar and -1 for others, and a pattern of them all."""
    found = dict.fromkeys(words()["good"], 1) | dict.fromkeys(words()["bad"], -1)
    found |= dict.fromkeys(("love", "loved", "best", "loves"), 1)
    found |= dict.fromkeys(("hate", "hated", "worst", "junk", "waste", "garbage", "crap"), -1)
    return found, re.compile(rf"\b(?:{'|'.join(map(re.escape, found))})\b", re.IGNORECASE)


def contradicts(text: str, stars: int) -> bool:
    """Return whether all words of a text that take a side take that opposite to its stars.

    A word is turned by a negator at most three words before. A contrast may do anything.
    """
    known, pattern = sides()
    if stars == 3 or CONTRAST.search(text):
        return False
    found = {
        known[word[0].lower()] * (-1 if negated(text[: word.start()]) else 1)
        for word in pattern.finditer(text)
    }
    return found == {-1 if stars > 3 else 1}


def negated(before: str) -> bool:
    """Return whether one of the last three words is a negator."""
    return NEGATOR.search(" ".join(before.split()[-3:])) is not None


def noisy_copies(examples: Iterable[Example], count: int, chooser: random.Random) -> list[Example]:
    """Return copies of short texts with mistakes."""
    short = [example for example in examples if len(example.text) <= MOST_NOISY]
    drawn = chooser.sample(short, count)
    return [Example(noisy(e.text, chooser), e.label, "noisy") for e in drawn]


def show(examples: Iterable[Example], each: int) -> None:
    """Print the first texts of every source with their labels."""
    by_source: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        by_source[example.source].append(example)
    for source, part in sorted(by_source.items()) if each else ():
        print(f"\n{source}")
        for example in part[:each]:
            print(f"    {example.label:<9} {example.text}")


if __name__ == "__main__":
    command.run(main)
