"""Writing rows to JSON lines, CSV or a workbook, one at a time."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

from ..errors import InputError
from .columns import NUMBER

RowFormat = Literal["jsonl", "csv", "tsv", "xlsx"]
_FORMULA = re.compile(r"[=+\-@\t\r]")  # how a cell begins that a spreadsheet computes
_UNSAYABLE = "backslashreplace"  # writes a lone surrogate, which UTF-8 lacks, as JSON does


@dataclass(frozen=True)
class Dialect:
    """How delimited text is written: that of the input, unless another one is asked for.

    mark: whether it begins with a byte order mark, which Excel needs. safe_cells: whether cells
    that a spreadsheet would compute get an apostrophe before them.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    mark: bool = False
    safe_cells: bool = False

    @property
    def codec(self) -> str:
        name = self.encoding.lower()
        return f"{name}-le" if name in ("utf-16", "utf-32") else name.removesuffix("-sig")

    def line(self, cells: Sequence[str]) -> bytes:
        line = io.StringIO()
        # With \r\n as the line end, the writer quotes a cell that contains either character.
        csv.writer(line, delimiter=self.delimiter, lineterminator="\r\n").writerow(cells)
        text = line.getvalue().removesuffix("\r\n") + "\n"
        return text.encode(self.codec, errors=_UNSAYABLE)

    def lines(self, written: bytes) -> Iterator[list[str]]:
        """Yield the cells of each line that `line` wrote, of any length."""
        text = written.decode(self.codec).removeprefix("\ufeff")
        sign = re.escape(self.delimiter)
        pattern = rf'(?:"((?:[^"]++|"")*+)"|([^"{sign}\n]*+))([{sign}\n])'
        cells: list[str] = []
        for cell in re.finditer(pattern, text):
            quoted, plain, end = cell.groups()
            cells.append(plain if quoted is None else quoted.replace('""', '"'))
            if end == "\n":
                yield cells
                cells = []


_STANDARD = Dialect()


class _Stream(Protocol):
    """What rows are written to."""

    def write(self, line: bytes, /) -> Any: ...

    def flush(self) -> None: ...


class RowWriter:
    """Writes rows of named values to a stream of bytes.

    JSON lines keep what CSV loses: null differs from an empty text, a number from a string of
    digits. columns: of CSV; [] takes those of the first row. dialect: of CSV.
    """

    def __init__(
        self,
        file: _Stream,
        row_format: RowFormat,
        columns: Sequence[str] = (),
        *,
        dialect: Dialect = _STANDARD,
    ):
        self._file = file
        self._columns = columns
        self._dialect = dialect
        self._has_header = False
        self._is_csv = row_format in ("csv", "tsv")

    def write(self, row: Mapping[str, Any], place: str) -> None:
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
        lines = self._dialect.lines(written)
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
            mark = "\ufeff".encode(self._dialect.codec) if self._dialect.mark else b""
            head = mark + self._dialect.line(list(map(self._safe, self._columns)))
        for name in row:
            if name not in self._columns:
                raise InputError(
                    f"{place}: has {name!r}, but the first row has no such column; write JSON "
                    "lines instead (--format jsonl)"
                )
        return head + self._dialect.line(
            [self._safe(cell_of(row.get(name))) for name in self._columns]
        )

    def _safe(self, cell: str) -> str:
        is_formula = self._dialect.safe_cells and _FORMULA.match(cell)
        return f"'{cell}" if is_formula and not NUMBER.fullmatch(cell) else cell


@contextmanager
def _refused_values(place: str) -> Iterator[None]:
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


def _json_line(row: Mapping[str, Any]) -> bytes:
    return _json_of(dict(row)).encode(errors=_UNSAYABLE) + b"\n"


def cell_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    is_json = isinstance(value, bool | int | list | tuple | dict)
    return _json_of(value) if is_json else str(value)  # also of infinity, and of a date


def value_of(cell: str, *, is_text: bool) -> Any:
    """Return the value that `cell_of` wrote; an empty cell is None."""
    if is_text or not cell:
        return cell or None
    return json.loads(cell)


def _json_of(value: Any) -> str:
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
