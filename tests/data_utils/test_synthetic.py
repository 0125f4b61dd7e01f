"""The embedded reviews: reproducible, balanced, varied, and not to be solved by counting words."""

from collections import Counter

from data_utils.corpus import LABELLED_SEEDS, SEEDS, embedded_corpus
from data_utils.synthetic import synthetic_reviews


def test_reviews_are_balanced_and_varied():
    reviews = list(synthetic_reviews(3000, seed=0))
    positive = sum(review.label for review in reviews)
    assert abs(positive - 1500) < 4 * (3000 / 4) ** 0.5  # four standard deviations
    assert len({review.text for review in reviews}) > 2900
    assert len(Counter(word for review in reviews for word in review.text.split())) > 500


def test_sentiment_words_occur_under_both_labels():
    reviews = list(synthetic_reviews(3000, seed=0))
    for word in ("sturdy", "flimsy"):
        labels = [review.label for review in reviews if word in review.text]
        positive = sum(labels) / len(labels)
        assert 0.1 < positive < 0.9


def test_no_split_shares_a_seed():
    seeds = [*SEEDS.values(), *LABELLED_SEEDS.values()]
    assert len(set(seeds)) == len(seeds)


def test_the_embedded_corpus_is_always_the_same():
    corpus = embedded_corpus()
    assert corpus.fingerprint == "a71433123194056d 8c8f170991dca9fc 247e2d246ecfa893"
    assert corpus.splits["train"].tokens[:2].tobytes() == b"\n "
