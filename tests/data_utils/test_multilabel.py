"""Labelled sets of several labels a text: columns of 0 and 1, or one column of lists."""

import json

import pytest

from data_utils.multilabel import read_label_columns, read_label_lists
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


def test_lists_of_labels(tmp_path):
    rows = [{"text": "a", "label": "joy; fear"}, {"text": "b", "label": ""}]
    train = write(tmp_path / "train.jsonl", [*rows, {"text": "c", "label": ["anger"]}])
    test = write(tmp_path / "test.jsonl", [{"text": "d", "label": ["fear", "anger"]}])
    parts = read_label_lists([train, test], None, None, ";")
    assert parts[0].classes == parts[1].classes == ("anger", "fear", "joy")
    assert parts[0].labels.tolist() == [[0, 1, 1], [0, 0, 0], [1, 0, 0]]
    assert parts[1].labels.tolist() == [[1, 1, 0]]


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


@pytest.mark.parametrize(
    ("rows", "delimiter", "message"),
    [
        ([{"text": "a", "label": "joy fear"}], ";", "found 1: 'joy fear'; is ';' the separator"),
        ([{"text": "a", "label": None}], ";", "no labels under 'label'"),
        ([{"text": "a", "label": "x;y"}], "", "delimiter is empty"),
        ([{"text": "a", "mood": "x;y"}], ";", "none of the keys label"),
    ],
)
def test_bad_lists_are_refused(tmp_path, rows, delimiter, message):
    path = write(tmp_path / "a.jsonl", rows)
    with pytest.raises(InputError, match=message):
        read_label_lists([path], None, None, delimiter)


def test_a_class_that_train_lacks_is_refused(tmp_path):
    train = write(tmp_path / "train.jsonl", [{"text": "a", "label": "x;y"}])
    test = write(tmp_path / "test.jsonl", [{"text": "a", "label": "z"}])
    with pytest.raises(InputError, match=r"test.jsonl: class 'z' does not occur"):
        read_label_lists([train, test], None, None, ";")


def test_a_list_of_labels_has_no_holes(tmp_path):
    """A class named None came of one."""
    for hole, words in (
        (None, "holds null"),
        (float("nan"), "holds null"),
        (["a"], "of type list"),
    ):
        rows = [{"text": "x", "label": ["joy", hole]}, {"text": "y", "label": ["fear"]}]
        with pytest.raises(InputError, match=f"line 1: .*{words}"):
            read_label_lists([write(tmp_path / "a.jsonl", rows)], None, None, ";")


def test_shared_texts_are_told_of_either_format(tmp_path, caplog):
    lists = write(tmp_path / "a.jsonl", [{"text": "x", "label": "a;b"}])
    read_label_lists([lists, lists], None, None, ";")
    columns = write(tmp_path / "b.jsonl", [{"text": "x", "a": 1, "b": 0}])
    read_label_columns([columns, columns], None, ["a", "b"])
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 2
    assert all("1 of its 1 texts are in" in words for words in told)
