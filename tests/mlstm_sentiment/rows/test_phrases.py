"""Phrases by log-odds: the formula of the paper, computed again, and a planted phrase."""

import math
import re
import time

import numpy as np
import pytest

from mlstm_sentiment.reading.table_model import TableModel
from mlstm_sentiment.rows.phrases import _ERROR_RATE, LEAST_TEXTS, Phrases

FILLER = [f"{a}{b}{c}" for a in "bdfgk" for b in ("ra", "lo", "mi", "tu") for c in ("ven", "sor")]


def corpus(seed, size=400, planted="", share=0.3, rate=0.3):
    """Texts of random words and the group of each: 0, with the planted words in some, or 1."""
    rng = np.random.default_rng(seed)
    groups = (rng.random(size) > share).astype(int)
    texts = []
    for group in groups:
        words = " ".join(rng.choice(FILLER, rng.integers(6, 15)))
        is_planted = planted and group == 0 and rng.random() < rate
        texts.append(f"{words}. {planted.capitalize()}!" if is_planted else f"{words}.")
    return texts, groups


def by_the_paper(texts, groups, name):
    """Log-odds and variance of a phrase: Monroe et al. 2008, equations 15, 16 and 20."""
    words = [re.findall(r"[\w']+", text.lower()) for text in texts]
    has = [f" {name} " in f" {' '.join(own)} " for own in words]
    sizes = [len(set(own)) for own in words]
    y, n = ([sum(c for c, g in zip(column, groups, strict=True) if g == side) for side in (0, 1)]
            for column in (has, sizes))  # fmt: skip
    weight = min(n)
    prior = weight * sum(y) / sum(n)
    odds = [(y[s] + prior) / (n[s] + weight - y[s] - prior) for s in (0, 1)]
    variance = 1 / (y[0] + prior) + 1 / (y[1] + prior)
    return y, math.log(odds[0]) - math.log(odds[1]), variance


@pytest.mark.parametrize("planted", ["lid broke", "leaks", "did not work"])
def test_the_planted_phrase_comes_first_with_the_numbers_of_the_paper(planted):
    texts, groups = corpus(1, planted=planted)
    texts += ["Leaks, no lid; it did work, and broke nothing."] * 3
    groups = np.append(groups, [1] * 3)
    comparison, others = Phrases(texts).compare(groups)
    first = comparison.phrases[0]
    assert first.name == planted
    y, log_odds, variance = by_the_paper(texts, groups, planted)
    assert [first.chosen, first.others] == y
    assert first.log_odds == pytest.approx(log_odds, rel=1e-12)
    ratios = [(p.high - p.low) / (2 * p.log_odds) for p in comparison.phrases]
    assert 0 < ratios[0] == min(ratios) < 1  # the clearest first; no interval has zero
    critical = (first.high - first.log_odds) / math.sqrt(variance)
    assert critical == pytest.approx((first.log_odds - first.low) / math.sqrt(variance))
    assert critical > 1.96  # wider, since many phrases were tried
    with_it = {n for n, text in enumerate(texts) if re.search(rf"\b{planted}\b", text.lower())}
    assert set(first.texts.tolist()) == with_it
    assert [comparison.chosen, comparison.others] == [sum(groups == 0), sum(groups == 1)]
    assert planted not in [phrase.name for phrase in others.phrases]


def test_by_chance_phrases_are_listed_as_rarely_as_promised():
    found = [
        any(c.phrases for c in Phrases(texts).compare(groups))
        for texts, groups in (corpus(seed, 150) for seed in range(60))
    ]
    assert np.mean(found) <= 3 * _ERROR_RATE


def test_overlapping_phrases_are_folded_into_one():
    texts, groups = corpus(2, planted="the pump did not work after a week")
    (comparison, _) = Phrases(texts).compare(groups)
    (phrase,) = comparison.phrases
    assert phrase.name == "did not work"
    assert comparison.differing == 1 + len(phrase.folded)
    assert {("work", phrase.chosen), ("pump", phrase.chosen)} < set(phrase.folded)


def test_the_time_for_combining_characters_grows_with_their_number():
    """As phrases, and as the name of a group."""
    text, began = "a" + "\u0301\u0316" * 30_000, time.process_time()
    Phrases([text])
    TableModel("product").group_key(text)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("It did not work.", ["did not work", "not work", "work"]),
        ("it was not there for me, and then i did not", []),
        ("Good, not bad", ["bad", "good", "not bad"]),  # a comma ends a phrase
        ("a waste of money", ["money", "waste", "waste of money"]),
        ("Doesn\u2019t start!", ["doesn't start", "start"]),
        ("fell off off off", ["fell", "fell off", "fell off off"]),
        ("5 stars 5 stars", ["5 stars", "5 stars 5", "stars", "stars 5", "stars 5 stars"]),
        ("Well-made -- 'caf\u00e9' cafe\u0301", ["café", "café café", "made", "made café",
         "made café café", "well", "well made", "well made café"]),
        ("", []), ("...", []), ("12 34", []),
    ],
)  # fmt: skip
def test_the_phrases_of_a_text_count_once_and_have_a_word_that_says_something(text, names):
    phrases = Phrases([text] * LEAST_TEXTS)
    assert sorted(phrases.names) == names
    assert all(list(phrases.texts_of(n)) == [*range(LEAST_TEXTS)] for n in range(len(names)))
    assert Phrases([text] * (LEAST_TEXTS - 1)).names == []


def test_texts_outside_all_groups_are_not_compared():
    texts, groups = corpus(3, planted="lid broke")
    more, apart = [*texts, *["lid broke"] * 50], np.append(groups, [-1] * 50)
    assert [p.in_words for c in Phrases(more).compare(apart) for p in c.phrases] == [
        p.in_words for c in Phrases(texts).compare(groups) for p in c.phrases
    ]


@pytest.mark.parametrize("groups", [[], [0], [-1] * 9, [1] * 9, [0] * 9])
def test_without_two_groups_nothing_is_found(groups):
    comparisons = Phrases(["The lid broke."] * len(groups)).compare(np.array(groups, int))
    assert len(comparisons) == max(groups, default=-1) + 1
    assert not any(comparison.phrases for comparison in comparisons)
