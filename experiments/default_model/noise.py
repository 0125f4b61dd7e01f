"""Write a text as people type it: with mistakes, in capitals, without apostrophes."""

import random
import re
from collections.abc import Callable

WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?")
CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"
SHORTEST = 4  # letters of a word that is mistyped; "not" and "no" stay
NEIGHBOURS = {  # on the keyboard
    letter: row[max(place - 1, 0) : place] + row[place + 1 : place + 2]
    for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    for place, letter in enumerate(row)
}
BY_EAR = {  # wrong spellings that are common
    "again": ("agian", "agen"),
    "amazing": ("amazin", "amazeing", "ammazing"),
    "and": ("n", "an", "adn"),
    "are": ("r",),
    "awesome": ("awsome", "awsum"),
    "awful": ("aweful", "awfull"),
    "beautiful": ("beutiful", "beautifull", "butiful"),
    "because": ("cuz", "becuz", "becuase", "bc"),
    "believe": ("beleive", "belive"),
    "boring": ("borring", "boreing"),
    "bought": ("brought", "bougt", "bot"),
    "broke": ("brok", "broek"),
    "comfortable": ("comfertable", "confortable", "comfy"),
    "could": ("cud", "coud"),
    "definitely": ("definately", "definitly", "defiantly"),
    "delicious": ("delishus", "delicous", "delicius"),
    "disappointed": ("dissapointed", "disapointed", "dissappointed"),
    "disappointing": ("dissapointing", "disapointing"),
    "disappoints": ("dissapoints", "disapoints"),
    "enough": ("enuf", "enouhg"),
    "everyone": ("everyon", "evryone"),
    "excellent": ("excelent", "exellent", "excellant"),
    "friend": ("freind", "frend"),
    "good": ("gud", "goood", "godo"),
    "great": ("gr8", "grate", "graet"),
    "have": ("hav", "ahve"),
    "horrible": ("horible", "horrable"),
    "it's": ("its",),
    "know": ("kno", "knwo"),
    "love": ("luv", "lov", "loove"),
    "loved": ("luved", "lovd"),
    "money": ("mony", "moeny"),
    "movie": ("moive", "movi"),
    "never": ("nevr", "nver", "neva"),
    "nothing": ("nothin", "nuthing", "nohting"),
    "people": ("ppl", "poeple"),
    "perfect": ("perfekt", "prefect", "perfact"),
    "please": ("plz", "pls"),
    "price": ("prise", "pirce"),
    "quality": ("qualty", "quailty", "qualitty"),
    "quickly": ("quikly", "quicly"),
    "quite": ("quiet",),
    "really": ("realy", "rly", "relly"),
    "received": ("recieved", "recived"),
    "recommend": ("recomend", "reccomend", "recommed"),
    "service": ("servise", "sevice", "serivce"),
    "should": ("shud", "shoud"),
    "stopped": ("stoped", "stopt"),
    "terrible": ("terible", "terrable", "terribel"),
    "thanks": ("thx", "thanx", "tanks"),
    "that": ("taht", "dat"),
    "the": ("teh", "da", "hte"),
    "their": ("there", "thier"),
    "they": ("thay", "tehy"),
    "this": ("tihs", "dis", "thsi"),
    "though": ("tho",),
    "too": ("to",),
    "very": ("verry", "vry", "vary"),
    "waste": ("waist", "wast"),
    "with": ("wiht", "wit", "w"),
    "wonderful": ("wonderfull", "wunderful"),
    "work": ("wrk", "wrok"),
    "works": ("werks", "wroks"),
    "worst": ("wurst", "worts"),
    "worth": ("wurth", "worht"),
    "would": ("wud", "woud"),
    "wrong": ("rong", "worng"),
    "you": ("u", "yu"),
    "your": ("ur", "youre"),
}


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
    for manner, share in manners:
        if chooser.random() < share:
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
    """Return a word with a letter missing, doubled, swapped, or of the key beside it.

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
        known = BY_EAR.get(word[0].lower())
        if known is None or chooser.random() < 0.55:
            return word[0]
        wrong = chooser.choice(known)
        if len(word[0]) > 1 and word[0].isupper():
            return wrong.upper()
        return wrong[0].upper() + wrong[1:] if word[0][0].isupper() else wrong

    return WORD.sub(spelled, text)


def without_apostrophes(text: str, chooser: random.Random) -> str:
    """Return a text without apostrophes, or with the curly ones of phones."""
    return re.sub(r"(?<=\w)'(?=\w)", chooser.choice(["", "", CURLY]), text)


def stretched(text: str, chooser: random.Random) -> str:
    """Return a text with a vowel of one word repeated."""
    places = [found.start() for found in re.finditer(r"(?<=[a-z])[aeiou](?=[a-z]{2})", text)]
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
