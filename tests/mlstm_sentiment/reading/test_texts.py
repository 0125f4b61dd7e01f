"""Which texts are accepted, what is counted, and which key is chosen and reported."""

import json
import logging

import pytest

from data_utils.preparation.blocks import Block, read_block
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import as_input
from mlstm_sentiment.reading.source import Source
from mlstm_sentiment.reading.tables import Record
from mlstm_sentiment.reading.texts import KeyChooser, ReadingReport, accept, read_texts, text_of
from tests.support.attempts import REQUEST


@pytest.mark.parametrize(
    ("text", "field", "accepted"),
    [
        (None, "missing_text", False),
        ("", "empty_text", False),
        (" \n", "empty_text", False),
        ("a\x00b", "nul", True),
        ("\ud800", "surrogates", True),
        ("caf\u00e9 &#39;", None, True),
    ],
)
def test_each_text_is_counted_as_what_it_is(text, field, accepted):
    report = ReadingReport()
    for times in (1, 2):
        assert accept(text, report, strict=False) == accepted
        assert report == ReadingReport(**({field: times} if field else {}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("caf\u00e9 \ud800", "a lone surrogate, which UTF-8 cannot encode"),
    ],
)
def test_strictness_refuses_what_would_be_replaced_or_kept(tmp_path, text, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        accept(text, ReadingReport(), strict=True)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}))
    with pytest.raises(InputError, match=rf"a\.jsonl, line 1: {message}; fix the text$"):
        list(read_texts([tmp_path / "a.jsonl"], None, ReadingReport(), strict=True))
    report = ReadingReport()
    assert len(list(read_texts([tmp_path / "a.jsonl"], None, report, strict=False))) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (5, "5"), (0.5, "0.5"), (True, "True"), (None, None), (float("nan"), None)],
)
def test_words_and_numbers_are_texts_and_what_is_missing_is_none(value, text):
    assert text_of(value, "line 1") == text


@pytest.mark.parametrize("in_a_list", [False, True])
def test_a_number_out_of_all_measure_is_named_by_its_place(in_a_list):
    value = 16**4000
    # From Python 3.13 on, its short form can be shown.
    with pytest.raises(InputError, match=r"line 1: (a number is too large|expected text)"):
        text_of([value] if in_a_list else value, "line 1")


@pytest.mark.parametrize(
    ("written", "kind"), [('["x"]', "list"), ('{"x": 1}', "dict"), ("[]", "list")]
)
def test_a_list_or_an_object_is_no_text(tmp_path, written, kind):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{{"text": {written}}}\n')
    for read in (
        lambda path: list(Source(path).read_texts()),
        lambda path: list(read_texts([path], None, ReadingReport(), strict=False)),
    ):
        with pytest.raises(InputError) as error:
            read(path)
        value = f"found {json.loads(written)}, of type {kind}"
        assert str(error.value) == f"{path}, line 2: expected text or a number, {value}"


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("Text,Label", "Text"),
        ("TEXT,review", "TEXT"),
        ("Text,TEXT,Sentence", "Sentence"),  # which of two would be a guess
    ],
)
def test_a_column_may_be_in_other_letters(tmp_path, caplog, header, key):
    names = header.split(",")
    rows = [header, *(",".join(f"{name} {row}" for name in names) for row in range(2))]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    with caplog.at_level(logging.INFO):
        assert list(Source(tmp_path / "a.csv").read_texts()) == [f"{key} 0", f"{key} 1"]
    assert f"comma, UTF-8, 2 rows, text column {key!r} (--text-key)" in caplog.text
    report = ReadingReport()
    assert list(read_texts([tmp_path / "a.csv"], None, report, strict=True))[1] == f"{key} 1"
    (encoded,) = read_block(Block(0, 0, as_input(tmp_path / "a.csv")), REQUEST)
    assert encoded.found_keys == {key: 2}


def test_a_key_that_is_absent_is_named_with_those_that_are_there():
    """One that was given is meant as it is written."""
    for record, present in ((Record(), "none"), (Record({"Text": "a"}), "'Text'")):
        with pytest.raises(InputError, match=rf"no key 'text'; present: {present} \(--text-key\)$"):
            KeyChooser("text").name_in(record)


def test_rows_with_too_few_cells_are_counted(tmp_path, caplog):
    (tmp_path / "a.csv").write_text(
        "id,text,n\n1,It works but\nthe lid broke,2\n3,fine,4\n5,bad,\n"
    )
    with caplog.at_level(logging.INFO):
        list(Source(tmp_path / "a.csv").read_texts())
    assert "comma, UTF-8, 4 rows, 2 with too few cells, text column 'text'" in caplog.text


@pytest.mark.parametrize(("key", "warnings"), [(None, 1), ("text", 0)])
def test_rows_with_another_key_are_reported_once(tmp_path, caplog, key, warnings):
    rows = [{"text": "a"}, {"id": 1}, {"review": "b"}, {"reviewText": "c"}, {"text": "d"}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert list(Source(tmp_path / "a.jsonl", key).read_texts()) == ["a", "", "", "", "d"]
    warned = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == warnings
    for message in warned:
        assert message.endswith(
            "a.jsonl, line 3: has 'review', which is not read, and no 'text'; give all rows the "
            "same key"
        )
