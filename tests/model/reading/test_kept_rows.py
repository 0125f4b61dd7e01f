"""Rows kept through an interruption: what is written in two goes is what one go writes."""

import io
import logging
import string
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InputError
from model.reading.kept_rows import KeptRows, growing_file
from model.reading.row_files import RowWriter

VALUES = st.one_of(
    st.text(st.sampled_from("a\",\r\n'\\é\ud800漢{}"), max_size=6),
    *(st.none(), st.booleans(), st.integers(-9, 9), st.floats(), st.lists(st.text(max_size=2))),
)
ROW = st.fixed_dictionaries({"text": VALUES}, optional={"x": VALUES})
ROWS = st.lists(ROW, min_size=1, max_size=6)
COLUMNS = ["text", "x", "label"]
FORMATS = st.sampled_from(["jsonl", "csv"])


def answered(row):
    """Return what stands for a classified row."""
    return {**row, "label": f"of {row['text']!r}\n"}


def write(file, row_format, rows):
    """Write rows as commands do; return the places of those that were not there yet."""
    kept = KeptRows(file, row_format, ["label"], COLUMNS)
    writer = RowWriter(file, row_format, kept.columns, has_header=kept.has_header)
    new = [place for place, row in enumerate(rows) if not kept.begins_next(row)]
    kept.cut()
    for place in new:
        writer.write(answered(rows[place]), "here")
    return new


def whole(row_format, rows):
    file = io.BytesIO()
    file.name = "out"
    assert write(file, row_format, rows) == list(range(len(rows)))
    return file.getvalue()


@given(FORMATS, ROWS, st.data())
def test_a_file_cut_anywhere_becomes_the_whole_one(row_format, rows, data):
    expected = whole(row_format, rows)
    file = io.BytesIO(expected[: data.draw(st.integers(0, len(expected)))])
    file.name = "out"
    write(file, row_format, rows)
    assert file.getvalue() == expected


@given(FORMATS, ROWS, ROWS)
def test_a_file_of_other_rows_becomes_that_of_these(row_format, others, rows):
    file = io.BytesIO(whole(row_format, others))
    file.name = "out"
    write(file, row_format, rows)
    assert file.getvalue() == whole(row_format, rows)


@pytest.mark.parametrize("row_format", ["jsonl", "csv"])
def test_whole_rows_are_not_written_again(row_format, caplog):
    rows = [{"text": f'{letter}"\r\n,', "x": 1.5} for letter in string.ascii_lowercase]
    content = whole(row_format, rows)
    end = len(whole(row_format, rows[:20]))
    file = io.BytesIO(content[: end + 5])
    file.name = "out"
    with caplog.at_level(logging.INFO):
        assert write(file, row_format, rows) == list(range(20, 26))
    assert "out: goes on after 20 rows" in caplog.text


def test_other_columns_begin_anew():
    rows = [{"text": "a", "x": 1}]
    file = io.BytesIO(whole("csv", rows))
    kept = KeptRows(file, "csv", ["label"], ["text", "x", "y", "label"])
    assert not kept.has_header
    assert not kept.begins_next(rows[0])
    assert file.getvalue() == b""


def interrupt(final, request, content=b"begun"):
    """Write `content` and be interrupted."""
    with suppress(KeyboardInterrupt), growing_file(final, request) as file:
        file.write(content)
        raise KeyboardInterrupt


def test_a_file_stays_until_it_is_whole(tmp_path, caplog):
    final, partial = tmp_path / "out.csv", tmp_path / "out.csv.partial"
    final.write_text("old")
    with caplog.at_level(logging.INFO):
        interrupt(final, {"a": 1})
    assert f"{partial}: kept; the same command goes on after its rows" in caplog.text
    assert final.read_text() == "old"
    with growing_file(final, {"a": 1}) as file:
        assert file.read() == b"begun"
        file.write(b", ended")
    assert final.read_text() == "begun, ended"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_another_request_begins_anew(tmp_path):
    final = tmp_path / "out.csv"
    interrupt(final, {"a": 1})
    with growing_file(final, {"a": 2}) as file:
        assert file.read() == b""


def test_nothing_stays_of_nothing(tmp_path):
    interrupt(tmp_path / "out.csv", {}, b"")
    assert not list(tmp_path.iterdir())


def test_one_process_writes_at_a_time(tmp_path):
    final = tmp_path / "out.csv"
    with growing_file(final, {}) as file:
        file.write(b"mine")
        with pytest.raises(InputError, match=r"out\.csv: another process is writing it"):
            interrupt(final, {})
    assert final.read_bytes() == b"mine"


def test_a_link_stays_one(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "out.csv"
    link.symlink_to(tmp_path / "there" / "real.csv")
    with growing_file(link, {}) as file:
        file.write(b"x")
    assert link.is_symlink()
    assert (tmp_path / "there" / "real.csv").read_bytes() == b"x"
