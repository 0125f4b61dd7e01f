"""The board: its rule, its measures, and its methods on small sets."""

import numpy as np
import pytest

from data_utils.labelled import LabelledSet
from experiments.board import domains, tables
from experiments.board.__main__ import calibration, describe, main
from experiments.board.methods import Answers, bag, fit_unit
from experiments.board.sets import Texts, balanced, remarks
from experiments.intervals import (
    Measured,
    compare,
    compare_draws,
    compare_with_published,
    packed_answers,
    unpacked_answers,
)
from experiments.results import NotMeasured
from mlstm_sentiment.errors import InputError
from transfer.intervals import paired_difference

CHOOSER = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("gain", "draws", "word"),
    [(0.1, (), "ahead"), (-0.1, (), "behind"), (0.0, (), "level"), (0.1, (0.5, 0.9), "level")],
)
def test_the_word_is_level_unless_the_interval_leaves_out_zero(gain, draws, word):
    right = np.arange(1000) < 700
    other = np.arange(1000) < 700 - 1000 * gain
    difference = compare(Measured(right, draws), Measured(other))
    assert difference.value == pytest.approx(gain)
    assert difference.word == word
    assert compare(Measured(other), Measured(right, draws)).value == pytest.approx(-gain)


@pytest.mark.parametrize(
    ("value", "texts_margin", "published", "word"),
    [
        (0.805, 0.018, 0.818, "level"),
        (0.780, 0.019, 0.818, "behind"),
        (0.861, 0.004, 0.762, "ahead"),
    ],
)
def test_a_published_figure_has_a_margin_of_its_own(value, texts_margin, published, word):
    interval = (value - texts_margin, value + texts_margin)
    difference = compare_with_published(value, interval, published)
    assert difference.word == word
    low, high = difference.interval
    assert high - low == pytest.approx(2 * 2**0.5 * texts_margin)


def test_more_draws_of_the_other_method_narrow_the_interval():
    own = CHOOSER.random(400) < 0.8
    others = [CHOOSER.random(400) < 0.7 for _ in range(8)]
    few, many = compare_draws([own], others[:2]), compare_draws([own], others)
    assert many.interval[1] - many.interval[0] < few.interval[1] - few.interval[0]
    (one,) = others[:1]
    alone = compare_draws([own], [one])
    assert list(alone.interval) == pytest.approx(paired_difference(own, one)["lost_interval"])


def test_a_set_is_described_by_its_sides_and_by_three_answers():
    labels = np.array([1.0, 0.0, 0.5, 1.0])
    answers = Answers(np.array([0.9, 0.5, 0.2, 0.4]), np.array([False, False, True, False]))
    part = Texts(list("abcd"), labels, ["plain", "plain", "fact", "idiom"])
    result = describe(answers, part)
    assert result["accuracy"] == pytest.approx(2 / 3)  # a tie counts as negative
    assert unpacked_answers(result["right"], 3).tolist() == [True, True, False]
    assert result["kinds"] == {"plain": [2, 2], "idiom": [0, 1]}
    assert result["three"]["accuracy"] == 0.75
    assert "three" not in describe(Answers(answers.positive), part)


def test_calibration_is_of_p_positive_and_is_compared_with_perfect_calibration():
    positive = CHOOSER.random(4000)
    labels = CHOOSER.random(4000) < positive
    perfect, shifted = calibration(positive, labels), calibration(np.sqrt(positive), labels)
    assert perfect["error"] < perfect["null"] < 0.03
    assert shifted["error"] > 0.1 > shifted["null"]
    assert shifted["mean"] - shifted["positives"] == pytest.approx(1 / 6, abs=0.03)


def test_a_unit_and_a_bag_learn_from_labels():
    labels = np.repeat([0, 1], 50)
    slope, cut = fit_unit(np.where(labels == 1, -1.0, 2.0) + CHOOSER.normal(0, 0.3, 100), labels)
    assert slope < 0 < cut < 1.5
    texts = [f"{word} number {i}" for i, word in enumerate(np.where(labels, "good", "bad"))]
    train = LabelledSet(texts, labels, ("negative", "positive"))
    answers = bag(train, train, draws=2).answer(["bad", "good thing"])
    assert (answers.positive > 0.5).tolist() == [False, True]
    assert len(answers.draws) == 2


def test_absent_sets_are_left_out(tmp_path, monkeypatch, set_command_line, capsys):
    monkeypatch.setattr("experiments.tables.update", lambda: None)
    set_command_line("board", "--data", tmp_path, "--methods", "bag_films", "--domains", "cr")
    main()
    said = capsys.readouterr().out
    assert f"imdb: left out: {tmp_path}/imdb/imdb_test.jsonl.gz: no such file\n" in said
    for name in ("bag_films", "domains"):
        assert f"{name}: left out: {tmp_path}/sst/train.csv: no such file" in said
    assert domains.tested_texts(tmp_path) == []


def test_faulty_sets_are_said(tmp_path):
    with pytest.raises(InputError, match="needs 5"):
        balanced((["a"], ["b"] * 9), 10)
    path = tmp_path / "everyday/test.tsv"
    path.parent.mkdir()
    path.write_text("label\tkind\ttext\nmixed\tplain\tso so\n")
    with pytest.raises(InputError, match="line 2: label 'mixed'"):
        remarks(tmp_path)


def test_methods_are_compared_only_on_the_same_texts(monkeypatch):
    def row(right, digest):
        packed = packed_answers(np.array(right))
        return {
            "sets": {"sst": {"texts": len(right), "right": packed, "draws": [], "digest": digest}}
        }

    results = {
        "default": row([True] * 40, "a"),
        "unit": row([True, False] * 20, "a"),
        "vader": row([True] * 40, "b"),
    }
    monkeypatch.setattr(tables, "read_result", lambda study, name: results[name])
    assert tables.word("default", "unit", "sst") == "ahead"
    assert tables.word("unit", "default", "sst") == "behind"
    assert tables.lead("default", "unit", "cr") == tables.lead("default", "vader", "sst") == "-"
    with pytest.raises(NotMeasured, match="other texts of sst"):
        tables.difference("default", "vader", "sst")
