"""Writing rows to JSON lines or CSV, one at a time."""

import csv
import io
import json
import math
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import IO, Any, Literal

from ..errors import InputError

RowFormat = Literal["jsonl", "csv"]
UNSAYABLE = "backslashreplace"  # writes a lone surrogate, which UTF-8 lacks, as JSON does


class RowWriter:
    """Writes rows of named values to a stream of bytes, as UTF-8.

    JSON lines keep what CSV loses: null differs from an empty text, a number from a string of
    digits. columns: of CSV; [] takes those of the first row. mark: whether CSV begins with a byte
    order mark, which Excel needs. written_header: called before the first row; returns the columns
    of the header that the stream already has, if any.
    """

    def __init__(
        self,
        file: IO[bytes],
        row_format: RowFormat,
        columns: Sequence[str] = (),
        *,
        mark: bool = False,
        written_header: Callable[[], Sequence[str]] = list,
    ):
        self._file = file
        self._columns = columns
        self._mark = BOM_UTF8 if mark else b""
        self._written_header = written_header
        self._has_header = False
        self._is_csv = row_format == "csv"

    def write(self, row: Mapping[str, Any], place: str) -> None:
        """Write a row; InputError for a value that has no column in CSV or cannot be JSON."""
        try:
            line = self._csv_line(row, place) if self._is_csv else json_line(row)
        except RecursionError as error:
            raise InputError(f"{place}: is nested too deeply to be written") from error
        except (TypeError, ValueError) as error:  # an odd key, a number of 5,000 digits
            raise InputError(f"{place}: JSON cannot represent it ({error})") from error
        self._file.write(line)

    def flush(self) -> None:
        self._file.flush()

    def _csv_line(self, row: Mapping[str, Any], place: str) -> bytes:
        head = b""
        if not self._has_header:
            self._has_header = True
            written = self._written_header()
            self._columns = written or self._columns or list(row)
            head = b"" if written else self._mark + csv_line(self._columns)
        for name in row:
            if name not in self._columns:
                raise InputError(
                    f"{place}: has {name!r}, but the first row has no such column; write JSON "
                    "lines instead (--format jsonl)"
                )
        return head + csv_line([cell_of(row.get(name)) for name in self._columns])


def csv_line(cells: Sequence[str]) -> bytes:
    """Return a line of CSV, with its end."""
    line = io.StringIO()
    # With \r\n as the line end, the writer quotes a cell that contains either character.
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n").encode(errors=UNSAYABLE) + b"\n"


def json_line(row: Mapping[str, Any]) -> bytes:
    """Return a line of JSON, with its end."""
    return json_of(dict(row)).encode(errors=UNSAYABLE) + b"\n"


def cell_of(value: Any) -> str:
    """Return a value as a cell of CSV."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    is_json = isinstance(value, bool | int | list | tuple | dict)
    return json_of(value) if is_json else str(value)  # also of infinity, and of a date


def value_of(cell: str, *, is_text: bool) -> Any:
    """Return the value that `cell_of` wrote; an empty cell is None."""
    if is_text or not cell:
        return cell or None
    return json.loads(cell)


def json_of(value: Any) -> str:
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
