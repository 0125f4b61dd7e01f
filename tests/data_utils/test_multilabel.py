"""Labelled sets of several labels a text, in columns of 0 and 1."""

import json

import pytest

from data_utils.labelled import read_label_columns
from model.errors import InputError


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_columns_of_a_table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("Tweet,joy,fear\none,1,0\ntwo,1.0,true\nthree,False,0\n")
    (part,) = read_label_columns([path], "Tweet", ("fear", "joy"))
    assert part.is_multilabel
    assert part.classes == ("fear", "joy")
    assert part.labels.tolist() == [[0, 1], [1, 1], [0, 0]]
    assert part.texts == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "b", "joy": 1}, "line 2: no key 'fear'; present: 'text', 'joy'"),
        ({"text": "b", "joy": 1, "fear": 2}, "line 2: 'fear' is '2'; a label is 0 or 1"),
        ({"text": "b", "joy": 1, "fear": float("nan")}, "line 2: 'fear' is nothing"),
        ({"text": "b", "joy": 1, "fear": None}, "line 2: 'fear' is nothing"),
        ({"text": " ", "joy": 1, "fear": 0}, "line 2: no text under 'text'"),
        ({"text": float("nan"), "joy": 1, "fear": 0}, "line 2: no text under 'text'"),
    ],
)
def test_bad_columns_are_refused_with_their_place(tmp_path, row, message):
    path = write(tmp_path / "a.jsonl", [{"text": "a", "joy": 0, "fear": 0}, row])
    with pytest.raises(InputError, match=message):
        read_label_columns([path], None, ("joy", "fear"))


@pytest.mark.parametrize(
    ("keys", "message"), [(("joy",), "give it as --label-key"), (("a", "a"), "name each once")]
)
def test_bad_keys_are_refused(tmp_path, keys, message):
    with pytest.raises(InputError, match=message):
        read_label_columns([tmp_path / "a.jsonl"], None, keys)


def test_shared_texts_and_classes_that_are_absent_are_told(tmp_path, caplog):
    train = write(tmp_path / "a.jsonl", [{"text": "x", "a": 1, "b": 1}])
    test = write(tmp_path / "b.jsonl", [{"text": "x", "a": 1, "b": 0}])
    read_label_columns([train, test], None, ["a", "b"])
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 2
    assert told[0].endswith("b.jsonl: has no text of 'b'")
    assert "1 of its 1 texts are in" in told[1]
