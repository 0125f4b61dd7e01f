"""The sentences that the default model is trained on and held against."""

import random
from collections import Counter
from itertools import chain

import pytest

from experiments.default_model.everyday import APART, everyday_sentences, everyday_wordings
from experiments.default_model.grammar import (
    SLOT,
    WORDS,
    draw,
    drawn_freely,
    grammar,
    kinds,
    mistyped,
)
from experiments.default_model.wording import normalized

LABELS = {"positive", "negative", "neutral", "1", "2", "3", "4", "5"}


def test_everyday_sentences_are_many_different_and_balanced():
    sentences = everyday_sentences()
    counted = [sentence for sentence in sentences if sentence.kind not in APART]
    labels = Counter(sentence.label for sentence in counted)
    assert len(counted) >= 300
    assert labels["positive"] == labels["negative"]
    assert len({sentence.text for sentence in sentences}) == len(sentences)


def test_a_sentence_is_known_again_whatever_its_signs_and_capitals():
    assert normalized("I DON'T like it!!") == normalized("I dont like it.")
    assert normalized("👍 ") == "👍"
    assert normalized("👍") != normalized("👎")


def test_the_grammar_makes_no_everyday_sentence():
    chooser = random.Random(0)
    drawn = {normalized(draw(chooser).text) for _ in range(20_000)}
    freely = {normalized(drawn_freely(chooser).text) for _ in range(20_000)}
    assert not drawn & everyday_wordings()
    assert freely & everyday_wordings()  # so that the line above could fail


def test_every_slot_has_words_and_every_word_a_slot():
    tables = chain.from_iterable(by_label.values() for by_label in grammar().values())
    used = {slot for texts in tables for text in texts for slot in SLOT.findall(text)}
    assert used == set(grammar()[WORDS])


def test_the_grammar_draws_every_kind_and_label_and_the_same_ones_again():
    first, again = (random.Random(3), random.Random(3))
    sentences = [draw(first) for _ in range(2000)]
    assert sentences == [draw(again) for _ in range(2000)]
    assert {sentence.kind for sentence in sentences} == set(kinds())
    assert {sentence.label for sentence in sentences} == LABELS
    assert not any("{" in sentence.text or not sentence.text.strip() for sentence in sentences)


@pytest.mark.parametrize("text", ["good", "a", ":)", "👍"])
def test_a_mistyped_text_keeps_its_first_sign_and_its_emoji(text):
    for seed in range(20):
        result = mistyped(text, random.Random(seed))
        assert result[0] == text[0]
        assert text.isalpha() or result == text
