"""Words and phrases that some texts have more often than others, by log-odds with a prior.

The statistic is that of Monroe, Colaresi and Quinn (2008), "Fightin' Words": log-odds with an
informative Dirichlet prior. A phrase has one to three words and counts once per text.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..text.glyphs import aligned
from ..text.profiles import normalized
from .summary import Z

LEAST_TEXTS = 5  # with a phrase, for it to be tried
_MOST_PHRASES = 12  # listed in a comparison, after folding
_PRINTED = 6  # of those
_ERROR_RATE = 0.05  # of comparisons of groups that differ by chance only, those that list a phrase
_SHUFFLES = 100  # of the groups, to find how wide the intervals must be
_LONGER = 2 / 3  # of a phrase's texts with a longer one around it, so that the longer one is named
_SAME = 1 / 2  # of a phrase's texts with the leading one, so that it is folded into that one
_COPIED = 0.9  # the same for a phrase that shares no word, but most texts, with the leading one

Counts = NDArray[np.int64]
_Reals = NDArray[np.float64]
_Mask = NDArray[np.bool_]

_WORD = r"[^\W_]+(?:['\u2019][^\W_]+)*"
# What may stand between the words of a phrase: white space, quotes, hyphens, asterisks.
_GAP = r"\s'\u2018\u2019\"\u201c\u201d*-"
_END = "\n"  # of a text
_TOKENS = re.compile(rf"{_WORD}|{_END}|[^\w{_GAP}]+")
_CHUNK = 1024  # texts split together

# What a word of a phrase may be. Only a phrase with a content word is tried.
_CONTENT, _OPENS, _CLOSES, _AUXILIARY, _NEGATION = 1, 2, 4, 8, 16
_LISTED = {
    _NEGATION | _OPENS: """
        not no never neither nor cannot without dont doesnt didnt cant wont isnt wasnt arent werent
        wouldnt couldnt shouldnt hasnt havent hadnt aint
    """,
    _AUXILIARY: """
        am is are was were be been being have has had having do does did doing can could will would
        shall should may might must
    """,
    _OPENS | _CLOSES: "again away back down off out over up",
    0: """
        a an the this that these those i me my mine myself we us our ours you your yours he him his
        she her hers it its itself they them their theirs who whom whose which what there here and
        or but if so because as while when where why how than then though although since until of to
        in on at by for from with into onto about above after before below between during through
        under upon within per via just very really too also only even still yet ever quite rather
        some any all both each few more most other another such same own much many every i'm i've
        i'd i'll im ive it's it'll that's there's he's she's they're they've we're we've we'll
        you're you've you'll what's who's let's etc
    """,
}
_KINDS = {word: kind for kind, words in _LISTED.items() for word in words.split()}


@dataclass(frozen=True)
class Phrase:
    """A phrase that the chosen texts have more often than the others."""

    name: str  # its words, in lower case
    chosen: int  # texts with it, of the chosen ones
    others: int  # texts with it, of the others
    log_odds: float
    low: float  # of the interval
    high: float
    texts: Counts  # the numbers of all texts with it, chosen or not
    folded: tuple[tuple[str, int], ...] = ()  # phrases in mostly the same texts, with `chosen`

    @property
    def in_words(self) -> str:
        return f"{self.log_odds:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Comparison:
    """What chosen texts have that others have not."""

    chosen: int  # texts
    others: int
    tried: int  # phrases
    differing: int  # phrases whose interval is above zero, before folding
    phrases: list[Phrase]  # the clearest difference first

    def lines(self, side: str) -> list[str]:
        """Return a table for people, nothing without phrases. side: names the chosen texts."""
        if not self.phrases:
            return []
        rows = [(f"more frequent in {side} texts", f"of {self.chosen:,}",
                  f"of {self.others:,} others", "log-odds, interval")]  # fmt: skip
        rows += [
            (phrase.name, f"{phrase.chosen:,}", f"{phrase.others:,}", phrase.in_words)
            for phrase in self.phrases[:_PRINTED]
        ]
        return aligned(rows)


class Phrases:
    """The phrases of texts, and the texts that have them.

    >>> phrases = Phrases(["The lid broke.", "It did not work.", "Lovely."])
    >>> negative, positive = phrases.compare(np.array([0, 0, 1]))
    >>> [phrase.name for phrase in negative.phrases]

    names: of the phrases, each in LEAST_TEXTS texts or more. texts, phrase_of: each text
    of each phrase, phrase by phrase. words: [T], the different words of each text.
    """

    def __init__(self, texts: Iterable[str]):
        ids, vocabulary = _encoded(texts)
        ends = ids == 0
        places = np.cumsum(ends) - ends
        is_word = np.array([word[0].isalnum() for word in vocabulary])
        pairs = np.unique((places * len(vocabulary) + ids)[is_word[ids]])
        self.words: Counts = np.bincount(pairs // len(vocabulary), minlength=int(ends.sum()))
        # Rarer words are in no phrase that is tried; they are numbered as breaks.
        is_frequent = is_word & (np.bincount(ids, minlength=len(vocabulary)) >= LEAST_TEXTS)
        renumbered = np.where(is_frequent, np.cumsum(is_frequent), 0)
        vocabulary = [word for word, is_in in zip(vocabulary, is_frequent, strict=True) if is_in]
        found = _found(renumbered[ids], places, vocabulary)
        self.names = [name for names, _, _ in found for name in names]
        self.texts: Counts = np.concatenate([texts for _, texts, _ in found])
        sizes = np.concatenate([sizes for _, _, sizes in found])
        self._ends: Counts = np.cumsum(sizes)
        self.phrase_of: Counts = np.repeat(np.arange(len(self.names)), sizes)

    def texts_of(self, phrase: int) -> Counts:
        return self.texts[self._ends[phrase - 1] if phrase else 0 : self._ends[phrase]]

    def compare(self, groups: Counts, most: int = _MOST_PHRASES) -> list[Comparison]:
        """Return what the texts of each group have more often than those of all other groups.

        A phrase is listed if its interval excludes zero, and if it is in a larger fraction of the
        group's texts than of all texts. The intervals are as wide as the number of
        comparisons demands: if the texts were assigned to the groups by chance, then in 19 cases of
        20 no phrase of any group would be listed (Westfall and Young 1993). Shuffled groups show
        how wide that is.

        groups: [T], the group of each text, counted from 0; -1: in no comparison. most: phrases
        listed for each group, after folding.
        """
        tables = _Tables(self, groups)
        found = []
        for group, (here, log_odds, deviation) in enumerate(
            zip(*tables.scores(groups), strict=True)
        ):
            size, tried = int((groups == group).sum()), len(tables.phrases)
            z, margin = log_odds / deviation, tables.critical * deviation
            # The statistic is by words, of which some groups have more a text.
            is_in_more = here * len(tables.texts) > tables.totals * size
            is_listed = (z > tables.critical) & is_in_more
            # Of equal ones the longest comes first, which is the last of all phrases.
            order = len(z) - 1 - np.argsort(-z[::-1], kind="stable")
            order = order[is_listed[order]].tolist()
            phrases = [
                Phrase(
                    self.names[tables.phrases[n]],
                    int(here[n]),
                    int(tables.totals[n] - here[n]),
                    float(log_odds[n]),
                    float(log_odds[n] - margin[n]),
                    float(log_odds[n] + margin[n]),
                    self.texts_of(tables.phrases[n]),
                )
                for n in order
            ]
            folded = _folded(phrases, groups == group, most)
            found.append(Comparison(size, len(tables.texts) - size, tried, len(order), folded))
        return found


class _Tables:
    """How many texts of each group have each phrase, for groups and for shuffled ones."""

    def __init__(self, phrases: Phrases, groups: Counts):
        self.texts = np.flatnonzero(groups >= 0)
        self._count = int(groups.max(initial=-1)) + 1
        self._words = phrases.words[self.texts]
        is_compared = groups[phrases.texts] >= 0
        texts, numbers = phrases.texts[is_compared], phrases.phrase_of[is_compared]
        counts = np.bincount(numbers, minlength=len(phrases.names))
        is_tried = counts >= LEAST_TEXTS
        self.phrases: Counts = np.flatnonzero(is_tried)
        self.totals: Counts = counts[is_tried]
        places = np.cumsum(is_tried) - 1
        self._texts = texts[is_tried[numbers]]
        self._places = places[numbers[is_tried[numbers]]]
        self.critical = self._critical_value(groups)

    def scores(self, groups: Counts) -> tuple[Counts, _Reals, _Reals]:
        shape = self._count, len(self.phrases)
        cells = groups[self._texts] * shape[1] + self._places
        here = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
        words = np.bincount(groups[self.texts], self._words, minlength=shape[0])[:, np.newaxis]
        return here, *_log_odds_of(here, self.totals - here, words, words.sum() - words)

    def _critical_value(self, groups: Counts) -> float:
        """Return the z-score that no phrase of shuffled groups exceeds, in 95 % of shuffles."""
        if not len(self.phrases):
            return Z
        rng, shuffled, extremes = np.random.default_rng(0), groups.copy(), []
        for _ in range(_SHUFFLES):
            shuffled[self.texts] = rng.permutation(groups[self.texts])
            _, log_odds, deviation = self.scores(shuffled)
            extremes.append((log_odds / deviation).max())
        return max(Z, float(np.quantile(extremes, 1 - _ERROR_RATE)))


def pattern_of(phrase: str) -> re.Pattern[str]:
    words = (re.escape(word).replace("'", "['\u2019]") for word in phrase.split(" "))
    gap = f"[_{_GAP}]+"
    return re.compile(rf"(?<![^\W_]){gap.join(words)}(?![^\W_])", re.IGNORECASE)


def _log_odds_of(
    chosen: Any, others: Any, chosen_words: Any, other_words: Any
) -> tuple[_Reals, _Reals]:
    """Return each phrase's log-odds, chosen against other texts, and their standard deviations.

    chosen, others: the texts with each phrase. chosen_words, other_words: the number of words
    of the texts, each counted once per text. The prior has each phrase's frequency in all texts,
    and the weight of the smaller side (Monroe et al. 2008, equations 15, 16 and 20).
    """
    weight = np.maximum(np.minimum(chosen_words, other_words), 1)
    prior = weight * (chosen + others) / np.maximum(chosen_words + other_words, 1)
    here, there = chosen + prior, others + prior
    # A phrase that is all of a text's words leaves nothing; half a word keeps the odds finite.
    rest_here = np.maximum(chosen_words + weight - here, 0.5)
    rest_there = np.maximum(other_words + weight - there, 0.5)
    log_odds = np.log(here / rest_here) - np.log(there / rest_there)
    return log_odds, np.sqrt(1 / here + 1 / there)


def _encoded(texts: Iterable[str]) -> tuple[Counts, list[str]]:
    """Return the tokens of all texts as numbers, and their names; 0 is the end of a text."""
    known: defaultdict[str, int] = defaultdict(lambda: len(known), {_END: 0})
    parts, left = [np.zeros(0, np.int64)], iter(texts)
    while chunk := [text.replace(_END, " ") + _END for text in islice(left, _CHUNK)]:
        text = normalized("NFC", "".join(chunk)).replace("\u2019", "'").casefold()
        tokens = _TOKENS.findall(text)
        parts.append(np.fromiter(map(known.__getitem__, tokens), np.int64, len(tokens)))
    return np.concatenate(parts), list(known)


def _found(
    ids: Counts, places: Counts, vocabulary: Sequence[str]
) -> list[tuple[list[str], Counts, Counts]]:
    """Return the phrases of each length: names, the texts of one after the other, how many.

    ids: the words of all texts, counted from 1; 0 is a break. places: the text of each.
    """
    kinds = np.array([0, *map(_kind, vocabulary)])[ids]
    names, base = ["", *vocabulary], len(vocabulary) + 1
    text_count = int(places.max(initial=0)) + 1
    found = []
    for length in (1, 2, 3):
        count = max(len(ids) - length + 1, 0)
        windows = [ids[n : n + count] for n in range(length)]
        own = [kinds[n : n + count] for n in range(length)]
        is_phrase = (own[0] & _OPENS > 0) & (own[-1] & _CLOSES > 0)
        if length == 3:  # "did not work"
            negated = (own[0] & _AUXILIARY > 0) & (own[1] & _NEGATION > 0)
            is_phrase |= negated & (own[2] & _CLOSES > 0)
        is_phrase &= np.bitwise_or.reduce(own) & _CONTENT > 0
        is_phrase &= np.logical_and.reduce([window > 0 for window in windows])
        keys = np.zeros(int(is_phrase.sum()), np.int64)
        for window in windows:
            keys = keys * base + window[is_phrase]
        distinct, numbers = np.unique(keys, return_inverse=True)
        pairs = np.unique(numbers * text_count + places[:count][is_phrase])
        sizes = np.bincount(pairs // text_count, minlength=len(distinct))
        is_tried = sizes >= LEAST_TEXTS
        texts = pairs[is_tried[pairs // text_count]] % text_count
        chosen = [
            " ".join(names[key // base**n % base] for n in reversed(range(length)))
            for key in distinct[is_tried].tolist()
        ]
        found.append((chosen, texts, sizes[is_tried]))
    return found


def _kind(word: str) -> int:
    if word in _KINDS:
        return _KINDS[word]
    if word.endswith("n't"):
        return _NEGATION | _OPENS
    if not any(map(str.isalpha, word)):
        return _OPENS | _CLOSES
    return _CONTENT | _OPENS | _CLOSES


def _folded(phrases: Sequence[Phrase], chosen: _Mask, most: int) -> list[Phrase]:
    """Return the leading phrases, each with those that are in mostly the same texts.

    phrases: the clearest difference first.
    """
    texts = [phrase.texts[chosen[phrase.texts]] for phrase in phrases]
    words = [{w for w in phrase.name.split() if _kind(w) & _CONTENT} for phrase in phrases]
    left = dict.fromkeys(range(len(phrases)))
    leading: list[Phrase] = []
    while left and len(leading) < most:
        number = next(iter(left))
        lead = _longest(number, phrases, left)
        family = np.zeros_like(chosen)
        family[texts[number]] = family[texts[lead]] = True
        own, variants = words[number] | words[lead], []
        for other in list(left):
            shared = family[texts[other]].mean()
            is_copied = shared >= _COPIED and len(texts[other]) >= _SAME * family.sum()
            is_same = is_copied or (shared >= _SAME and not own.isdisjoint(words[other]))
            if other in (number, lead) or is_same:
                family[texts[other]] = True
                variants += [(phrases[other].name, phrases[other].chosen)] * (other != lead)
                del left[other]
        leading.append(replace(phrases[lead], folded=tuple(variants)))
    return leading


def _longest(number: int, phrases: Sequence[Phrase], left: Iterable[int]) -> int:
    """Return the longest phrase around a phrase that most of its texts have; else itself."""
    own, best = phrases[number], number
    for other in left:
        phrase = phrases[other]
        if f" {own.name} " in f" {phrase.name} " and phrase.chosen >= _LONGER * own.chosen:
            best = max(best, other, key=lambda n: phrases[n].name.count(" "))
    return best
