"""A corpus: the files of a prepared one, and the embedded one."""

import pickle
import shutil
from collections import Counter

import numpy as np
import pytest

from data_utils.corpus import LABELLED_SEEDS, SEEDS, embedded_corpus, open_corpus
from data_utils.synthetic import synthetic_reviews
from tests.support.runs import ROOT


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(ROOT / "tests/fixtures/v1/corpus", tmp_path / "corpus")


def test_a_file_that_is_replaced_or_removed_stays_readable(folder):
    split = open_corpus(folder).splits["train"]
    before = np.array(split.tokens)
    (folder / "shorter").write_bytes(b"x")
    (folder / "shorter").replace(folder / "train.bin")
    (folder / "train.offsets").unlink()
    np.testing.assert_array_equal(split.tokens, before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(split)).tokens, before)


def test_reviews_are_balanced_varied_and_have_sentiment_words_under_both_labels():
    reviews = list(synthetic_reviews(3000, seed=0))
    positive = sum(review.label for review in reviews)
    assert abs(positive - 1500) < 4 * (3000 / 4) ** 0.5  # four standard deviations
    assert len({review.text for review in reviews}) > 2900
    assert len(Counter(word for review in reviews for word in review.text.split())) > 500
    reviews = list(synthetic_reviews(3000, seed=0))
    for word in ("sturdy", "flimsy"):
        labels = [review.label for review in reviews if word in review.text]
        positive = sum(labels) / len(labels)
        assert 0.1 < positive < 0.9


def test_the_embedded_corpus_is_always_the_same_and_no_split_shares_a_seed():
    seeds = [*SEEDS.values(), *LABELLED_SEEDS.values()]
    assert len(set(seeds)) == len(seeds)
    corpus = embedded_corpus()
    assert corpus.fingerprint == "a71433123194056d 8c8f170991dca9fc 247e2d246ecfa893"
    assert corpus.splits["train"].tokens[:2].tobytes() == b"\n "
