"""Choose sentences with what reviews have too little of: negation, contrast, ratings, signs."""

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from experiments.default_model.sentences.examples import STARS, Example, normalized
from experiments.default_model.sentences.grammar import WORDS
from experiments.default_model.sentences.noise import noisy

LONGEST_SENTENCE = 160  # characters of a rare text
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
MOST = {  # texts with each cue, a fifth of each number of stars
    "negation": 14_000,
    "contrast": 10_000,
    "ratings": 3000,
    "signs": 2000,
    "neither": 4000,
}
SIDES = {  # 1 for praising words, -1 for others
    **dict.fromkeys(WORDS["good"], 1),
    **dict.fromkeys(WORDS["bad"], -1),
    **dict.fromkeys(("love", "loved", "best", "loves"), 1),
    **dict.fromkeys(("hate", "hated", "worst", "junk", "waste", "garbage", "crap"), -1),
}
SIDED = re.compile(rf"\b(?:{'|'.join(map(re.escape, SIDES))})\b", re.IGNORECASE)
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


def rare_texts(
    pool: Iterable[Example], skip: set[str], chooser: random.Random, most: Mapping[str, int] = MOST
) -> list[Example]:
    """Draw single sentences with every cue, as equally over the stars as there are such texts.

    Their words agree with their stars. skip: wordings, as `normalized` returns them, to leave out.
    """
    parts: dict[tuple[str, str], list[Example]] = defaultdict(list)
    for example in pool:
        if is_sentence(example.text) and normalized(example.text) not in skip:
            parts[cue_of(example.text), example.label].append(example._replace(source="rare"))
    result = []
    for cue, count in most.items():
        for stars in STARS:
            fitting = [e for e in parts[cue, stars] if not contradicts(e.text, int(stars))]
            result += chooser.sample(fitting, min(count // len(STARS), len(fitting)))
    return result


def is_sentence(text: str) -> bool:
    """Return whether a text is short and has no end of a sentence before its own."""
    return len(text) <= LONGEST_SENTENCE and len(SENTENCE_END.split(text)) == 1


def cue_of(text: str) -> str:
    """Return the first cue that a text has."""
    return next(cue for cue, pattern in CUES.items() if pattern.search(text))


def contradicts(text: str, stars: int) -> bool:
    """Return whether all words of a text that take a side take that opposite to its stars.

    A negator at most three words before a word flips its side. A contrast may do anything.
    """
    if stars == 3 or CONTRAST.search(text):
        return False
    sides = {
        SIDES[word[0].lower()] * (-1 if negated(text[: word.start()]) else 1)
        for word in SIDED.finditer(text)
    }
    return sides == {-1 if stars > 3 else 1}


def negated(before: str) -> bool:
    """Return whether one of the last three words is a negator."""
    return NEGATOR.search(" ".join(before.split()[-3:])) is not None


def noisy_copies(examples: Iterable[Example], count: int, chooser: random.Random) -> list[Example]:
    """Return copies of short texts with mistakes."""
    short = [example for example in examples if len(example.text) <= MOST_NOISY]
    drawn = chooser.sample(short, min(count, len(short)))
    return [Example(noisy(e.text, chooser), e.label, "noisy") for e in drawn]
