"""Inputs made to use endless memory or time: each is refused immediately, in one line."""

import gzip
import io
import json
import os
import shutil
import time

import pytest

from data_utils.preparation.preparation import Preparation, prepare_corpus
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import LONGEST_RECORD
from mlstm_sentiment.reading.records import _LONGEST_LITERAL, read_records
from mlstm_sentiment.reading.source import _arriving_lines as arriving_lines
from mlstm_sentiment.reading.source import _arriving_records as arriving_records
from mlstm_sentiment.reading.tables import Record
from mlstm_sentiment.rows.sink import RowOutput
from tests.data_utils.splits import reviews_in

PIECE = 1 << 24
PIECES = 4  # of which less than two are to be read
SECONDS = 10  # of one core; one such input took more than 120


@pytest.fixture
def soon():
    """Limit the time of the test, which reading the whole input would exceed."""
    began = time.process_time()
    yield
    assert time.process_time() - began < SECONDS


def write_endless(path, head, filling=b"a"):
    """Write what is long and ends in damage: a reader that came so far would refuse that.

    One of many lines ends well, since the encoding of a table is found by reading all of it.
    """
    pieces = gzip.compress(filling * (PIECE // len(filling)), 1) * PIECES
    end = b"" if filling.endswith(b"\n") else b"damage"
    path.write_bytes(gzip.compress(head) + pieces + end)
    return path


ENDLESS = [
    ("a.jsonl.gz", b'{"text": "fine"}\n{"text": "', b"a", "line 2: longer than"),
    ("a.txt.gz", b"fine\n", b"a", "line 2: longer than"),
    ("a.csv.gz", b"text\nfine\n", b"a", "line 3: longer than"),
    ("a.csv.gz", b'text\nfine\n"', b"a" * 127 + b"\n", "longer than .* a quote may be open; --quo"),
    ("a.csv.gz", b"", b"a,", "longer than"),
]


@pytest.mark.parametrize(("name", "head", "filling", "message"), ENDLESS)
def test_a_record_without_end_is_refused(tmp_path, name, head, filling, message):
    path = write_endless(tmp_path / name, head, filling)
    with pytest.raises(InputError, match=rf"{name}.*{message}"):
        for _ in read_records(path, strict=False):
            pass
    if name != "a.csv.gz":  # a preparation reads tables as above
        with pytest.raises(InputError, match=rf"{name}.*{message}"):
            prepare_corpus([path], tmp_path / "out", Preparation())


def test_a_document_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("mlstm_sentiment.reading.records._LONGEST_DOCUMENT", 1 << 20)
    path = write_endless(tmp_path / "a.txt.gz", b"fine\n")
    with pytest.raises(InputError, match=r"a\.txt\.gz: longer than 1,048,576 bytes"):
        prepare_corpus([path], tmp_path / "out", Preparation(documents=True))


def test_json_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("mlstm_sentiment.reading.records._LONGEST_JSON", 1 << 20)
    path = write_endless(tmp_path / "a.json.gz", b'[{"text": "fine"},\n{"text": "')
    message = r"a\.json\.gz: longer than 1,048,576 bytes; put each record on its own line"
    with pytest.raises(InputError, match=message):
        list(read_records(path, strict=False))
    with pytest.raises(InputError, match=message):
        prepare_corpus([path], tmp_path / "out", Preparation())


def by_pipe(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return [line.strip() for lines in arriving_lines(descriptor) for line in lines]
    finally:
        os.close(descriptor)


def by_lines(path):
    return [record["text"].encode() for record in read_records(path, strict=True)]


def in_blocks(path):
    folder = path.with_name("out")
    prepare_corpus(
        [path], folder, Preparation(split=(1, 0, 0), text_profile="raw", keep_order=True)
    )
    return reviews_in(folder)


def in_blocks_of_a_stream(path):
    packed = path.with_name("a.txt.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), 1))
    return in_blocks(packed)


@pytest.mark.parametrize("read", [by_pipe, by_lines, in_blocks, in_blocks_of_a_stream])
@pytest.mark.parametrize("last", [False, True])
def test_a_line_of_too_many_bytes_is_refused(tmp_path, read, last):
    lines = [b"fine", b"a" * LONGEST_RECORD] + ([] if last else [b"fine"])
    (tmp_path / "a.txt").write_bytes(b"\n".join(lines))
    assert read(tmp_path / "a.txt") == lines
    (tmp_path / "a.txt").write_bytes(b"\n".join(line + b"a" for line in lines))
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    with pytest.raises(InputError, match=r"(line 2:|a line is) longer than"):
        read(tmp_path / "a.txt")


def test_the_encoding_of_a_table_is_found_before_a_line_that_is_too_long(tmp_path):
    row = "Caf\xe9 na\xefve \x93tr\xe8s bien\x94\n".encode("latin-1")  # quotes as in cp1252
    (tmp_path / "a.csv").write_bytes(b"text\n" + row * 2000 + b"a" * (LONGEST_RECORD + 1))
    read = iter(read_records(tmp_path / "a.csv", strict=True))
    assert next(read)["text"] == "Caf\xe9 na\xefve \u201ctr\xe8s bien\u201d"
    with pytest.raises(InputError, match="line 2002: longer than"):
        list(read)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("read", [by_pipe, in_blocks])
def test_a_gigabyte_without_lines_is_refused(tmp_path, read):
    path = tmp_path / "a.txt"
    with open(path, "wb") as file:
        file.truncate(1 << 30)  # takes no room on the disk
    with pytest.raises(InputError, match=r"(line 1:|a line is) longer than"):
        read(path)


DIGITS = "1" * 5000
DEEP = 200_000


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    "value", [DIGITS, f"-{DIGITS}", "[" * DEEP, '{"a":' * DEEP, "[" * DEEP + "]" * DEEP]
)
@pytest.mark.parametrize("key", ["text", "other"])
def test_numbers_and_nesting_out_of_all_measure_are_refused(tmp_path, key, value):
    row = f'{{"text": "fine", "{key}": {value}}}'
    (tmp_path / "a.jsonl").write_text(f'{{"text": "fine"}}\n{row}\n')
    (tmp_path / "a.json").write_text(f'[{{"text": "fine"}}, {row}]')
    for name, place in (("a.jsonl", ", line 2"), ("a.json", "")):
        with pytest.raises(InputError, match=f"{name}{place}: not JSON"):
            list(read_records(tmp_path / name, strict=True))
        with pytest.raises(InputError, match=f"{name}{place}: not JSON"):
            prepare_corpus([tmp_path / name], tmp_path / "out", Preparation())
    with pytest.raises(InputError, match="standard input, line 1: not JSON"):
        list(next(arriving_records(iter([[row.encode()]]))))


def test_what_is_nested_or_written_as_python_is_refused(tmp_path):
    deep: list[object] = []
    for _ in range(200_000):  # Python 3.13 and 3.14 write some ten thousand
        deep = [deep]
    row = Record({"a": deep})
    row.place = "line 7"
    for row_format in ("jsonl", "csv"):
        with pytest.raises(InputError, match="line 7: is nested too deeply to be written"):
            RowOutput(io.BytesIO(), row_format).write([row])
    (tmp_path / "a.jsonl").write_text("{'text': [" + "1," * (_LONGEST_LITERAL // 2) + "]}")
    with pytest.raises(InputError, match="line 1: not JSON"):
        list(read_records(tmp_path / "a.jsonl", strict=True))


@pytest.mark.usefixtures("soon")
def test_many_small_items_after_a_long_one_take_time_in_proportion(tmp_path):
    """Each item used to copy the rest of the text."""
    items = [{"text": "a" * (LONGEST_RECORD // 2)}, *({"text": "b"} for _ in range(100_000))]
    (tmp_path / "a.json").write_text(json.dumps(items))
    assert sum(1 for _ in read_records(tmp_path / "a.json", strict=True)) == len(items)
