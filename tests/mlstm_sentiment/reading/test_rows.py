"""Rows keep their order, values and number; the answers are added as columns."""

import itertools
import json

import numpy as np
import pytest

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.answers import added_names
from mlstm_sentiment.head.head import Familiarity
from mlstm_sentiment.head.sentiment_classifier import SentimentClassifier
from mlstm_sentiment.reading.rows import _BATCH_ROWS, InputRow, Rows, _in_batches, own_name
from mlstm_sentiment.reading.source import Source
from mlstm_sentiment.reading.tables import Record
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import LoadedModel
from tests.support.heads import regression, star_head


@pytest.fixture
def classifier(small_model, tmp_path):
    return make_classifier(small_model, tmp_path, ("0", "1"))


def make_classifier(model, folder, classes):
    rows = () if len(classes) == 2 else (len(classes),)
    weights = np.random.default_rng(0).normal(size=(*rows, 12)).astype(np.float32)
    fitted = regression(weights, np.zeros(rows), classes, 4, 1, "")
    return SentimentClassifier(LoadedModel(model, text_profile("openai"), folder), fitted)


def batches_of(rows, text_key=None):
    """Return the batches of rows that have arrived together."""
    source = Source("-", text_key)
    records = (row if isinstance(row, Record) else Record(row) for row in rows)
    vars(source)["arriving"] = lambda: [records]
    return Rows(source).batches()


def classified(classifier, rows, text_key=None):
    answered, added = [], added_names(classifier.fitted, neuron=True)
    for batch in batches_of(rows, text_key):
        answers = classifier.results([row.text for row in batch], added, sides=False)
        answered += [
            {**{own_name(key, added): value for key, value in row.record.items()}, **answer}
            for row, answer in zip(batch, answers, strict=True)
        ]
    return answered


def test_rows_keep_their_columns(classifier):
    rows = [
        {"id": 7, "text": "good"},
        {"id": 8, "text": " \n"},
        {"text": ""},
        {"text": None, "more": [1]},
        {"id": 9},
        {"text": float("nan")},
        {"text": 3.5},
        {"text": 'good\n, "quoted"'},
    ]
    answers = classified(classifier, rows)
    assert len(answers) == len(rows)
    for row, out in zip(rows, answers, strict=True):
        assert {name: out[name] for name in row} == row
        added = added_names(classifier.fitted, neuron=True)
        assert set(out) - set(row) == set(added)
    texts = ["good", "3.5", rows[7]["text"]]
    probabilities = classifier.predict_proba(texts)[:, 1]
    for place, text, probability in zip((0, 6, 7), texts, probabilities, strict=True):
        out = answers[place]
        side = "1" if probability > 0.5 else "0"
        assert out["label"] == ("unsure" if 0.4 <= probability <= 0.6 else side)
        assert out["probability"] == pytest.approx(probability, abs=1e-5)
        assert out["sentiment"] == pytest.approx(2 * probability - 1, abs=1e-5)
        assert out["neuron"] == pytest.approx(classifier.predict_all([text]).neuron[0], abs=1e-5)
        assert out["unfamiliar"] is None
    for place in range(1, 6):
        assert answers[place] == {**rows[place], **dict.fromkeys(added), "label": "no answer"}


def test_what_a_head_of_stars_adds_is_of_the_kinds_that_json_has(small_model, tmp_path):
    """`unsure` and `unfamiliar` are Python's booleans, neither 1.0 nor NumPy's."""
    fitted = star_head(familiarity=Familiarity(bits_per_character=100, bits=0), doubt=(0.0, 1.0))
    loaded = LoadedModel(small_model, text_profile("openai"), tmp_path)
    classifier = SentimentClassifier(loaded, fitted)
    good, short = classified(classifier, [{"text": "good"}, {"text": "!"}])
    assert json.loads(json.dumps(good)) == good
    assert good["unsure"] is True
    assert good["unfamiliar"] is False
    assert short["unfamiliar"] is True
    predictions = classifier.predict_all(["good", "!"])
    assert good["stars"] == pytest.approx(predictions.stars[0], rel=1e-6)
    assert short["stars"] == pytest.approx(predictions.stars[1], rel=1e-6)


def test_a_column_with_a_taken_name_is_renamed(classifier):
    rows = [{"text": "good", "label": "x", "input_label": "y"}, {"text": "bad", "neuron": 1}]
    first, second = classified(classifier, rows)
    assert (first["input_label"], first["input_input_label"]) == ("x", "y")
    assert first["label"] in ("0", "1")
    assert second["input_neuron"] == 1


def test_no_name_is_given_to_two_keys_or_a_result():
    added = ["label", "neuron"]
    keys = ["input_" * n + key for n in range(4) for key in (*added, "text")]
    names = [own_name(key, added) for key in keys]
    assert len({*names, *added}) == len(keys) + len(added)
    assert [name for key, name in zip(keys, names, strict=True) if "text" in key] == keys[2::3]


def test_more_than_two_classes_have_a_probability_each(small_model, tmp_path):
    classifier = make_classifier(small_model, tmp_path, ("1", "2", "3"))
    (row,) = classified(classifier, [{"text": "good"}])
    each = [row[f"probability_{name}"] for name in "123"]
    assert sum(each) == pytest.approx(1)
    assert row["probability"] == max(each)
    assert row["label"] == "123"[int(np.argmax(each))]


@pytest.mark.parametrize(("key", "text_key"), [("review", None), ("body", "body")])
def test_the_key_may_come_in_a_later_batch(classifier, key, text_key):
    rows = [*({"id": n} for n in range(70)), {key: "good"}]
    *missing, last = classified(classifier, rows, text_key)
    assert {row["label"] for row in missing} == {"no answer"}
    assert last["label"] != "no answer"


@pytest.mark.parametrize("text_key", [None, "body"])
def test_rows_without_the_key_are_refused(text_key):
    """They are refused at the end; lines of text immediately."""
    batches = batches_of([{"id": 1}, {"id": 2}], text_key)
    assert [row.text for row in next(batches)] == [None] * 2
    if text_key:
        with pytest.raises(InputError, match="no key 'body'"):
            next(batches_of([Record({"text": "a"}, has_names=False)], text_key))
    with pytest.raises(InputError, match=r"'id'.*--text-key|--text-key.*'id'"):
        next(batches)


def test_rows_before_a_list_for_a_text_are_a_batch():
    batches = batches_of([{"text": "good"}, {"text": "bad"}, {"text": ["x"]}])
    assert [row.text for row in next(batches)] == ["good", "bad"]
    with pytest.raises(InputError, match="expected text or a number"):
        next(batches)


def plain_rows(*texts):
    return (InputRow(Record({"text": text}), text) for text in itertools.chain(*texts))


def test_batches_are_bounded_and_lazy(monkeypatch):
    endless = plain_rows(itertools.repeat("x"))
    sizes = [len(batch) for batch in itertools.islice(_in_batches(endless), 6)]
    assert sizes == [64, 128, 256, 512, _BATCH_ROWS, _BATCH_ROWS]
    monkeypatch.setattr("mlstm_sentiment.reading.rows._BATCH_CHARACTERS", 250)
    endless = plain_rows(["x" * 20] * 9, itertools.repeat("x" * 1000))
    sizes = [len(batch) for batch in itertools.islice(_in_batches(endless), 5)]
    assert sizes == [3, 3, 3, 1, 1]
    monkeypatch.undo()
    assert [len(batch) for batch in _in_batches(plain_rows("x" * 2000), _BATCH_ROWS)] == [1024, 976]


@pytest.mark.parametrize(
    "row",
    [
        dict.fromkeys(map(str, range(5000)), None),
        {"text": "a", "nested": [[], {}, [[]] * 5000]},
        {"text": "a", "nested": {"b": "x" * 320_000}},
    ],
)
def test_a_batch_holds_few_rows_with_many_values(row, monkeypatch):
    """An empty row takes memory, too."""
    monkeypatch.setattr("mlstm_sentiment.reading.rows._BATCH_CHARACTERS", 1_000_000)
    batches = list(_in_batches([InputRow(Record(row), "a")] * 20))
    assert max(map(len, batches)) <= 4
    assert sum(map(len, batches)) == 20
