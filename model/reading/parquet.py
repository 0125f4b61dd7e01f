"""Parquet, a few rows at a time, in bounded memory.

A few hundred bytes of dictionary and runs can stand for gigabytes. So the file's metadata decide
how many rows are read at once, strings stay in their dictionary, and a row is measured before it
becomes Python objects.
"""

from collections.abc import Iterator
from typing import IO, Any

from ..errors import InputError, brief
from .inputs import LONGEST_RECORD
from .tables import check_names

MOST_ROWS = 1000
BATCH_BYTES = 64 << 20  # limit of the rows read at once


class RowTooLong(ValueError):
    """A row (or the average row of a group) has more than LONGEST_RECORD bytes."""


def parquet_rows(file: IO[bytes], location: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file.

    Raises InputError for one that is damaged, for two columns with one name, and for a row that is
    too long.

    location: names the file in messages.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(".parquet files need pyarrow: pip install pyarrow") from error
    if not file.seekable():
        raise InputError(
            f"{location}: a Parquet file cannot be read from a stream; download or decompress it "
            "first"
        )
    number = 0
    try:
        for batch in _batches(file, location):
            for piece in _short_pieces(batch):
                for row in _rows(piece, location):
                    number += 1
                    yield row
    except RowTooLong as error:
        raise InputError(
            f"{location}, row {number + 1} or soon after it: longer than {LONGEST_RECORD:,} bytes; "
            "cut it"
        ) from error
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{location}: not a Parquet file, or damaged ({brief(error)}); get it again"
        ) from error


def _rows(batch: Any, location: str) -> list[dict[str, Any]]:
    """Return a batch as Python values; InputError for a value that Python cannot hold."""
    from pyarrow import ArrowException

    try:
        rows: list[dict[str, Any]] = _decoded(batch).to_pylist()
    except (ArrowException, UnicodeDecodeError):  # damage
        raise
    except (ValueError, OverflowError) as error:  # such as a time beyond the year 9999
        raise InputError(
            f"{location}: a value that Python cannot hold ({brief(error)}); leave its column out"
        ) from error
    return rows


def _batches(file: IO[bytes], location: str) -> Iterator[Any]:
    """Yield a file's rows in batches, with all strings in their dictionaries."""
    from pyarrow import parquet

    described = parquet.ParquetFile(file)
    check_names(described.schema_arrow.names, location)
    schema = described.schema
    columns = [schema.column(number) for number in range(len(schema))]
    # pyarrow keeps no decimals in a dictionary.
    strings = [
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL"
    ]
    source = parquet.ParquetFile(file, read_dictionary=strings)
    for number in range(source.num_row_groups):
        _check_columns(source, number)
        count = _rows_at_once(source.metadata.row_group(number))
        yield from source.iter_batches(count, row_groups=[number])


def _check_columns(source: Any, number: int) -> None:
    """Raise ArrowException if a row group's description of its columns is damaged.

    pyarrow raises it only when columns are read; on access to the description it ends the process.
    """
    from pyarrow import ArrowInvalid

    described, expected = source.metadata.row_group(number).num_columns, source.metadata.num_columns
    if described != expected:
        raise ArrowInvalid(f"row group {number} has {described} columns, not {expected}")
    next(source.iter_batches(1, row_groups=[number]), None)


def _rows_at_once(row_group: Any) -> int:
    """Return how many rows of a row group to read together; RowTooLong if not even one fits."""
    values = sum(row_group.column(number).num_values for number in range(row_group.num_columns))
    size, rows = max(row_group.total_byte_size, values), max(row_group.num_rows, 1)
    if size > rows * LONGEST_RECORD:
        raise RowTooLong
    return min(max(BATCH_BYTES * rows // max(size, 1), 1), MOST_ROWS)


def _short_pieces(batch: Any) -> Iterator[Any]:
    """Cut a batch until every piece is within a record's limit; RowTooLong for a longer row."""
    if sum(map(_size, batch.columns)) <= LONGEST_RECORD:
        yield batch
        return
    if batch.num_rows == 1:
        raise RowTooLong
    half = batch.num_rows // 2
    yield from _short_pieces(batch.slice(0, half))
    yield from _short_pieces(batch.slice(half))


def _decoded(batch: Any) -> Any:
    """Return a batch with its strings out of their dictionaries, from which listing is slow."""
    from pyarrow import RecordBatch, types

    columns = [
        column.dictionary_decode() if types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return RecordBatch.from_arrays(columns, names=batch.schema.names)


def _size(array: Any) -> int:
    """Return the bytes of an array's values without sharing; a null counts at least one."""
    import pyarrow
    from pyarrow import compute, types

    kind = array.type
    if types.is_dictionary(kind):
        lengths = compute.binary_length(array.dictionary).take(array.indices)
        return len(array) + (compute.sum(lengths).as_py() or 0)
    if types.is_struct(kind):
        return len(array) + sum(map(_size, array.flatten()))
    if types.is_map(kind):
        entry = pyarrow.struct([("key", kind.key_type), ("value", kind.item_type)])
        array = array.cast(pyarrow.list_(entry))
    if types.is_nested(kind):
        return len(array) + _size(array.flatten())
    return max(array.nbytes, len(array))
