"""Records from a pipe: each as soon as its line arrives, and equal to those from a file."""

import gzip
import os
from itertools import chain
from threading import Timer

import pytest

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.records import read_records
from mlstm_sentiment.reading.source import _READ_BYTES
from mlstm_sentiment.reading.source import _arriving_lines as arriving_lines
from mlstm_sentiment.reading.source import _arriving_records as arriving_records
from mlstm_sentiment.reading.source import _kind_of as kind_of


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as sink:
        yield arriving_lines(reading), sink
    os.close(reading)


def test_lines_come_before_the_end(pipe):
    lines, sink = pipe
    sink.write(b"one\ntwo\nthr")
    assert next(lines) == [b"one\n", b"two\n"]
    sink.write(b"ee\r\n\nlast")
    assert next(lines) == [b"three\r\n", b"\n"]
    sink.close()
    assert list(lines) == [[b"last"]]


def test_records_come_before_the_end_and_a_blank_line_is_not_waited_for(pipe):
    """Otherwise the answer to the line before it would come one question late."""
    lines, sink = pipe
    parts = arriving_records(lines)
    sink.write(b'{"text": "one"}\n\n{"text": "two"}\n\n \t\r\n{"te')
    assert list(next(parts)) == [{"text": "one"}, {"text": "two"}]
    sink.write(b'xt": "three"}\n')
    (record,) = next(parts)
    assert (record["text"], record.place) == ("three", "standard input, line 6")


def test_later_rows_may_show_the_text(pipe):
    lines, sink = pipe
    parts = arriving_records(lines)
    for row, text in ((b'{"id": 1}\n', None), (b'{"id": 2, "text": "a"}\n', "text")):
        sink.write(row)
        (record,) = next(parts)
        assert record.table.text == text


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (gzip.compress(b"good\n", mtime=0), "is compressed with gzip; name the file with --input"),
        ("good\nbad\n".encode("utf-16"), "is UTF-16; name the file with --input"),
        ("good\nbad\n".encode("utf-16-le"), "is UTF-16; name the file with --input"),
        *((blank, "the input is empty") for blank in (b"", b"\n \n")),
    ],
)
def test_what_is_no_text_in_utf8_is_named_as_what_it_is(pipe, content, what):
    lines, sink = pipe
    sink.write(content)
    sink.close()
    with pytest.raises(InputError, match=f"^standard input:? {what}"):
        next(arriving_records(lines))


def test_another_encoding_is_read_as_asked():
    records = next(arriving_records(iter([[b"caf\xe9\n"]]), "cp1252"))
    assert list(records) == [{"text": "caf\u00e9"}]
    with pytest.raises(InputError, match="cannot be read as utf-16; name the file"):
        next(arriving_records(iter([]), "utf-16"))


def test_the_kind_is_that_of_the_first_line_that_is_not_blank(pipe):
    lines, sink = pipe
    sink.write(b"\n")
    Timer(0.05, sink.write, [b' \n{"text": "good"}\n']).start()
    (record,) = next(arriving_records(lines))
    assert (record["text"], record.place) == ("good", "standard input, line 3")


def test_a_file_of_any_size_is_read_in_pieces(tmp_path):
    path = tmp_path / "lines.txt"
    content = [b"a" * 100 + b"\n"] * (_READ_BYTES // 50) + [b"b" * (2 * _READ_BYTES)]
    path.write_bytes(b"".join(content))
    descriptor = os.open(path, os.O_RDONLY)
    parts = list(arriving_lines(descriptor))
    os.close(descriptor)
    assert list(chain(*parts)) == content
    assert max(map(len, parts)) <= _READ_BYTES // 101 + 1


def test_what_cannot_be_read_at_all_is_named(tmp_path):
    with (
        open(tmp_path / "written", "wb") as file,
        pytest.raises(InputError, match="standard input: Bad file descriptor"),
    ):
        next(arriving_lines(file.fileno()))


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("a.txt", b"\xef\xbb\xbfone\n\n three \r\n"),
        ("a.jsonl", b'{"text": "one"}\n\n{"text": null, "n": 2}\n'),
    ],
)
def test_a_pipe_reads_as_the_same_file_does(tmp_path, name, raw):
    (tmp_path / name).write_bytes(raw)
    lines = [[line] for line in raw.splitlines(keepends=True)]
    records = list(chain(*arriving_records(iter(lines))))
    assert records == list(read_records(tmp_path / name, strict=True))
    assert "\ufeff" not in str(records)


@pytest.mark.parametrize(
    ("line", "kind", "hint"),
    [
        (b' {"text": 1}\n', ".jsonl", None),
        (b"[fine]\n", ".txt", None),
        (b"\n", ".txt", None),
        (b"review\n", ".txt", None),  # one word, though it may name a column
        (b"text\n", ".txt", None),
        (b"Great text, loved it\n", ".txt", None),
        (b"[sic] I love it, really\n", ".txt", None),
        (b", \xff;\n", ".txt", None),
        (b"good, but not for me\n", ".txt", None),  # a space behind the comma: words, not names
        (b"id,content,label\n", ".txt", "csv"),
        (b'"Comment ID";"Comment";Stars\n', ".txt", "csv"),
        (b"text,label\n", None, "to a .csv file"),
        (b'id,"Review"\r\n', None, "to a .csv file"),
        (b"\xef\xbb\xbfid\tsentence\n", None, "to a .csv file"),
        (b"text;label\n", None, "to a .csv file"),
        (b'[{"text": "a"}]\n', None, "jq -c"),
        (b"[\n", None, "jq -c"),
    ],
)
def test_the_first_line_shows_the_kind_and_a_table_or_an_array_is_not_taken_for_text(
    line, kind, hint, caplog
):
    if kind is None:
        with pytest.raises(InputError, match=hint):
            kind_of(line)
        return
    assert kind_of(line) == kind
    assert ["may be a table's header" in message for message in caplog.messages] == (
        [True] if hint else []
    )


@pytest.mark.parametrize(
    ("raw", "words", "before"),
    [
        (b'{"text": "a"}\n[1]\n', "line 2: holds a list", 1),
        (b"caf\xe9\n", "line 1: not UTF-8", 0),
    ],
)
def test_what_cannot_be_read_is_refused_after_the_records_before_it(pipe, raw, words, before):
    lines, sink = pipe
    sink.write(raw)
    sink.close()
    records = []
    with pytest.raises(InputError, match=f"standard input.*{words}"):
        records.extend(chain(*arriving_records(lines)))
    assert len(records) == before
