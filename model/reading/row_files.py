"""Writing rows to JSON lines or CSV, one at a time."""

import csv
import io
import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, Protocol

from ..errors import InputError

RowFormat = Literal["jsonl", "csv"]
_CELL = re.compile(r'(?:"((?:[^"]++|"")*+)"|([^",\n]*+))([,\n])')
_UNSAYABLE = "backslashreplace"  # writes a lone surrogate, which UTF-8 lacks, as JSON does


class Stream(Protocol):
    """What rows are written to."""

    def write(self, line: bytes, /) -> Any: ...

    def flush(self) -> None: ...


class RowWriter:
    """Writes rows of named values to a stream of bytes, as UTF-8.

    JSON lines keep what CSV loses: null differs from an empty text, a number from a string of
    digits. columns: of CSV; [] takes those of the first row. mark: whether CSV begins with a byte
    order mark, which Excel needs.
    """

    def __init__(
        self,
        file: Stream,
        row_format: RowFormat,
        columns: Sequence[str] = (),
        *,
        mark: bool = False,
    ):
        self._file = file
        self._columns = columns
        self._mark = BOM_UTF8 if mark else b""
        self._has_header = False
        self._is_csv = row_format == "csv"

    def write(self, row: Mapping[str, Any], place: str) -> None:
        """Write a row; InputError for a value that has no column in CSV or cannot be JSON."""
        if not self._is_csv:
            self._file.write(row_as_json(row, place))
            return
        with _refused_values(place):
            line = self._csv_line(row, place)
        self._file.write(line)

    def flush(self) -> None:
        self._file.flush()

    def read_back(self, written: bytes, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the last values of rows that a writer like this one has written, by name.

        The rows written next follow them.
        """
        if not self._is_csv:
            rows = map(json.loads, written.splitlines())
            return [{name: row.get(name) for name in names} for row in rows]
        lines = _csv_cells(written.removeprefix(BOM_UTF8).decode())
        if not self._has_header:
            self._columns, self._has_header = next(lines), True
        return [
            {
                name: value_of(cell, is_text=name == "label")
                for name, cell in zip(names, cells[-len(names) :], strict=True)
            }
            for cells in lines
        ]

    def _csv_line(self, row: Mapping[str, Any], place: str) -> bytes:
        head = b""
        if not self._has_header:
            self._has_header = True
            self._columns = self._columns or list(row)
            head = self._mark + csv_line(self._columns)
        for name in row:
            if name not in self._columns:
                raise InputError(
                    f"{place}: has {name!r}, but the first row has no such column; write JSON "
                    "lines instead (--format jsonl)"
                )
        return head + csv_line([_cell_of(row.get(name)) for name in self._columns])


@contextmanager
def _refused_values(place: str) -> Iterator[None]:
    """Turn errors about values that cannot be written into InputError."""
    try:
        yield
    except RecursionError as error:
        raise InputError(f"{place}: is nested too deeply to be written") from error
    except (TypeError, ValueError) as error:  # an odd key, a number of 5,000 digits
        raise InputError(f"{place}: JSON cannot represent it ({error})") from error


def row_as_json(row: Mapping[str, Any], place: str) -> bytes:
    """Return a line of JSON, with its end; InputError, with the place, for what JSON lacks."""
    with _refused_values(place):
        return _json_line(row)


def _csv_cells(text: str) -> Iterator[list[str]]:
    """Yield the cells of each line that `csv_line` wrote, of any length."""
    cells: list[str] = []
    for cell in _CELL.finditer(text):
        quoted, plain, end = cell.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        if end == "\n":
            yield cells
            cells = []


def csv_line(cells: Sequence[str]) -> bytes:
    """Return a line of CSV, with its end."""
    line = io.StringIO()
    # With \r\n as the line end, the writer quotes a cell that contains either character.
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n").encode(errors=_UNSAYABLE) + b"\n"


def _json_line(row: Mapping[str, Any]) -> bytes:
    """Return a line of JSON, with its end."""
    return _json_of(dict(row)).encode(errors=_UNSAYABLE) + b"\n"


def _cell_of(value: Any) -> str:
    """Return a value as a cell of CSV."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    is_json = isinstance(value, bool | int | list | tuple | dict)
    return _json_of(value) if is_json else str(value)  # also of infinity, and of a date


def value_of(cell: str, *, is_text: bool) -> Any:
    """Return the value that `_cell_of` wrote; an empty cell is None."""
    if is_text or not cell:
        return cell or None
    return json.loads(cell)


def _json_of(value: Any) -> str:
    """Return JSON; NaN and infinity, which it lacks, become null."""
    dumps = partial(json.dumps, ensure_ascii=False, default=str, allow_nan=False)
    try:
        return dumps(value)
    except ValueError:
        return dumps(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_finite, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value
