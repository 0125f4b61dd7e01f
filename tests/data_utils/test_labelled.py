"""Labelled sets: classes that all parts share, in order; or columns of 0 and 1."""

import json
import logging

import numpy as np
import pytest

from data_utils.labelled import LabelledSet, read_label_columns, read_labelled_sets
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.source import Source


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(*labels):
    return [{"text": f"t{i}", "label": label} for i, label in enumerate(labels)]


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        ([1.0, "1", -1], ("-1", "1"), [1, 1, 0]),
        ([5, 1, 10, 1.0], ("1", "5", "10"), [1, 0, 2, 0]),
        ([0.1234567, "0.1234568", "-0.0", 0], ("0", "0.1234567", "0.1234568"), [1, 2, 0, 0]),
        (
            ["9007199254740993", "+9007199254740992"],
            ("9007199254740992", "9007199254740993"),
            [1, 0],
        ),
        (["1" + 400 * "0", 7, "1e3"], ("7", "1000", "1" + 400 * "0"), [2, 0, 1]),
        ([4301 * "9", 4300 * "9" + "8"], (4300 * "9" + "8", 4301 * "9"), [1, 0]),
        (["so", "10", "9"], ("10", "9", "so"), [2, 0, 1]),
        (["2020_01", "202001", "1_0"], ("1_0", "202001", "2020_01"), [2, 1, 0]),
        (["a", "A", "B"], ("A", "a", "B"), [1, 0, 2]),
    ],
)
def test_classes_are_ordered_as_numbers_or_words(tmp_path, labels, classes, expected):
    (part,) = read_labelled_sets([write(tmp_path / "a.jsonl", rows_of(*labels))])
    assert part.classes == classes
    assert part.labels.tolist() == expected


def test_of_two_words_the_positive_one_is_reported(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    for labels in (["schlecht", "gut"], [1, 0], ["a", "b", "c"]):
        read_labelled_sets([write(tmp_path / "a.jsonl", rows_of(*labels))])
    said = "of the classes 'gut' and 'schlecht', the second is the positive one"
    assert [line for line in caplog.messages if line.startswith("of the")] == [said]


def test_parts_share_the_classes_of_train_and_columns_are_labels(tmp_path):
    train = write(tmp_path / "train.jsonl", rows_of(0, 1))
    test = write(tmp_path / "test.jsonl", rows_of(1, 1))
    assert read_labelled_sets([train, test])[1].labels.tolist() == [1, 1]
    other = write(tmp_path / "other.jsonl", rows_of(1, 2))
    with pytest.raises(InputError, match="class '2' does not occur in the training set"):
        read_labelled_sets([train, other])
    path = tmp_path / "a.csv"
    path.write_text("Tweet,joy,fear\none,1,0\ntwo,1.0,true\nthree,False,0\n")
    (part,) = read_label_columns([path], "Tweet", ("fear", "joy"))
    assert part.is_multilabel
    assert part.classes == ("fear", "joy")
    assert part.labels.tolist() == [[0, 1], [1, 1], [0, 0]]
    assert part.texts == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (rows_of(1, 1), "found 1"),
        (rows_of(*range(1101)), r"found 1,101: 0 \(1\).*--label-key"),
        (rows_of(1, None), "line 2: no label"),
        (rows_of("x", ["x"]), "line 2: expected text or a number"),
        ([{"text": ["a"], "label": 1}], "line 1: expected text or a number"),
        ([{"text": "a"}], "none of the keys label, sentiment, overall"),
        ([{"label": 1}], "name it with --text-key: 'label'"),  # no header
    ],
)
def test_unusable_labels_are_refused(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read_labelled_sets([write(tmp_path / "a.jsonl", rows)])


def test_a_set_has_a_digest_and_samples():
    def digest(texts=("a", "b"), labels=(0, 1), classes=("no", "yes")):
        return LabelledSet(list(texts), np.array(labels), classes).digest

    others = [
        digest(texts=("a", "c")),
        digest(texts=("b", "a")),
        digest(labels=(1, 1)),
        digest(labels=([1, 0], [0, 1])),
        digest(classes=("no", "si")),
    ]
    assert len({digest(), *others}) == 1 + len(others)
    assert digest() == digest()
    whole = LabelledSet([f"{n:03d}" for n in range(100)], np.arange(100), ("a", "b"))
    part = whole.drawn(30, seed=1)
    assert len(set(part.texts)) == 30
    assert part.texts == sorted(part.texts) == [f"{n:03d}" for n in part.labels]
    assert whole.drawn(30, seed=1).texts == part.texts != whole.drawn(30, seed=2).texts
    assert whole.drawn(100, seed=1).texts == whole.drawn(101, seed=1).texts == whole.texts


def test_the_first_records_may_lack_the_text(tmp_path):
    path = write(tmp_path / "a.jsonl", [{}, {"id": 7}, {"id": 8, "sentence": "c"}])
    assert list(Source(path).read_texts()) == ["", "", "c"]
    assert list(Source(path, "sentence").read_texts()) == ["", "", "c"]
    path = write(tmp_path / "b.jsonl", [{"label": 1}, {"label": 0, "review": "b"}])
    assert read_labelled_sets([path])[0].texts == ["", "b"]
    with pytest.raises(InputError, match="line 1: no column is clearly the text"):
        read_labelled_sets([path], blank=False)
    with pytest.raises(InputError, match="line 1: no key 'body'; present: 'label'"):
        list(Source(path, "body").read_texts())
    path.write_text("\n")
    with pytest.raises(InputError, match="no records in it"):
        list(Source(path).read_texts())


def test_what_was_read_and_odd_classes_are_reported(tmp_path, caplog):
    train = tmp_path / "train.csv"
    train.write_text("text,label\na,good\nb,Good\nc,bad\ntext,label\nd,fair\n")
    val = write(tmp_path / "val.jsonl", rows_of("good", "bad"))
    caplog.set_level(logging.INFO)
    read_labelled_sets([train, val])
    warned = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warned == [
        f"{train}: the classes 'Good', 'good' differ only in case or space",
        f"{val}: has no text of 'fair', 'Good', 'label'",
    ]
    assert f"{train}: comma, UTF-8, 5 rows, 1 repeats the header, " in caplog.text
    columns = f"{val}: JSON lines, 2 rows, text column 'text' (--text-key), label "
    assert f"{columns}column 'label' (--label-key): 'good' 1, 'bad' 1" in caplog.text


def test_a_folder_with_pos_and_neg_is_a_set(tmp_path):
    for name, text in (("pos/1_9", "so\ngood"), ("neg/0_1", "bad"), ("urls_pos", "http")):
        path = tmp_path / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (part,) = read_labelled_sets([tmp_path])
    assert (part.texts, part.labels.tolist()) == (["bad", "so\ngood"], [0, 1])
    assert part.classes == ("neg", "pos")


def test_texts_left_out_of_a_folder_are_reported(tmp_path, caplog):
    others = ["neg/sub/4.txt", "neutral/5.txt", "pos/2.TXT", "pos/3.txt.gz"]
    silent = ["pos/1.txt", "neg/0.txt", "unsup/1.txt", "urls.txt", "pos/.6.txt.swp", "pos/a.md"]
    for name in (*silent, ".old/neg/7.txt", *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert read_labelled_sets([tmp_path])[0].texts == ["neg/0.txt", "pos/1.txt"]
    assert caplog.messages == [
        f"{tmp_path}: leaves out 'neg/sub/4.txt', 'neutral/5.txt', 'pos/2.TXT' and 1 more; only "
        "the .txt files in pos/ and neg/ are read"
    ]


def test_texts_that_sets_share_are_reported(tmp_path, caplog):
    """The accuracy on texts that a model learned from says nothing."""
    train = write(tmp_path / "train.jsonl", rows_of(0, 1, 0))
    val = write(tmp_path / "val.jsonl", [{"text": " t1\n", "label": 1}, {"text": "", "label": 0}])
    test = write(tmp_path / "test.jsonl", rows_of(1, 0))
    read_labelled_sets([train, val, test])
    warned = [r.getMessage().partition(";")[0] for r in caplog.records if r.levelname == "WARNING"]
    assert warned == [
        f"{test}: 1 of its 2 texts are in {val}, too",
        f"{test}: 2 of its 2 texts are in {train}, too",
        f"{val}: 1 of its 2 texts are in {train}, too",
    ]
    caplog.clear()
    other = write(tmp_path / "other.jsonl", [{"text": "new", "label": 1}, {"text": "", "label": 0}])
    read_labelled_sets([train, other])
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


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
