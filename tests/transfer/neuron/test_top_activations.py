"""The texts and words that activate a unit most."""

import numpy as np
import pytest
import torch

from data_utils.labelled import LabelledSet
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.units.unit_traces import UnitTrace, read_texts
from model.inference.weights import load_model, save_model
from transfer.neuron import top_activations as extremes
from transfer.neuron.top_activations import (
    average_words,
    choose_texts,
    find_top_activations,
    jumps_of,
)


@pytest.fixture
def loaded(small_model, tmp_path):
    save_model(tmp_path / "m", small_model, text_profile("openai"), {})
    return load_model(tmp_path / "m", compute_dtype=torch.float32)


def test_texts_are_the_ends_and_the_surprises():
    values = np.array([0.5, -2.0, 3.0, -0.1, 0.2, 1.0, -1.0])
    labels = np.array([0, 0, 1, 1, 0, 0, 1])
    kinds = {kind: rows[:2].tolist() for kind, rows in choose_texts(values, labels, 1, 0.1).items()}
    assert kinds == {
        "highest": [2, 5],
        "lowest": [1, 6],
        "positive_though_negative": [5, 0],
        "negative_though_positive": [6, 3],
    }
    opposite = choose_texts(values, labels, -1, 0.1)
    assert opposite["highest"][0] == 2
    assert opposite["positive_though_negative"].tolist() == [1]
    assert opposite["negative_though_positive"].tolist() == [2]


def test_the_value_at_a_words_end_knows_nothing_of_the_next_word(subword_model, subwords, tmp_path):
    """A piece such as " film" holds the space before its letters."""
    save_model(tmp_path / "m", subword_model, text_profile("openai"), {}, tokenizer=subwords)
    loaded = load_model(tmp_path / "m", compute_dtype=torch.float32)
    text = "a good film, zw well made"
    tokens = loaded.encode(text)
    assert sum(subwords.spellings[token].startswith(b" ") for token in tokens) > 3
    (after,) = loaded.read([tokens], (), state="cell", units=[2]).unit_states
    at_end = {
        len(subwords.decode(tokens[:n]).rstrip()): after[n - 1, 0] for n in range(len(tokens))
    }
    (read,) = read_texts(loaded, [text], [2]).traces
    frame = len(text_profile("openai").prefix)
    for jump in jumps_of(read):
        word_end = frame + len(text[: jump.stop].rstrip())
        assert read.values[jump.stop - 1, 0] == at_end[word_end]
    first = tokens[: next(n for n, token in enumerate(tokens) if b"a" in subwords.spellings[token])]
    assert read.before[0] == (after[len(first) - 1, 0] if len(first) else 0.0)


def test_jumps_add_up_and_texts_are_drawn_until_they_hold_the_characters():
    values = np.arange(11, dtype=np.float32)[:, None] ** 2
    unit_trace = UnitTrace("It  is\nbad.", np.arange(12), values, np.array([-3.0], np.float32))
    jumps = jumps_of(unit_trace)
    assert [(jump.start, jump.stop) for jump in jumps] == [(0, 4), (4, 7), (7, 11)]
    assert [jump.change for jump in jumps] == [9 + 3, 36 - 9, 100 - 36]
    texts, rows = ["word " * 2] * 20, np.arange(3, 20)
    drawn = extremes._sample(texts, rows, 0, 55)
    assert len(drawn) == 5
    assert drawn == sorted(set(drawn))
    assert set(drawn) <= set(rows.tolist())
    assert extremes._sample(texts, rows, 1, 55) != drawn
    assert len(extremes._sample(texts, rows, 0, 60)) == 6
    assert len(extremes._sample(texts, rows, 0, 9)) == 1
    assert extremes._sample(texts, rows, 0, 10**6) == rows.tolist()


def test_words_are_averaged_unless_they_are_rare_and_listed_by_their_change(monkeypatch):
    monkeypatch.setattr(extremes, "RARE", 3)
    texts = {0: "Good! bad, good", 1: "(good) bad bad once ..."}
    changes = {0: [1.0, -1.0, 2.0], 1: [3.0, -2.0, -6.0, 9.0, 5.0]}
    jumps = []
    for row, text in texts.items():
        values = np.zeros((len(text), 1), np.float32)
        unit_trace = UnitTrace(text, np.arange(len(text) + 1), values, np.zeros(1, np.float32))
        jumps += [
            extremes.Jump(row, jump.start, jump.stop, change)
            for jump, change in zip(jumps_of(unit_trace), changes[row], strict=True)
        ]
    words = average_words(jumps, texts)
    (up,), (down,) = words["raise"], words["lower"]
    assert (up["word"], up["count"], up["mean_change"]) == ("good", 3, 2.0)
    assert up["standard_error"] == pytest.approx(1 / np.sqrt(3))
    assert (down["word"], down["count"], down["mean_change"]) == ("bad", 3, -3.0)
    monkeypatch.setattr(extremes, "RARE", 2)
    changes = {"great": 3.0, "good": 2.0, "fine": 1.0, "so": 0.0, "poor": -1.0, "bad": -2.0}
    texts = dict(enumerate(changes))
    jumps = [
        extremes.Jump(row, 0, len(word), changes[word] + spread)
        for row, word in texts.items()
        for spread in (-0.25, 0.25)
    ]
    averages = average_words(jumps, texts)
    words = {kind: [row["word"] for row in rows] for kind, rows in averages.items()}
    assert words == {"raise": ["great", "good", "fine"], "lower": ["bad", "poor"]}


def test_what_is_found_is_what_the_unit_holds(loaded, monkeypatch):
    monkeypatch.setattr(extremes, "MOST_CHARACTERS", 60)
    texts = ["It works and it lasts. " * 40 + "Yes.", " ", "It broke at once!", "So so, this one."]
    test = LabelledSet(texts, np.array([1, 0, 0, 1]), ("no", "yes"))
    result = find_top_activations(loaded, test, np.array([1.0, 9.0, -1.0, 0.5]), 4, 1, 0.0, 0)
    assert [text["row"] for text in result["texts"]["highest"]] == [1, 4, 3]  # none for the blank
    shown = result["texts"]["highest"][0]
    (unit_trace,) = read_texts(loaded, texts[:1], [4]).traces
    assert (shown["text"], shown["label"], shown["cut_before"]) == (texts[0][-600:], "yes", True)
    np.testing.assert_allclose(shown["values"], unit_trace.values[-600:, 0], rtol=1e-3)
    assert result["searched"]["texts"] < 4
    for kind, sign in (("rises", 1), ("falls", -1)):
        for moment in result["moments"][kind]:
            (own,) = read_texts(loaded, [texts[moment["row"] - 1]], [4]).traces
            largest = max(sign * jump.change for jump in jumps_of(own))
            assert 0 < moment["change"] * sign == pytest.approx(largest, rel=1e-3)  # of its text
            start, stop = moment["mark"]
            assert moment["text"][start:stop] == moment["word"]
            assert len(moment["text"]) == len(moment["values"])
