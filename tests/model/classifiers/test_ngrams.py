"""A bag of n-grams: words, buckets, sums, and what of it is refused."""

import time
from zlib import crc32

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from model.classifiers.classifier import NGRAMS_FILE
from model.classifiers.ngrams import (
    LARGEST,
    MOST_BUCKETS,
    MOST_CHARACTERS,
    BagOfNgrams,
    Characters,
    buckets_of,
    load_ngrams,
    save_ngrams,
    words_of,
)
from model.errors import InputError

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
    bag = BagOfNgrams(weights, 0.1)
    texts = ["Good good", "not GOOD", "good", "bad", ""]  # good, good good; not, good, not good
    expected = [5 / 2**0.5, (5 - 9) / 3**0.5, 5, 0, 0]
    np.testing.assert_allclose(bag.log_odds(texts), expected, rtol=1e-6)


def test_no_text_is_surer_than_the_largest_log_odds():
    bag = BagOfNgrams(np.full(8, 127, np.int8), 1.0)
    assert bag.log_odds(["a b c d e"]) == [LARGEST]
    assert BagOfNgrams(-bag.weights, 1.0).log_odds(["a b c d e"]) == [-LARGEST]


@pytest.mark.parametrize("scale", [0.25, LARGEST])
def test_it_is_the_same_after_saving_and_loading(tmp_path, scale):
    bag = BagOfNgrams(np.arange(-50, 50, dtype=np.int8), scale)
    loaded = load_ngrams(tmp_path, save_ngrams(tmp_path, bag))
    assert loaded.weights.dtype == np.int8
    assert (loaded.weights == bag.weights).all()
    assert loaded.scale == scale


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"buckets": 101, "scale": 1.0}, "tensor weights"),
        ({"buckets": MOST_BUCKETS + 1, "scale": 1.0}, "ngrams.buckets is"),
        ({"buckets": 100, "scale": float("nan")}, "ngrams.scale is nan"),
        ({"buckets": 100, "scale": 10**400}, "ngrams.scale is too large a number"),
        ({"buckets": 100, "scale": 1e308}, "ngrams.scale is 1e.308; it must be above zero"),
        ({"buckets": 100, "scale": -0.1}, "ngrams.scale is -0.1"),
        ({"buckets": 100, "scale": 0.0}, "ngrams.scale is 0.0"),
        ({"buckets": 0, "scale": 1.0}, "ngrams.buckets is 0"),
        (None, "ngrams is None; it must be a section"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, description, message):
    save_ngrams(tmp_path, BagOfNgrams(np.ones(100, np.int8), 1.0))
    with pytest.raises(InputError, match=message):
        load_ngrams(tmp_path, description)


def test_weights_of_another_dtype_are_refused(tmp_path):
    save_file({"weights": torch.ones(100)}, tmp_path / NGRAMS_FILE)
    with pytest.raises(InputError, match="not 8-bit integers"):
        load_ngrams(tmp_path, {"buckets": 100, "scale": 1.0})


def test_so_many_characters_are_remembered_and_no_more():
    characters = Characters()
    text = "".join(map(chr, range(0x4E00, 0x4E00 + MOST_CHARACTERS + 5)))  # of Chinese
    assert text.translate(characters) == text
    assert len(characters) == MOST_CHARACTERS
