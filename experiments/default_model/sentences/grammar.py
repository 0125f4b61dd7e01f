"""Make everyday sentences with our own grammar; reviews contain too few of them."""

import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.default_model.sentences.everyday import content, everyday_wordings
from experiments.default_model.sentences.examples import normalized
from experiments.default_model.sentences.noise import noisy

Words = Mapping[str, Sequence[str]]  # by slot

SLOT = re.compile(r"\{(\w+)\}")
ARTICLE = re.compile(r"\b([Aa]) ((?!uni[^n]|us[eu]|eu|one)[aeiou])")  # an article that needs an n
EVERYWHERE = 0.3  # of the words for a slot that has words of the domain, too
ENDINGS = ("", ".", ".", ".", "!", "!!", "!!!", "...")
NEUTRAL_ENDINGS = ("", ".", ".", ".")  # people do not shout plain facts


class Sentence(NamedTuple):
    """A sentence of the grammar."""

    text: str
    plain: str  # before it was dressed
    label: str  # positive, negative, neutral, or stars 1 to 5
    kind: str


# Templates by kind and label.
GRAMMAR: Mapping[str, Mapping[str, Sequence[str]]] = content("grammar.toml")
# The words for slots: in sentences of every domain, and of one.
WORDS: Words = content("words.toml")
DOMAINS: Mapping[str, Words] = content("domains.toml")


def draw(chooser: random.Random) -> Sentence:
    """Draw a sentence that is no everyday sentence, nor one with mistakes.

    All kinds are equally likely, and so are all labels of a kind.
    """
    while True:
        sentence = drawn_freely(chooser)
        wordings = {normalized(sentence.text), normalized(sentence.plain)}
        if not wordings & everyday_wordings():
            return sentence


def drawn_freely(chooser: random.Random) -> Sentence:
    """Draw any sentence of the grammar."""
    kind = chooser.choice(list(GRAMMAR))
    label = chooser.choice(list(GRAMMAR[kind]))
    plain = filled(chooser.choice(GRAMMAR[kind][label]), chooser)
    return Sentence(dressed(plain, label, chooser), plain, label, kind)


def filled(template: str, chooser: random.Random) -> str:
    """Fill all slots of a template in one domain; words may have slots, too."""
    domain = DOMAINS[chooser.choice(list(DOMAINS))]
    while "{" in template:
        template = SLOT.sub(lambda slot: word_for(slot[1], domain, chooser), template)
    return ARTICLE.sub(r"\1n \2", template)


def word_for(slot: str, domain: Words, chooser: random.Random) -> str:
    """Draw a word for a slot, mostly one of the domain where it has any."""
    everywhere = WORDS.get(slot)
    of_domain = domain.get(slot)
    if everywhere and (not of_domain or chooser.random() < EVERYWHERE):
        return chooser.choice(everywhere)
    return chooser.choice(of_domain or ())


def dressed(plain: str, label: str, chooser: random.Random) -> str:
    """Return a sentence as people type it: with an ending, in capitals, or with mistakes."""
    endings = NEUTRAL_ENDINGS if label in ("neutral", "3") else ENDINGS
    text = plain
    if plain[-1].isalnum():
        text += chooser.choice(endings)
    manner = chooser.random()
    if manner < 0.52:
        return text[0].upper() + text[1:]
    if manner < 0.61:
        return text.upper()
    if manner < 0.85:
        return noisy(text[0].upper() + text[1:], chooser)
    return plain.lower()
