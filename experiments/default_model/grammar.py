"""Make everyday sentences with our own grammar; reviews contain too few of them.

python -m experiments.default_model.grammar --sentences 20
"""

import random
import re
import string
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from configs import command
from experiments.default_model.everyday import everyday_wordings
from experiments.default_model.wording import normalized

HERE = Path(__file__).resolve().parent
WORDS = "words"  # the table of grammar.toml with words for slots; the others are kinds
SLOT = re.compile(r"\{(\w+)\}")
ENDINGS = ("", ".", ".", ".", "!", "!!", "!!!", "...")
NEUTRAL_ENDINGS = ("", ".", ".", ".")  # people do not shout plain facts


class Sentence(NamedTuple):
    """A sentence of the grammar."""

    text: str
    label: str  # positive, negative, neutral, or stars 1 to 5
    kind: str


@dataclass(frozen=True)
class Options:
    """Print sentences of the grammar with their kinds and labels."""

    sentences: int = 20
    """Number of sentences."""
    seed: int = 0
    """Seed that draws the sentences."""


def main() -> None:
    options = command.parse(Options, __doc__)
    chooser = random.Random(options.seed)
    for _ in range(options.sentences):
        sentence = draw(chooser)
        print(f"{sentence.kind:<14}{sentence.label:<10}{sentence.text}")


@cache
def grammar() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return templates by kind and label, and under `words` the words for their slots."""
    return tomllib.loads((HERE / "grammar.toml").read_text(encoding="utf-8"))


def kinds() -> list[str]:
    """Return the kinds of sentences."""
    return [kind for kind in grammar() if kind != WORDS]


def draw(chooser: random.Random) -> Sentence:
    """Draw a sentence that is not in the test set.

    All kinds are equally likely, and so are all labels of a kind.
    """
    while True:
        sentence = drawn_freely(chooser)
        if normalized(sentence.text) not in everyday_wordings():
            return sentence


def drawn_freely(chooser: random.Random) -> Sentence:
    """Draw any sentence of the grammar."""
    kind = chooser.choice(kinds())
    label = chooser.choice(list(grammar()[kind]))
    plain = filled(chooser.choice(grammar()[kind][label]), chooser)
    return Sentence(dressed(plain, label, chooser), label, kind)


def filled(template: str, chooser: random.Random) -> str:
    """Fill all slots of a template; words may have slots, too."""
    words = grammar()[WORDS]
    while "{" in template:
        template = SLOT.sub(lambda slot: chooser.choice(words[slot[1]]), template)
    return template


def dressed(plain: str, label: str, chooser: random.Random) -> str:
    """Return a sentence as people type it: with an ending, in capitals, or with mistakes."""
    endings = NEUTRAL_ENDINGS if label in ("neutral", "3") else ENDINGS
    text = plain
    if plain[-1].isalnum():
        text += chooser.choice(endings)
    manner = chooser.random()
    if manner < 0.6:
        return text[0].upper() + text[1:]
    if manner < 0.7:
        return text.upper()
    if manner < 0.85:
        return mistyped(text, chooser)
    return plain.lower()


def mistyped(text: str, chooser: random.Random) -> str:
    """Return a text in which one to three letters are missing, doubled, swapped or wrong."""
    letters = list(text)
    for _ in range(chooser.randint(1, 3)):
        places = [i for i, letter in enumerate(letters[:-1]) if letter.isalpha() and i > 0]
        if not places:
            break
        place = chooser.choice(places)
        manner = chooser.randrange(4)
        if manner == 0:
            del letters[place]
        elif manner == 1:
            letters.insert(place, letters[place])
        elif manner == 2:
            letters[place], letters[place + 1] = letters[place + 1], letters[place]
        else:
            letters[place] = chooser.choice(string.ascii_lowercase)
    return "".join(letters)


if __name__ == "__main__":
    command.run(main)
