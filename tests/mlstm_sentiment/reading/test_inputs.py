"""Files, folders and patterns as inputs; every format and compression read alike."""

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import re
import sys
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from data_utils.labelled import read_labelled_sets
from data_utils.preparation.expansion import expand
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import KINDS, TableOptions, as_input
from mlstm_sentiment.reading.records import read_records
from mlstm_sentiment.reading.source import Source
from mlstm_sentiment.reading.texts import ReadingReport, read_texts

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXTS = ["good", "b\u00e4d \U0001f600", "NA", "null", "two\nlines"]
LINES = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)


def zipped(content, *more):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("__MACOSX/._a", "a.csv", *more):
            archive.writestr(name, content if name == "a.csv" else b"x")
    return file.getvalue()


STREAMS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd.compress}
PACKERS = {**STREAMS, ".zip": zipped}


def texts_of(path, strict=True):
    report = ReadingReport()
    return list(read_texts([path], None, report, strict=strict)), report


def write(path, content):
    path.write_bytes(PACKERS.get(path.suffix, bytes)(content))
    return path


@pytest.mark.parametrize("suffix", ["", *PACKERS])
@pytest.mark.parametrize("kind", [".jsonl", ".json", "array.json", ".csv", ".tsv"])
def test_every_format_in_every_compression(tmp_path, kind, suffix):
    content = {
        ".jsonl": LINES,
        ".json": LINES,
        "array.json": "\n [" + ",\n ".join(LINES.splitlines()) + "]\n",
        ".csv": "text\n" + "".join(f'"{text}"\n' for text in TEXTS),
        ".tsv": "text\n" + "".join(f'"{text}"\n' for text in TEXTS),
    }[kind]
    path = write(tmp_path / f"a{kind}{suffix}", content.encode())
    assert texts_of(path)[0] == TEXTS


def test_several_compressed_parts_in_one_file_are_one_text(tmp_path):
    half = len(LINES.splitlines()[0]) + 1
    for suffix, pack in STREAMS.items():
        path = tmp_path / f"a.jsonl{suffix}"
        path.write_bytes(pack(LINES[:half].encode()) + pack(LINES[half:].encode()))
        assert texts_of(path)[0] == TEXTS


@pytest.mark.parametrize("padding", [0, 4, 1 << 17])
@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".bz2", bz2.compress),
        (".xz", partial(lzma.compress, check=lzma.CHECK_CRC32)),
        (".xz", partial(lzma.compress, check=lzma.CHECK_SHA256)),
    ],
    ids=["bz2", "xz", "xz-sha256"],
)
def test_padding_between_and_behind_the_streams_hides_nothing(tmp_path, padding, suffix, pack):
    path = tmp_path / f"a.jsonl{suffix}"
    packed = [pack(line) for line in LINES.encode().splitlines(True)]
    path.write_bytes(b"".join(part + bytes(padding) for part in packed))
    assert texts_of(path)[0] == TEXTS


@pytest.mark.parametrize("suffix", [".bz2", ".xz"])
@pytest.mark.parametrize(
    "second",
    [
        lambda packed: b"\xff" + packed[1:],
        lambda packed: packed[:7] + b"\xff" + packed[8:],
        lambda packed: packed[:-9],
        lambda packed: packed[:3],
        lambda packed: bytes(4) + packed[:-9],
        lambda packed: zipped(packed),
        lambda packed: b"no stream",
    ],
    ids=["mark", "head", "end", "start", "padding", "zip", "text"],
)
def test_damage_behind_the_first_stream_is_named(tmp_path, suffix, second):
    """Python's own readers treat it as the end of the file."""
    packed, path = STREAMS[suffix](LINES.encode()), tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(packed + second(packed))
    with pytest.raises(InputError, match=rf"a\.jsonl{suffix}: damaged or cut short"):
        texts_of(path)


def test_the_oldest_dumps_have_single_quotes(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("{'reviewText': \"It's fine\", 'overall': 5.0, 'helpful': [0, 1]}\n" * 2)
    assert texts_of(path)[0] == ["It's fine"] * 2


def test_threads_that_read_leave_the_filters_of_warnings_as_they_were(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("{'text': 'fine'}\n" * 20)
    before, interval = list(warnings.filters), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(texts_of, [path] * 40))
    finally:
        sys.setswitchinterval(interval)
    assert warnings.filters == before


@pytest.mark.parametrize(
    "line",
    ["{'a': __import__('os').getcwd()}", "{'a': open}", "{'a': " + "[" * 2000 + "}", "{'a'}"],
)
def test_single_quotes_are_read_as_data_never_run(tmp_path, line):
    path = tmp_path / "a.json"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=r"line 1: (not JSON|holds a set)"):
        texts_of(path)


def test_lone_surrogates_nul_and_nan(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "a\\ud800b"}\n{"text": "a\\u0000b"}\n{"text": NaN}\n{"text": "\\ud83d\\ude00"}\n'
    )
    texts, report = texts_of(path, strict=False)
    assert texts == ["a\ud800b", "a\0b", "\U0001f600"]
    assert report == ReadingReport(records=4, missing_text=1, surrogates=1, nul=1)
    with pytest.raises(InputError, match="line 1: a lone surrogate"):
        texts_of(path)


def test_a_text_file_can_be_one_review(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (record,) = read_records(tmp_path / "a.txt", strict=True, whole=True)
    assert record["text"] == "one\ntwo\n"


# mtime=0: an id that holds the time of its making differs between the workers that run these.
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b'[{"text": "a"}, {"text"', "not JSON .*char 23"),
        ("a.json", b'[{"text": "a"}, 5]', "item 2: holds a int"),
        ("a.parquet", b"PAR1 and no more", "not a Parquet file, or damaged"),
        ("a.jsonl.zst", zstd.compress(LINES.encode())[:-3], "damaged or cut short"),
        ("a.jsonl.zst", b"no frame", "is not compressed with zstd, though .* in .zst; rename"),
        ("a.jsonl.gz", b"no member", "is not compressed with gzip, though .* in .gz; rename"),
        ("a.jsonl.bz2", LINES.encode(), "is not compressed with bzip2, though its name ends in"),
        ("a.csv.zip", b"text\n", "is not compressed with zip, though its name ends in .zip"),
        ("a.csv.zip", b"PK\x03\x04 and no more", "damaged or cut short"),
        ("a.jsonl.bz2", bz2.compress(LINES.encode())[:-9], "damaged or cut short"),
        ("a.jsonl.bz2", b"BZh9" + bytes(99), "damaged or cut short .Invalid data stream"),
        ("a.xlsx", b"PK\x03\x04 and no more", "not a workbook, or damaged"),
        ("a.feather", b"ARROW1 and no more", "not a Feather file, or damaged"),
        ("a.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)[:-9], "damaged or cut short"),
        ("a.jsonl.xz", lzma.compress(LINES.encode())[:-9], "damaged or cut short"),
    ],
)
def test_damage_says_what_and_where(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        texts_of(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_folders_and_patterns_in_the_order_of_names(tmp_path):
    for name in ("b.csv", "a.jsonl", "deep/c.txt", "LICENSE", "notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [source.name for source in expand([tmp_path])] == ["a.jsonl", "b.csv", "c.txt"]
    assert [source.name for source in expand([f"{tmp_path}/*.csv"])] == ["b.csv"]
    assert [source.name for source in expand([f"{tmp_path}/**/*.txt"])] == ["c.txt"]
    with pytest.raises(InputError, match="no such file"):
        expand([f"{tmp_path}/*.parquet"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no file of a known kind"):
        expand([tmp_path / "empty"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.jsonl", "a.jsonl: is a broken link"),
        ("b.jsonl", "b.jsonl: is a pipe or a device"),
        ("?.jsonl", "a.jsonl: is a broken link"),
        ("[b-c].jsonl", "b.jsonl: is a pipe or a device"),
        ("", "a.jsonl: is a broken link"),
        ("deep*", "matches only folders"),
        ("**/*.source.json", "matches only files that this project made"),
    ],
)
def test_what_is_named_and_cannot_be_read_is_no_empty_input(tmp_path, name, message):
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "README").symlink_to(tmp_path / "nowhere")  # no data: it does not matter
    os.mkfifo(tmp_path / "b.jsonl")
    (tmp_path / "deep").mkdir()
    for each in ("c.jsonl", "deep/d.jsonl", "deep/d.jsonl.source.json"):
        (tmp_path / each).write_text(LINES)
    with pytest.raises(InputError, match=re.escape(message)):
        expand([f"{tmp_path}/{name}", tmp_path / "c.jsonl"])
    assert [source.name for source in expand([tmp_path / "deep"])] == ["d.jsonl"]


def test_a_folder_that_is_only_linked_is_named_and_left_out(tmp_path, caplog):
    for name in ("elsewhere/b.jsonl", "data/a.jsonl"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(LINES)
    (tmp_path / "data" / "linked").symlink_to(tmp_path / "elsewhere")
    assert [source.name for source in expand([tmp_path / "data"])] == ["a.jsonl"]
    assert f"{tmp_path}/data/linked: is a link to a folder" in caplog.text
    both = expand([tmp_path / "data", tmp_path / "data" / "linked"])
    assert [source.name for source in both] == ["a.jsonl", "b.jsonl"]


LABELLED = ["train.jsonl", "unlabelled.jsonl", "test.jsonl", "latest.csv", "test/pos/0_9.txt"]


def test_test_files_are_read_only_where_they_are_named(tmp_path, caplog):
    """Otherwise a corpus could silently hold the texts that its model is tested on."""
    data = tmp_path / "imdb"
    for name in (*LABELLED, "part-test_2.csv", "tests/a.csv"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(LINES)
    others = ["latest.csv", "train.jsonl", "unlabelled.jsonl"]
    with caplog.at_level("INFO"):
        assert [source.name for source in expand([data])] == others
    report, warned = caplog.messages
    assert report == f"{data}: reads 1 .csv, 2 .jsonl: latest.csv, train.jsonl, unlabelled.jsonl"
    assert "part-test_2.csv, test/pos/0_9.txt, test.jsonl, tests/a.csv; name them" in warned
    for pattern, names in {
        "*.jsonl": others[1:],
        "test*.jsonl": ["test.jsonl"],
        "test/pos/*": ["0_9.txt"],
        "t*.jsonl": ["train.jsonl"],
    }.items():
        assert [source.name for source in expand([f"{data}/{pattern}"])] == names
    both = expand([data, data / "test.jsonl", data / "test"])
    assert [source.name for source in both] == [*others, "test.jsonl", "0_9.txt"]
    for only in (f"{data}/te*", f"{data}/?est.jsonl"):
        with pytest.raises(InputError, match=r"has only test files; name them"):
            expand([only])


def test_hidden_files_of_a_folder_are_read_only_where_they_are_named(tmp_path, caplog):
    """JupyterLab keeps copies in one, macOS writes bytes into the other for every file."""
    data = tmp_path / ".cache" / "data"
    copy, fork = data / ".ipynb_checkpoints" / "a-checkpoint.txt", data / "b" / "._b.csv"
    for path in (data / "a.txt", copy, data / "b" / "b.csv", fork, data / ".git" / "HEAD"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    assert [source.name for source in expand([data])] == ["a.txt", "b.csv"]
    line = f"{data}: leaves out hidden files: .ipynb_checkpoints/a-checkpoint.txt, b/._b.csv; name"
    assert line in caplog.text
    both = expand([data, copy.parent, fork])
    assert [source.name for source in both] == ["a.txt", "b.csv", copy.name, fork.name]


def test_what_is_named_twice_is_read_once(tmp_path, caplog):
    path = tmp_path / "a.jsonl"
    path.write_text(LINES)
    (tmp_path / "b.jsonl").symlink_to(path)
    (tmp_path / "copy.jsonl").write_text(LINES)
    for named, names in (
        ([path, path], ["a.jsonl"]),
        ([tmp_path, path], ["a.jsonl", "copy.jsonl"]),
        ([f"{tmp_path}/b*", tmp_path / ".." / tmp_path.name], ["b.jsonl", "copy.jsonl"]),
    ):
        caplog.clear()
        assert [source.name for source in expand(named)] == names
        assert "the same input as" in caplog.text


class Failing(io.RawIOBase):
    """A disk that fails while it is read, with an error that names nothing."""

    def readable(self):
        return True

    def readinto(self, buffer):
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("name", ["a.txt", "a.json", "a.csv", "a.jsonl.gz", "a.tsv.xz"])
def test_a_disk_that_fails_is_named_by_the_file(tmp_path, monkeypatch, name):
    write(tmp_path / name, b"text\n")
    failing = io.BufferedReader(Failing())
    monkeypatch.setattr("mlstm_sentiment.reading.inputs.open", lambda *_: failing, raising=False)
    with pytest.raises(InputError, match=f"{name}: Input/output error$"):
        texts_of(tmp_path / name)


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_is_read_as_it_was_written(tmp_path, indent):
    rows = [{"text": text, "n": [1.5, None, {"a": -12}]} for text in (*TEXTS, "a", "\u2028")]
    content = "\n " + json.dumps(rows, indent=indent, ensure_ascii=indent is None)
    (tmp_path / "a.json").write_text(content)
    assert list(read_records(tmp_path / "a.json", strict=True)) == rows


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ('[{"a": 1}', "line 1 column 10"),
        ('[{"a": 1},\n]', "line 1 column 10|line 2 column 1"),  # the comma, or what follows it
        ('[{"a": 1} {"a": 2}]', "line 1 column 11"),
        ('[{"a": 1}] x', "line 1 column 12"),
        ('[{"a": 1}]\n[{"a": 2}]', "something after the array"),
        ("[1e]", "line 1 column 3"),
        ('[{"a" 1}]', "line 1 column 7"),
        (f'[{"5," * 1_000_000}\n"a" 5]', "line 2 column 5 .char 2000006"),
    ],
    ids=range(8),
)
def test_what_is_no_array_is_refused_with_the_place_in_the_file(tmp_path, wrong, place):
    (tmp_path / "a.json").write_text(wrong)
    with pytest.raises(InputError, match=rf"a\.json: not JSON .*({place})"):
        list(read_records(tmp_path / "a.json", strict=True))


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"a\.csv: is a pipe or a device, not a file; save its"):
        list(read_records(tmp_path / "a.csv", strict=True))


def test_only_the_reviews_of_a_folder_with_classes_are_read(tmp_path, caplog):
    """The archive of IMDB's film reviews is such a folder."""
    data = tmp_path / "aclImdb"
    for name in ("train/pos/0_9.txt", "train/neg/0_2.txt", "train/unsup/0_0.txt"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text("a review")
    for name in ("README", "imdbEr.txt", "train/urls_pos.txt", "train/more.csv"):
        (data / name).write_text("http://example.com")
    with caplog.at_level("INFO"):
        names = [source.name for source in expand([data])]
    assert names == ["more.csv", "0_2.txt", "0_9.txt", "0_0.txt"]
    assert "leaves out other text files: imdbEr.txt, train/urls_pos.txt; name" in caplog.text
    assert "reads 1 .csv, 3 .txt:" in caplog.text
    (data / "notes.txt").write_text("a review")
    assert [source.name for source in expand([data / "notes.txt"])] == ["notes.txt"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        *((name, f"{name}: no such file") for name in ("nowhere", "nowhere.doc", "nowhere.csv")),
        ("b.jsonl", "is a folder; name the files in it, one at a time, such as b.jsonl/c.csv$"),
        ("http://x.y/a.csv", r"^http://x\.y/a\.csv: a URL.*download it first"),
        (Path("https://x.y/a.csv"), r"^https://x\.y/a\.csv: a URL.*download it first"),
        ("file:///a%20b.csv", r"file:///a%20b\.csv: give the path alone: /a b\.csv"),
    ],
)
def test_what_is_no_file_is_refused(tmp_path, monkeypatch, source, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.jsonl").mkdir()
    for name in (".mlstm_sentiment.jsonl", "c.csv"):
        (tmp_path / "b.jsonl" / name).write_text("text\n")
    with pytest.raises(InputError, match=message):
        list(read_records(as_input(source), strict=True))


USED = {  # options of tables, and the kinds of files for which they do something
    "delimiter": (".csv", ".tsv"),
    "quoting": (".csv", ".tsv"),
    "bad_rows": (".csv", ".tsv"),
    "sheet": (".xlsx", ".xlsm"),
    "encoding": (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json"),
}
VALUES = {
    "delimiter": ";",
    "quoting": "none",
    "bad_rows": "skip",
    "sheet": "a",
    "encoding": "utf-8",
}


@pytest.mark.parametrize("option", USED)
def test_an_option_is_refused_for_files_on_which_it_does_nothing(tmp_path, option):
    table = TableOptions(**{option: VALUES[option]})
    said = f"--{option.replace('_', '-')} is for .*; leave it out"
    for kind in KINDS:
        path = tmp_path / f"a{kind}.gz"
        path.touch()
        if kind in USED[option]:
            assert Source(path, table=table).file.kind == kind
            continue
        with pytest.raises(InputError, match=said):
            list(Source(path, table=table).records())
        with pytest.raises(InputError, match=said):
            expand([path], table)
        with pytest.raises(InputError, match=said):
            read_labelled_sets([path], table=table)
    if option != "encoding":
        with pytest.raises(InputError, match=said):
            Source("-", table=table)


def test_one_of_several_inputs_may_need_an_option(tmp_path):
    (tmp_path / "a.csv").write_text("text;label\ngood;1\nbad;0\n")
    (tmp_path / "b.jsonl").write_text('{"text": "fine", "label": 1}\n')
    paths, table = [tmp_path / "a.csv", tmp_path / "b.jsonl"], TableOptions(delimiter=";")
    assert [source.options for source in expand(paths, table)] == [table, table]
    assert [part.texts for part in read_labelled_sets(paths, table=table)] == [
        ["good", "bad"], ["fine"],
    ]  # fmt: skip
