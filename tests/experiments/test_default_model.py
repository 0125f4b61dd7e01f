"""The sentences by which models are chosen and compared, and how methods are judged by them."""

import json
from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import f1_score

from experiments.default_model.everyday import APART, TEST, VALIDATION, everyday_sentences
from experiments.default_model.methods import Answers
from experiments.default_model.remarks import (
    Band,
    describe_remarks,
    fit_band,
    own_remarks,
    read_remarks,
    three_classes,
)
from experiments.default_model.study import TestSet as SetOfTexts
from experiments.default_model.study import calibration_error, describe, everyday, reliability
from experiments.intervals import unpacked_answers
from mlstm_sentiment.errors import InputError
from transfer.intervals import paired_difference


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


def test_confidence_that_holds_has_no_calibration_error():
    positive = np.repeat([0.8, 0.2, 0.6], [100, 100, 50])
    labels = np.repeat([1.0, 0.0, 0.0, 1.0, 1.0, 0.0], [80, 20, 80, 20, 30, 20])
    assert calibration_error(reliability(positive, labels)) == pytest.approx(0, abs=1e-9)
    assert calibration_error(reliability(1 - positive, labels)) == pytest.approx(0.52, abs=1e-9)


@pytest.mark.parametrize("texts", [8, 1821])
def test_answers_are_kept_so_that_two_methods_can_be_compared_text_by_text(texts):
    chooser = np.random.default_rng(0)
    labels, first, second = chooser.integers(0, 2, (3, texts)).astype(float)
    data = SetOfTexts([""] * texts, labels)
    rows = [json.loads(json.dumps(describe(Answers(answers), data))) for answers in (first, second)]
    assert all(len(row["right"]) <= texts / 4 + 2 for row in rows)
    difference = paired_difference(*(unpacked_answers(row["right"], texts) for row in rows))
    assert difference == paired_difference(first == labels, second == labels)


def test_everyday_sentences_count_by_the_answers():
    sentences = everyday_sentences()
    sides = {"positive": 0.9, "negative": 0.1}
    strange = np.array([sentence.kind == "unfamiliar" for sentence in sentences])
    positive = np.array([sides.get(sentence.label, 0.5) for sentence in sentences])
    perfect = everyday(Answers(positive, positive == 0.5, strange))
    assert perfect["accuracy"] == 1
    assert perfect["failures"] == []
    worst = everyday(Answers(1 - positive, positive != 0.5, ~strange))
    assert worst["accuracy"] == 0
    assert len(worst["failures"]) == len(sentences)
    assert worst["falsely_unfamiliar"] == 1


def test_a_neutral_band_has_the_highest_macro_f1():
    chooser = np.random.default_rng(0)
    classes = chooser.integers(0, 3, 60)
    scores = np.round(classes / 2 + chooser.normal(0, 0.4, 60), 1)  # with ties
    band = fit_band(scores, classes)

    def macro_f1(low, high):
        choices = Band(low, high).choose(scores)
        return f1_score(classes, choices, average="macro", zero_division=0)

    ends = np.unique(scores)
    best = max(macro_f1(low, high) for low in ends for high in ends[ends >= low])
    assert macro_f1(*band) == pytest.approx(best)
    described = three_classes(band.choose(scores), classes)
    assert described["macro_f1"] == pytest.approx(best)


def test_remarks_are_judged_without_keeping_their_words(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text(
        "label\tkind\ttext\npos\tplain\tgood one\nneg\tidiom\tbad one\nneutral\tplain\tit\n"
    )
    remarks = read_remarks(path)
    own = own_remarks()
    of_own = Answers(own.classes / 2, neutral=own.classes == 1)
    answers = Answers(
        np.array([0.9, 0.5, 0.5]), np.array([True] * 3), neutral=np.array([False] * 3)
    )
    result = describe_remarks(answers, of_own, remarks)
    assert result["validation"]["accuracy"] == result["validation"]["sided_accuracy"] == 1
    assert result["test"]["sided_accuracy"] == 1  # a tie counts as negative
    assert result["test"]["accuracy"] == pytest.approx(2 / 3)
    assert result["as_shipped"]["accuracy"] == pytest.approx(1 / 3)
    assert result["own_answers"]["validation"]["accuracy"] == 1
    assert result["own_answers"]["test"]["accuracy"] == pytest.approx(2 / 3)
    assert "own_answers" not in describe_remarks(answers._replace(neutral=None), of_own, remarks)
    assert "one" not in json.dumps(result["test"]).replace("none", "")
    path.write_text("label\tkind\ttext\nmixed\tplain\tso so\n")
    with pytest.raises(InputError, match="row 2: label 'mixed'"):
        read_remarks(path)
