"""The sentences by which models are chosen and compared."""

from collections import Counter

import pytest

from experiments.default_model.everyday import APART, TEST, VALIDATION, everyday_sentences


@pytest.mark.parametrize("file", [TEST, VALIDATION])
def test_everyday_sentences_are_many_different_and_balanced(file):
    sentences = everyday_sentences(file)
    scored = [sentence for sentence in sentences if sentence.kind not in APART]
    labels = Counter(sentence.label for sentence in scored)
    assert len(scored) >= 300
    assert labels["positive"] == labels["negative"]
    assert len({sentence.text for sentence in sentences}) == len(sentences)


def test_models_are_chosen_by_other_sentences_than_they_are_tested_on():
    tested, chosen = (
        {sentence.text.casefold().strip(".!") for sentence in everyday_sentences(file)}
        for file in (TEST, VALIDATION)
    )
    assert not tested & chosen
