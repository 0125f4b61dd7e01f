"""Write a text as people type it: with mistakes, in capitals, without apostrophes."""

import random
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?")
CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"
SHORTEST = 4  # letters of a word that is mistyped; "not" and "no" stay
NEIGHBOURS = {  # on the keyboard
    letter: row[max(place - 1, 0) : place] + row[place + 1 : place + 2]
    for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    for place, letter in enumerate(row)
}
BY_EAR = tomllib.loads(Path(__file__).with_name("spellings.toml").read_text(encoding="utf-8"))


def noisy(text: str, chooser: random.Random) -> str:
    """Return a text with one or more kinds of noise; its meaning stays."""
    manners: tuple[tuple[Callable[[str, random.Random], str], float], ...] = (
        (misspelled, 0.5),
        (mistyped, 0.7),
        (without_apostrophes, 0.6),
        (stretched, 0.12),
        (shouted, 0.12),
        (with_marks, 0.2),
    )
    for manner, probability in manners:
        if chooser.random() < probability:
            text = manner(text, chooser)
    return text.lower() if chooser.random() < 0.35 else text


def mistyped(text: str, chooser: random.Random) -> str:
    """Return a text in which about every eighth word has a slip of the fingers."""
    words = [word for word in WORD.finditer(text) if len(word[0]) >= SHORTEST]
    count = min(len(words), 1 + chooser.randint(0, 1 + len(words) // 4))
    for word in sorted(chooser.sample(words, count), key=re.Match.start, reverse=True):
        text = text[: word.start()] + slipped(word[0], chooser) + text[word.end() :]
    return text


def slipped(word: str, chooser: random.Random) -> str:
    """Return a word with a letter missing, doubled, swapped, or of the key next to it.

    The first letter stays.
    """
    place = chooser.randrange(1, len(word) - 1)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    manner = chooser.randrange(4)
    if manner == 0 or not letter.isalpha():
        return before + after
    if manner == 1:
        return before + 2 * letter + after
    if manner == 2:
        return before + after[0] + letter + after[1:]
    wrong = chooser.choice(NEIGHBOURS[letter.lower()])
    return before + (wrong.upper() if letter.isupper() else wrong) + after


def misspelled(text: str, chooser: random.Random) -> str:
    """Return a text in which some words are written as many people write them."""

    def spelled(word: re.Match[str]) -> str:
        misspellings = BY_EAR.get(word[0].lower())
        if misspellings is None or chooser.random() < 0.55:
            return word[0]
        wrong = chooser.choice(misspellings)
        if len(word[0]) > 1 and word[0].isupper():
            return wrong.upper()
        return wrong[0].upper() + wrong[1:] if word[0][0].isupper() else wrong

    return WORD.sub(spelled, text)


def without_apostrophes(text: str, chooser: random.Random) -> str:
    """Return a text without apostrophes, or with the curly ones of phones."""
    return re.sub(r"(?<=\w)'(?=\w)", chooser.choice(["", "", CURLY]), text)


def stretched(text: str, chooser: random.Random) -> str:
    """Return a text with a vowel of one word repeated."""
    places = [match.start() for match in re.finditer(r"(?<=[a-z])[aeiou](?=[a-z]{2})", text)]
    if not places:
        return text
    place = chooser.choice(places)
    return text[:place] + text[place] * chooser.randint(3, 6) + text[place + 1 :]


def shouted(text: str, chooser: random.Random) -> str:
    """Return a text with one or two words in capitals, or all."""
    words = list(WORD.finditer(text))
    if len(words) < 3 or chooser.random() < 0.5:
        return text.upper()
    for word in chooser.sample(words, chooser.randint(1, 2)):
        text = text[: word.start()] + word[0].upper() + text[word.end() :]
    return text


def with_marks(text: str, chooser: random.Random) -> str:
    """Return a text whose last mark is repeated or left out."""
    ending = re.search(r"[.!?]+$", text)
    if ending is None:
        return text
    mark = ending[0][0]
    repeated = mark * chooser.choice([0, 2, 3, 4, 7])
    return text[: ending.start()] + (repeated or ("" if len(text) > 1 else mark))
