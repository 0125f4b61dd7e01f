"""A bag of n-grams: log-odds from the words of a text and the pairs of neighbours, or its letters.

A model that processes bytes one by one forgets words; a bag of n-grams forgets none, but ignores
their position (Wang and Manning 2012). Runs of letters show the language of a text. Each n-gram is
hashed to a bucket; no vocabulary is stored (Weinberger et al. 2009, arXiv 0902.2206).
"""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from zlib import crc32

import numpy as np

_LETTERS = (2, 3)  # in a run of letters
MOST_BUCKETS = 2**24
MOST_CHARACTERS = 10_000  # whose simplified form is cached
LARGEST = 30.0  # log-odds; an upper limit
_APOSTROPHES = "'\u2019"  # dropped: "dont" is "don't"

_NgramsOf = Callable[[Sequence[str]], Iterator[str]]  # the n-grams of a text's words


def _words_and_pairs(words: Sequence[str]) -> Iterator[str]:
    return chain(words, map(" ".join, pairwise(words)))


def runs_of_letters(words: Sequence[str]) -> Iterator[str]:
    """Yield the runs of two and three letters of each word, with a blank on both sides of it.

    Words with a digit or a sign have no language.
    """
    for word in filter(str.isalpha, words):
        padded = f" {word} "
        for length in _LETTERS:
            for first in range(len(padded) - length + 1):
                yield padded[first : first + length]


def log_odds(
    texts: Sequence[str], weights: np.ndarray, scale: float, ngrams_of: _NgramsOf = _words_and_pairs
) -> np.ndarray:
    """Return each text's log-odds, float32 [N].

    weights: int8, one for each bucket; scale: log-odds of a weight of 1. The sum of the weights of
    a text's n distinct n-grams, over the square root of n: a long text is surer than a short one,
    but not in proportion to its length.
    """
    buckets_by_text = [buckets_of(text, len(weights), ngrams_of) for text in texts]
    sums = np.array([weights[buckets].sum() for buckets in buckets_by_text], np.float64)
    roots = np.sqrt([max(len(buckets), 1) for buckets in buckets_by_text])
    return (scale * sums / roots).clip(-LARGEST, LARGEST).astype(np.float32)


class _Characters(dict[int, str]):
    """Maps characters for str.translate; entries are added as needed.

    One character at a time: for a whole text, Python would first sort every run of combining
    characters, in quadratic time.
    """

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(code))
        simplified = "".join(_simplified(part) for part in parts.lower())
        if len(self) < MOST_CHARACTERS:
            self[code] = simplified
        return simplified


def _simplified(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] in "LN":  # letters and digits
        return character
    if category[0] == "M" or character in _APOSTROPHES:  # accents, after their letters
        return ""
    # Each sign is a word, even if this Python's Unicode tables lack it.
    return f" {character} " if category[0] in "PS" or category == "Cn" else " "


_CHARACTERS = _Characters()


def _words_of(text: str) -> list[str]:
    """Return words in lower case without accents; each sign is a word."""
    return text.translate(_CHARACTERS).split()


def buckets_of(text: str, buckets: int, ngrams_of: _NgramsOf = _words_and_pairs) -> np.ndarray:
    hashes = {crc32(ngram.encode()) % buckets for ngram in ngrams_of(_words_of(text))}
    return np.fromiter(hashes, np.int64, len(hashes))
