"""Rows kept through an interruption: what is written in two goes is what one go writes."""

import codecs
import errno
import logging
import math
import string
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InputError
from model.reading.resumable_rows import WrittenRows, resumable_output
from model.reading.row_files import RowWriter

VALUES = st.one_of(
    st.text(st.sampled_from("a\",\r\n'\\é\ud800漢{}"), max_size=6),
    *(st.none(), st.booleans(), st.integers(-9, 9), st.floats(), st.lists(st.text(max_size=2))),
)
# JSON has null for NaN and infinity: in a file such a text equals none.
TEXTS = VALUES.filter(lambda value: not isinstance(value, float) or math.isfinite(value))
ROW = st.fixed_dictionaries({"text": TEXTS}, optional={"x": VALUES})
ROWS = st.lists(ROW, min_size=1, max_size=6)
COLUMNS = ["text", "x", "label"]
FORMATS = st.sampled_from(["jsonl", "csv"])


def answered(row):
    """Return what stands for a classified row; nothing, for one without a text."""
    return {**row, "label": f"of {str(row['text'])[:9]!r}\n" if row["text"] else None}


def write(path, row_format, rows, columns=COLUMNS, mark=False):
    """Write rows as commands do; return the places of those that were not there yet."""
    with open(path, "r+b") as file:
        written = WrittenRows(file, row_format, ["label"], columns)
        header = {"mark": mark, "written_header": lambda: written.header}
        writer = RowWriter(file, row_format, columns, **header)
        new = [place for place, row in enumerate(rows) if not written.begins_next(row)]
        written.finish()
        for place in new:
            writer.write(answered(rows[place]), "here")
    return new


def whole(row_format, rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        path.touch()
        assert write(path, row_format, rows) == list(range(len(rows)))
        assert len(list(Path(folder).iterdir())) == 1
        return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out"


@given(FORMATS, ROWS, st.data())
def test_a_file_cut_anywhere_becomes_the_whole_one(row_format, rows, data):
    expected = whole(row_format, rows)
    cut = expected[: data.draw(st.integers(0, len(expected)))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        path.write_bytes(cut)
        write(path, row_format, rows)
        assert path.read_bytes() == expected


@given(FORMATS, ROWS, ROWS)
def test_a_file_of_other_rows_becomes_that_of_these_and_stays_under_another_name(
    row_format, others, rows
):
    before, expected = whole(row_format, others), whole(row_format, rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        path.write_bytes(before)
        write(path, row_format, rows)
        assert path.read_bytes() == expected
        if not expected.startswith(before):
            assert (Path(folder) / "out.1").read_bytes() == before


@pytest.mark.parametrize("row_format", ["jsonl", "csv"])
def test_whole_rows_are_not_written_again(row_format, caplog, tmp_path, path):
    rows = [{"text": f'{letter}"\r\n,', "x": 1.5} for letter in string.ascii_lowercase]
    end = len(whole(row_format, rows[:20]))
    path.write_bytes(whole(row_format, rows)[: end + 5])
    with caplog.at_level(logging.INFO):
        assert write(path, row_format, rows) == list(range(20, 26))
    assert "out: continues after 20 rows" in caplog.text
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("row_format", ["jsonl", "csv"])
@pytest.mark.parametrize("text", ["a", '"', "a,\n" * (1 << 17)])
def test_what_was_added_to_a_row_is_read_back(row_format, text, path):
    row = {"text": text, "x": 1.5}
    path.write_bytes(whole(row_format, [row]))
    with open(path, "r+b") as file:
        written = WrittenRows(file, row_format, ["label"], COLUMNS)
        assert written.begins_next(row)
        assert written.last_results() == {"label": answered(row)["label"]}


@pytest.mark.parametrize("columns", [["text", "label"], ["x", "text", "label"], []])
def test_other_columns_begin_anew(columns, tmp_path, caplog, path):
    path.write_bytes(whole("csv", [{"text": "a", "x": 1}]))
    with caplog.at_level(logging.INFO), open(path, "r+b") as file:
        written = WrittenRows(file, "csv", ["label"], columns)
        assert not written.begins_next({"text": "a"})
        assert not written.header
    assert path.read_bytes() == b""
    assert (tmp_path / "out.1").read_bytes() == whole("csv", [{"text": "a", "x": 1}])
    assert "out: differs from the input; its rows are now in" in caplog.text


def test_a_byte_order_mark_stays(path):
    path.touch()
    rows = [{"text": "a", "x": 1}, {"text": "b", "x": 2}]
    assert write(path, "csv", rows[:1], mark=True) == [0]
    assert write(path, "csv", rows, mark=True) == [1]
    assert path.read_bytes() == codecs.BOM_UTF8 + whole("csv", rows)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_columns_that_are_not_known_before_the_first_row_are_those_of_the_file(
    count, tmp_path, path
):
    """Standard input is an example: its first row is not waited for."""
    rows = [{"text": "a", "x": 1}, {"text": "b"}, {"text": "c", "x": 2}]
    path.write_bytes(whole("csv", rows[:count]) if count else b"")
    assert write(path, "csv", rows, columns=[]) == list(range(count, 3))
    assert path.read_bytes() == whole("csv", rows)
    assert len(list(tmp_path.iterdir())) == 1


def test_columns_that_are_not_known_may_be_others_than_those_of_the_file(tmp_path, path):
    path.write_bytes(b"title,label\na,of a\n")
    assert write(path, "csv", [{"text": "a"}], columns=[]) == [0]
    assert path.read_bytes() == b"text,label\na,\"of 'a'\n\"\n"
    assert (tmp_path / "out.1").read_bytes() == b"title,label\na,of a\n"


def test_a_value_without_a_column_makes_another_row(path):
    path.write_bytes(b"text,label\na,of a\n")
    with open(path, "r+b") as file:
        written = WrittenRows(file, "csv", ["label"], ["text", "label"])
        assert not written.begins_next({"text": "a", "x": 1})
    assert path.read_bytes() == b""


@pytest.mark.parametrize("row_format", ["jsonl", "csv"])
def test_what_is_written_after_another_row_stays(row_format, path):
    """Each row is written as soon as it is known not to be there."""
    others, rows = ([{"text": letter} for letter in letters] for letters in ("abc", "axcd"))
    path.write_bytes(whole(row_format, others))
    with open(path, "r+b") as file:
        written = WrittenRows(file, row_format, ["label"], COLUMNS)
        writer = RowWriter(file, row_format, COLUMNS, written_header=lambda: written.header)
        for row in rows:
            if not written.begins_next(row):
                writer.write(answered(row), "here")
        written.finish()
    assert path.read_bytes() == whole(row_format, rows)


def test_rows_for_which_there_is_nothing_to_write_are_cut_off(tmp_path, path):
    path.write_bytes(whole("jsonl", [{"text": "a"}, {"text": "b"}]))
    assert write(path, "jsonl", [{"text": "a"}]) == []
    assert path.read_bytes() == whole("jsonl", [{"text": "a"}])
    assert (tmp_path / "out.1").exists()


def test_an_interruption_is_passed_on(tmp_path):
    with pytest.raises(KeyboardInterrupt), resumable_output(tmp_path / "out.csv", {}):
        raise KeyboardInterrupt


def interrupt(final, request, content=b"begun"):
    """Write `content` and be interrupted."""
    with suppress(KeyboardInterrupt), resumable_output(final, request) as file:
        file.write(content)
        raise KeyboardInterrupt


def test_a_file_stays_until_it_is_whole(tmp_path, caplog):
    final, partial = tmp_path / "out.csv", tmp_path / "out.csv.partial"
    final.write_text("old")
    with caplog.at_level(logging.INFO):
        interrupt(final, {"a": 1})
    assert f"{partial}: kept; the same command continues after its rows" in caplog.text
    assert final.read_text() == "old"
    with resumable_output(final, {"a": 1}) as file:
        assert file.read() == b"begun"
        file.write(b", ended")
    assert final.read_text() == "begun, ended"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_another_request_begins_anew_and_leaves_what_there_was(tmp_path, caplog):
    final = tmp_path / "out.csv"
    interrupt(final, {"a": 1})
    with caplog.at_level(logging.INFO), resumable_output(final, {"a": 2}) as file:
        assert file.read() == b""
    assert (tmp_path / "out.csv.partial.1").read_bytes() == b"begun"
    assert "is from another command, or other options; its rows are now in" in caplog.text


def test_a_file_of_someone_else_stays(tmp_path):
    (tmp_path / "out.csv.partial").write_bytes(b"precious")
    (tmp_path / "out.csv.partial.1").write_bytes(b"older")
    with resumable_output(tmp_path / "out.csv", {}) as file:
        assert file.read() == b""
    assert (tmp_path / "out.csv.partial.1").read_bytes() == b"older"
    assert (tmp_path / "out.csv.partial.2").read_bytes() == b"precious"


def test_a_folder_in_its_place_is_refused(tmp_path):
    (tmp_path / "out.csv.partial").mkdir()
    with pytest.raises(InputError, match=r"out\.csv\.partial: is a folder, but a file of this"):
        interrupt(tmp_path / "out.csv", {})


def test_a_full_disk_names_the_file(tmp_path):
    def fill():
        with resumable_output(tmp_path / "out.csv", {}):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left on device") as caught:
        fill()
    assert caught.value.filename == str(tmp_path / "out.csv")


@pytest.mark.parametrize("largest_file", [100], indirect=True)
def test_a_copy_of_the_rows_that_does_not_fit_is_named(tmp_path, largest_file):
    (tmp_path / "out.csv.partial").symlink_to(Path("LICENSE").resolve())
    with pytest.raises(OSError, match=r"File too large: '.*out\.csv\.partial\.1'"):
        interrupt(tmp_path / "out.csv", {})
    assert (tmp_path / "out.csv.partial").stat().st_size > largest_file


def test_nothing_stays_of_nothing(tmp_path):
    interrupt(tmp_path / "out.csv", {}, b"")
    assert not list(tmp_path.iterdir())


def test_one_process_writes_at_a_time(tmp_path):
    final = tmp_path / "out.csv"
    with resumable_output(final, {}) as file:
        file.write(b"mine")
        with pytest.raises(InputError, match=r"out\.csv: another process is writing it"):
            interrupt(final, {})
    assert final.read_bytes() == b"mine"


def test_a_link_stays_one(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "out.csv"
    link.symlink_to(tmp_path / "there" / "real.csv")
    with resumable_output(link, {}) as file:
        file.write(b"x")
    assert link.is_symlink()
    assert (tmp_path / "there" / "real.csv").read_bytes() == b"x"
