"""A bag of n-grams: words, buckets, sums, and what of it is refused."""

import time
from zlib import crc32

import numpy as np
import pytest

from mlstm_sentiment.head.ngrams import LARGEST, MOST_CHARACTERS, buckets_of
from mlstm_sentiment.head.ngrams import _Characters as Characters
from mlstm_sentiment.head.ngrams import _words_of as words_of
from tests.support.heads import bag_of_ngrams

BUCKETS = 2**20


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop", ["dont", "stop"]),
        ("\u201cIt\u2019s\u201d OK", ["\u201c", "its", "\u201d", "ok"]),
        ("4/5!!", ["4", "/", "5", "!", "!"]),
        ("naïve CAFÉ", ["naive", "cafe"]),
        ("❤️ :-)", ["❤", ":", "-", ")"]),
        ("a\tb\u2003c\x00d", ["a", "b", "c", "d"]),
        ("\ufb01ne \u00bd", ["fine", "1", "\u2044", "2"]),
        (
            "\U0001f9ffok \U0001faf9",
            ["\U0001f9ff", "ok", "\U0001faf9"],
        ),  # the last: Unicode 15 or later
        ("", []),
    ],
)
def test_words(text, words):
    assert words_of(text) == words


def test_a_run_of_accents_takes_no_quadratic_time():
    begun = time.process_time()
    assert words_of("a" + "\u0301\u0323" * 200_000) == ["a"]
    assert time.process_time() - begun < 5  # 400,000 of them sorted as one run: minutes


def test_buckets_are_checksums_of_the_distinct_words_and_pairs():
    assert crc32(b"123456789") == 0xCBF43926  # the checksum's published test value
    runs = [b"so", b"good", b"so so", b"so good"]
    expected = sorted(crc32(run) % BUCKETS for run in runs)
    assert sorted(buckets_of("So so so good", BUCKETS).tolist()) == expected


def test_log_odds_are_the_sum_of_weights_over_the_root_of_their_number():
    weights = np.zeros(BUCKETS, np.int8)
    weights[crc32(b"good") % BUCKETS] = 50
    weights[crc32(b"not good") % BUCKETS] = -90
    bag = bag_of_ngrams(weights, 0.1)
    texts = ["Good good", "not GOOD", "good", "bad", ""]  # good, good good; not, good, not good
    expected = [5 / 2**0.5, (5 - 9) / 3**0.5, 5, 0, 0]
    np.testing.assert_allclose(bag.log_odds(texts), expected, rtol=1e-6)


def test_no_text_is_surer_than_the_largest_log_odds():
    bag = bag_of_ngrams(np.full(8, 127, np.int8), 1.0)
    assert bag.log_odds(["a b c d e"]) == [LARGEST]
    assert bag_of_ngrams(-bag.weights, 1.0).log_odds(["a b c d e"]) == [-LARGEST]


def test_so_many_characters_are_remembered_and_no_more():
    characters = Characters()
    text = "".join(map(chr, range(0x4E00, 0x4E00 + MOST_CHARACTERS + 5)))  # of Chinese
    assert text.translate(characters) == text
    assert len(characters) == MOST_CHARACTERS
