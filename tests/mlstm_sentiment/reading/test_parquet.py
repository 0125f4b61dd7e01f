"""Parquet and Feather: the rows that were written."""

import io

import pyarrow
import pytest
from pyarrow import feather, parquet

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import LONGEST_RECORD
from mlstm_sentiment.reading.tables import columnar_rows

COLUMNS = {
    "text": pyarrow.array(["a", "é", None, "a"]),
    "bytes": pyarrow.array([b"a", b"\xff", None, b""], pyarrow.binary()),
    "large": pyarrow.array(["a", "b", None, ""], pyarrow.large_string()),
    "category": pyarrow.array(["x", "y", None, "x"]).dictionary_encode(),
    "a.b": pyarrow.array(["q", "r", "s", None]),
    "struct": pyarrow.array([{"u": "v", "n": 1}, None, {"u": None, "n": 2}, {"u": "v", "n": 3}]),
    "list": pyarrow.array([["a", "b"], None, [], ["a", None]]),
    "nulls": pyarrow.array([[None], None, [], [None, None]], pyarrow.list_(pyarrow.null())),
    "map": pyarrow.array(
        [[("a", 1)], None, [], [("b", None)]], pyarrow.map_(pyarrow.string(), pyarrow.int8())
    ),
    "pair": pyarrow.array([[1, 2], None, [3, 4], [5, None]], pyarrow.list_(pyarrow.int8(), 2)),
    "number": pyarrow.array([1.5, None, 2.5, 3.5]),
}


def parquet_rows(file, location):
    return columnar_rows(file, location, ".parquet")


def decoded(rows):
    """Bytes that are UTF-8 are text."""
    text = {b"a": "a", b"": ""}
    return [{k: text.get(v, v) if isinstance(v, bytes) else v for k, v in r.items()} for r in rows]


def written(columns, **options):
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file, **options)
    return file


ZONED = pyarrow.timestamp("us", "W. Europe Standard Time")


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (1 << 62, pyarrow.timestamp("us"), "a value that Python cannot hold"),  # after year 9999
        (1 << 30, pyarrow.date32(), "a value that Python cannot hold"),
        (0, ZONED, "a column of times has a time zone that is"),
    ],
)
def test_a_time_that_python_cannot_hold_is_one_line(value, kind, said):
    file = written({"text": pyarrow.array(["a"]), "when": pyarrow.array([value], kind)})
    with pytest.raises(InputError, match=rf"x\.parquet: {said}"):
        list(parquet_rows(file, "x.parquet"))


def test_columns_of_one_name_are_numbered():
    file = io.BytesIO()
    columns = [pyarrow.array(["a"]), pyarrow.array(["b"])]
    parquet.write_table(pyarrow.table(columns, names=["text", "text"]), file)
    assert list(parquet_rows(file, "x.parquet")) == [{"text": "a", "text (2)": "b"}]


@pytest.mark.parametrize("options", [{}, {"row_group_size": 3}, {"use_dictionary": False}])
@pytest.mark.parametrize("store_schema", [True, False])
def test_every_type_is_read_as_it_was_written(options, store_schema):
    file = written(COLUMNS, store_schema=store_schema, **options)
    assert list(parquet_rows(file, "a")) == decoded(parquet.read_table(file).to_pylist())


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_feather_is_read_as_it_was_written(compression):
    file, table = io.BytesIO(), pyarrow.table(COLUMNS)
    feather.write_feather(table, file, compression=compression, chunksize=3)
    file.seek(0)
    assert list(columnar_rows(file, "a", ".feather")) == decoded(table.to_pylist())
    with pytest.raises(InputError, match=r"a\.feather: not a Feather file, or damaged"):
        list(columnar_rows(io.BytesIO(file.getvalue()[:-9]), "a.feather", ".feather"))


def repeated(text, rows):
    """One string, which the file holds once, in every row."""
    zeros = pyarrow.array([0] * rows, pyarrow.int32())
    return pyarrow.DictionaryArray.from_arrays(zeros, pyarrow.array([text]))


@pytest.mark.parametrize(
    ("column", "before"),
    [
        (repeated("a" * (LONGEST_RECORD + 1), 9), 0),
        (pyarrow.array(["a" * (LONGEST_RECORD + 1)]), 0),
        (pyarrow.array(["a", "b", "a" * (LONGEST_RECORD + 1), "d"]), 2),
    ],
)
def test_a_row_that_is_too_long_is_refused_after_those_before_it(column, before):
    rows = parquet_rows(written({"text": column}), "a")
    for _ in range(before):
        next(rows)
    with pytest.raises(InputError, match=f"a, row {before + 1}: longer"):
        next(rows)


@pytest.mark.parametrize("flip", [1, 4])
def test_damage_in_the_description_of_columns_never_ends_the_process(flip):
    """pyarrow aborts where a damaged column is described; it raises where the column is read."""
    whole = written({"text": pyarrow.array(["a", "b"]), "label": pyarrow.array([[1], None])})
    content = whole.getvalue()
    footer = int.from_bytes(content[-8:-4], "little")
    refused = 0
    for place in range(len(content) - 8 - footer, len(content) - 8):
        damaged = bytearray(content)
        damaged[place] ^= flip
        try:
            list(parquet_rows(io.BytesIO(damaged), "x.parquet"))
        except InputError:
            refused += 1
    assert refused > 0


def test_a_text_of_negative_length_in_a_damaged_feather_file_is_refused():
    offsets = pyarrow.py_buffer(bytes([0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0]))
    texts = pyarrow.StringArray.from_buffers(2, offsets, pyarrow.py_buffer(b"abcde"))
    batch = pyarrow.record_batch([texts], names=["text"])
    file = io.BytesIO()
    with pyarrow.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(InputError, match="not a Feather file, or damaged"):
        list(columnar_rows(file, "a.feather", ".feather"))
