"""Product reviews from a seeded grammar: a corpus and labelled sets that need no download.

A review is three to seven sentences about one product. Most sentences agree with its label, but
there are also neutral ones, negations ("not exactly reliable"), contrasts ("the strap is lovely,
but the zipper broke") and typing errors. So it is not enough to count words, and a model predicts
the next byte better if it remembers the sentiment so far.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

_PRODUCTS = {
    "blender": ("motor", "jug", "lid", "blade"),
    "backpack": ("zipper", "strap", "lining", "pocket"),
    "headset": ("microphone", "cable", "cushion", "headband"),
    "novel": ("plot", "ending", "dialogue", "narrator"),
    "tent": ("poles", "floor", "mesh", "door"),
    "keyboard": ("backlight", "wrist rest", "software", "cable"),
    "camera": ("lens", "battery", "screen", "shutter"),
    "board game": ("rules", "cards", "artwork", "box"),
}
_PLURALS = {"poles", "rules", "cards"}

_GOOD = (
    "sturdy", "reliable", "gorgeous", "comfortable", "well made", "delightful", "solid",
    "brilliant", "lovely", "useful", "excellent", "perfect", "fantastic", "superb",
)  # fmt: skip
_BAD = (
    "flimsy", "unreliable", "ugly", "uncomfortable", "badly made", "dreadful", "cheap",
    "useless", "awful", "pointless", "terrible", "broken", "horrible", "shoddy",
)  # fmt: skip
_GOOD_EVENTS = (
    "It still works like new after {time}.",
    "My {person} loves it.",
    "I would buy it again.",
    "I recommended it to my {person}.",
    "Five stars, no regrets.",
    "We bought a second one for my {person}.",
)
_BAD_EVENTS = (
    "It stopped working after {time}.",
    "My {person} hates it.",
    "I sent it back.",
    "I warned my {person} about it.",
    "One star, what a shame.",
    "Save your money for something else.",
)
_NEUTRAL = (
    "I bought this {product} {time} ago.",
    "It was a present from my {person}.",
    "The {part} comes in two colors.",
    "I use it twice a week.",
    "It came in a cardboard box.",
    "My old {product} lasted {time}.",
)
_INTENSIFIERS = ("", "", "", "really ", "very ", "so ")
_NEGATIONS = ("not", "hardly", "never")
_CONTRASTS = ("but", "yet", "although")
_PEOPLE = ("wife", "husband", "son", "daughter", "sister", "neighbor")
_TIMES = ("two days", "a week", "a month", "six months", "a year")
_TYPO_RATE = 0.004  # per letter
_OFF_TOPIC_RATE = 0.15  # sentences without sentiment
_CONTRARY_RATE = 0.05  # sentences against the label


class Review(NamedTuple):
    """A synthetic review; label 1 is positive."""

    text: str
    label: int


def synthetic_reviews(count: int, seed: int) -> Iterator[Review]:
    """Yield reviews with balanced labels: the same seed, the same reviews."""
    rng = random.Random(seed)
    for _ in range(count):
        label = rng.randrange(2)
        yield Review(_with_typos(rng, _review(rng, label)), label)


def _review(rng: random.Random, label: int) -> str:
    product = rng.choice(list(_PRODUCTS))
    opinions = [_opinion(rng, product, label)]  # at least one sentence shows the label
    for _ in range(2 + rng.randrange(5)):
        if rng.random() < _OFF_TOPIC_RATE:
            opinions.append(_fill(rng, rng.choice(_NEUTRAL), product))
        else:
            contrary = rng.random() < _CONTRARY_RATE and len(opinions) > 2
            opinions.append(_opinion(rng, product, 1 - label if contrary else label))
    rng.shuffle(opinions)
    return " ".join(opinions)


def _opinion(rng: random.Random, product: str, label: int) -> str:
    kind = rng.random()
    if kind < 0.25:
        return _fill(rng, rng.choice(_GOOD_EVENTS if label else _BAD_EVENTS), product)
    if kind < 0.45:
        return _contrast(rng, product, label)
    return _capitalized(_claim(rng, _subject(rng, product), label)) + rng.choice((".", ".", "!"))


def _contrast(rng: random.Random, product: str, label: int) -> str:
    """Return a contrast: first the opposite of the label, then the label."""
    first, second = rng.sample(_PRODUCTS[product], 2)
    concession = _claim(rng, f"the {first}", 1 - label)
    claim = _claim(rng, f"the {second}", label)
    return _capitalized(f"{concession}, {rng.choice(_CONTRASTS)} {claim}.")


def _claim(rng: random.Random, subject: str, label: int) -> str:
    """Name one to three qualities or, one time in six, negate the opposite of one."""
    verb = "are" if subject.removeprefix("the ") in _PLURALS else "is"
    if rng.random() < 1 / 6:
        quality = rng.choice(_BAD if label else _GOOD)
        return f"{subject} {verb} {rng.choice(_NEGATIONS)} {quality}"
    *first, last = rng.sample(_GOOD if label else _BAD, rng.choice((1, 2, 3)))
    if first:
        return f"{subject} {verb} {', '.join(first)} and {last}"
    return f"{subject} {verb} {rng.choice(_INTENSIFIERS)}{last}"


def _subject(rng: random.Random, product: str) -> str:
    return rng.choice(
        (f"the {rng.choice(_PRODUCTS[product])}", f"this {product}", f"the {product}", "it")
    )


def _fill(rng: random.Random, template: str, product: str) -> str:
    part = rng.choice([part for part in _PRODUCTS[product] if part not in _PLURALS])
    return template.format(
        product=product, part=part, person=rng.choice(_PEOPLE), time=rng.choice(_TIMES)
    )


def _capitalized(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _with_typos(rng: random.Random, text: str) -> str:
    """Drop, double or swap a letter here and there."""
    letters = list(text)
    for position, letter in enumerate(letters[:-1]):
        if letter.isalpha() and rng.random() < _TYPO_RATE:
            kind = rng.randrange(3)
            if kind == 2:
                letters[position : position + 2] = letters[position + 1], letter
            else:
                letters[position] = letter * kind * 2
    return "".join(letters)
