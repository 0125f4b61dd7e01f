"""Rows kept through an interruption: what is written in two goes is what one go writes."""

import codecs
import logging
import math
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import finish_work, write_atomically
from mlstm_sentiment.reading.row_files import Dialect
from mlstm_sentiment.reading.tables import Record
from mlstm_sentiment.rows.sink import Sink, _resumable_output
from tests.support.folders import contents

VALUES = st.one_of(
    st.text(st.sampled_from("a\",\r\n'\\é\ud800漢{}"), max_size=6),
    *(st.none(), st.booleans(), st.integers(-9, 9), st.floats(), st.lists(st.text(max_size=2))),
)
# JSON has null for NaN and infinity: in a file such a text equals none.
TEXTS = VALUES.filter(lambda value: not isinstance(value, float) or math.isfinite(value))
ROW = st.fixed_dictionaries({"text": TEXTS}, optional={"x": VALUES})
BATCHES = st.lists(st.lists(ROW, min_size=1, max_size=3), min_size=1, max_size=4)
COLUMNS = ["text", "x", "label"]
FORMATS = st.sampled_from(["jsonl", "csv"])


def answer(row):
    """Return what stands for the answer to a row; nothing, for one without a text."""
    return {"label": f"of {str(row['text'])[:9]!r}\n" if row["text"] else None}


def write(path, row_format, batches, *, columns=COLUMNS, mark=False, most=None):
    """Write rows as commands do; return the numbers of the batches that were not all there yet.

    most: how many batches to write before an interruption.
    """
    new = []
    with Sink(path, None if mark else row_format).open(
        {"a": 1}, columns, ["label"], dialect=Dialect(mark=mark)
    ) as output:
        for number, batch in enumerate(batches):
            rows = list(map(Record, batch))
            answers = output.take(rows)
            assert answers == list(map(answer, batch[: len(answers)]))
            if len(answers) == len(batch):
                continue
            if len(new) == most:
                raise KeyboardInterrupt
            output.write([Record({**row, **answer(row)}) for row in rows[len(answers) :]])
            new.append(number)
    return new


def interrupt_after(most, path, *arguments, **options):
    """Write as many batches and be interrupted; return the file of rows and that of the request."""
    with suppress(KeyboardInterrupt):
        write(path, *arguments, most=most, **options)
    return path.with_name(f"{path.name}.partial"), path.with_name(f"{path.name}.partial.json")


def whole(row_format, batches, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        assert write(path, row_format, batches, **options) == list(range(len(batches)))
        assert len(list(contents(Path(folder)))) == 1
        return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out"


def drawn_cut(data, file):
    """Cut a file anywhere, as a kill or a crash of the machine may."""
    content = file.read_bytes()
    file.write_bytes(content[: data.draw(st.integers(0, len(content)))])


@given(FORMATS, BATCHES, st.data())
def test_a_file_cut_anywhere_becomes_the_whole_one(row_format, batches, data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        most = data.draw(st.integers(0, len(batches) - 1))
        for file in interrupt_after(most, path, row_format, batches):
            if file.exists() and data.draw(st.booleans()):
                drawn_cut(data, file)
        write(path, row_format, batches)
        assert path.read_bytes() == whole(row_format, batches)


@given(FORMATS, BATCHES, BATCHES)
def test_a_file_of_other_rows_becomes_that_of_these_and_stays_under_another_name(
    row_format, others, batches
):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        before, expected = (
            interrupt_after(len(rows), place, row_format, [*rows, rows[0]])[0].read_bytes()
            for rows, place in ((others, path), (batches, Path(folder) / "expected"))
        )
        write(path, row_format, batches)
        assert path.read_bytes() == whole(row_format, batches)
        if not expected.startswith(before):
            assert (Path(folder) / "out.kept-1").read_bytes() == before


@pytest.mark.parametrize("row_format", ["jsonl", "csv", "xlsx"])
def test_whole_rows_are_not_written_again(row_format, caplog, tmp_path, path):
    batches = [[{"text": f'{letter}"\r\n,', "x": 1.5}] * 5 for letter in "abcdef"]
    work, _ = interrupt_after(4, path, row_format, batches)
    work.write_bytes(work.read_bytes()[:-9])  # the last row was not finished
    with caplog.at_level(logging.INFO):
        assert write(path, row_format, batches) == [3, 4, 5]
    assert "out.partial: continues after 19 rows" in caplog.text
    if row_format != "xlsx":  # which has the time of its writing
        assert path.read_bytes() == whole(row_format, batches)
    assert len(list(contents(tmp_path))) == 1


@pytest.mark.parametrize("row_format", ["jsonl", "csv"])
@pytest.mark.parametrize("text", ["a", '"', "a,\n" * (1 << 17)])
def test_what_was_added_to_a_row_is_read_back(row_format, text, path):
    batches = [[{"text": text, "x": 1.5}, {"text": "b"}], [{"text": "c"}]]
    interrupt_after(1, path, row_format, batches)
    assert write(path, row_format, batches) == [1]  # which compares what is read back


@pytest.mark.parametrize("row_format", ["jsonl", "csv"])
def test_rows_that_somebody_changed_are_not_taken(row_format, path, tmp_path):
    batches = [[{"text": "a"}], [{"text": "b"}], [{"text": "c"}]]
    work, _ = interrupt_after(2, path, row_format, batches)
    changed = work.read_bytes().replace(b'"text": "b"', b'"text": "x"')
    work.write_bytes(changed)
    assert write(path, row_format, batches) == [1, 2]
    assert path.read_bytes() == whole(row_format, batches)
    assert (tmp_path / "out.kept-1").read_bytes() == changed


def test_a_byte_order_mark_stays(tmp_path):
    path = tmp_path / "out.csv"
    batches = [[{"text": "a", "x": 1}], [{"text": "b", "x": 2}]]
    interrupt_after(1, path, "csv", batches, mark=True)
    assert write(path, "csv", batches, mark=True) == [1]
    assert path.read_bytes() == codecs.BOM_UTF8 + whole("csv", batches)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_columns_that_are_not_known_before_the_first_row_are_those_of_the_file(
    count, tmp_path, path
):
    """Standard input is an example: its first row is not waited for."""
    batches = [[{"text": "a", "x": 1}], [{"text": "b"}], [{"text": "c", "x": 2}]]
    interrupt_after(count, path, "csv", batches, columns=[])
    assert write(path, "csv", batches, columns=[]) == list(range(count, 3))
    assert path.read_bytes() == whole("csv", batches)
    assert len(list(contents(tmp_path))) == 1


@pytest.mark.parametrize("row_format", ["jsonl", "csv"])
def test_batches_before_one_that_differs_stay(row_format, path, tmp_path):
    others, batches = ([[{"text": letter}] for letter in letters] for letters in ("abcx", "axcd"))
    interrupt_after(3, path, row_format, others)
    assert write(path, row_format, batches) == [1, 2, 3]
    assert path.read_bytes() == whole(row_format, batches)
    assert (tmp_path / "out.kept-1").exists()


def resumable_output(final, request):
    return _resumable_output(final, request, partial(finish_work, kind="rows"))


def interrupt(final, request, content=b"begun"):
    """Write `content` and be interrupted."""
    with suppress(KeyboardInterrupt), resumable_output(final, request) as file:
        file.write(content)
        raise KeyboardInterrupt


def test_a_file_stays_until_it_is_whole(tmp_path, caplog):
    final, work = tmp_path / "out.csv", tmp_path / "out.csv.partial"
    write_atomically(final, lambda file: file.write_text("old"), "rows")
    with caplog.at_level(logging.INFO):
        interrupt(final, {"a": 1})
    assert f"{work}: kept; the same command continues after its rows" in caplog.text
    assert final.read_text() == "old"
    with resumable_output(final, {"a": 1}) as file:
        assert file.read() == b"begun"
        file.write(b", ended")
    assert final.read_text() == "begun, ended"
    assert [path.name for path in contents(tmp_path)] == ["out.csv"]


def test_another_request_begins_anew_and_leaves_what_there_was(tmp_path, caplog):
    final = tmp_path / "out.csv"
    interrupt(final, {"a": 1})
    with caplog.at_level(logging.INFO), resumable_output(final, {"a": 2}) as file:
        file.write(b"other")
    assert (tmp_path / "out.csv.kept-1").read_bytes() == b"begun"
    assert "is from another command, or other options; its rows are now in" in caplog.text


def test_a_file_of_someone_else_stays(tmp_path):
    (tmp_path / "out.csv.partial").write_bytes(b"precious")
    (tmp_path / "out.csv.kept-1").write_bytes(b"older")
    with resumable_output(tmp_path / "out.csv", {}) as file:
        file.write(b"other")
    assert (tmp_path / "out.csv.kept-1").read_bytes() == b"older"
    assert (tmp_path / "out.csv.kept-2").read_bytes() == b"precious"


def test_a_folder_in_its_place_is_refused(tmp_path):
    (tmp_path / "out.csv.partial").mkdir()
    with pytest.raises(InputError, match=r"out\.csv\.partial: is a folder"):
        interrupt(tmp_path / "out.csv", {})


def test_an_interruption_is_passed_on_and_nothing_stays_of_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), resumable_output(tmp_path / "out.csv", {}):
        raise KeyboardInterrupt
    assert not list(contents(tmp_path))


def test_one_process_writes_at_a_time(tmp_path):
    final = tmp_path / "out.csv"
    with resumable_output(final, {}) as file:
        file.write(b"mine")
        with pytest.raises(InputError, match=r"out\.csv: another process is writing it"):
            interrupt(final, {})
    assert final.read_bytes() == b"mine"
