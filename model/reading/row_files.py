"""Writing rows to JSON lines or CSV, one at a time."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import IO, Any, Literal

from ..errors import InputError

RowFormat = Literal["jsonl", "csv"]
UNSAYABLE = "backslashreplace"  # a lone surrogate, which UTF-8 cannot say, as JSON writes it


class RowWriter:
    """Writes rows of named values to a stream of bytes, as UTF-8.

    JSON lines keep what CSV loses: null differs from an empty text, a number from its digits.

    columns: of CSV; [] for those of the first row.
    has_header: the stream has the header of the columns already.
    """

    def __init__(
        self,
        file: IO[bytes],
        row_format: RowFormat,
        columns: Sequence[str] = (),
        *,
        has_header: bool = False,
    ):
        self._file = file
        self._columns = columns
        self._has_header = has_header
        self._is_csv = row_format == "csv"

    def write(self, row: Mapping[str, Any], place: str) -> None:
        """Write a row.

        Raises InputError, with its place, where CSV has no column for a value, or JSON cannot say
        one.
        """
        try:
            line = self._csv_line(row, place) if self._is_csv else json_of(dict(row))
        except RecursionError as error:
            raise InputError(f"{place}: is nested too deeply to be written") from error
        except (TypeError, ValueError) as error:  # a key that is no name, a number of 5,000 digits
            raise InputError(f"{place}: JSON cannot say it ({error})") from error
        self._file.write(line.encode(errors=UNSAYABLE) + b"\n")

    def flush(self) -> None:
        """Pass on what was written, so that a reader sees it."""
        self._file.flush()

    def _csv_line(self, row: Mapping[str, Any], place: str) -> str:
        head = ""
        if not self._columns:
            self._columns = list(row)
        if not self._has_header:
            self._has_header = True
            head = _cells(self._columns) + "\n"
        for name in row:
            if name not in self._columns:
                raise InputError(
                    f"{place}: has {name!r}, for which the first row left no column; write JSON "
                    "lines instead (--format jsonl)"
                )
        return head + _cells([cell_of(row.get(name)) for name in self._columns])


def _cells(cells: Sequence[str]) -> str:
    line = io.StringIO()
    # With \r\n for the end of a line, a cell with either of them in it is quoted.
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n")


def cell_of(value: Any) -> str:
    """Return a value as a cell of CSV."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value) if isinstance(value, float) else json_of(value)  # also of infinity


def json_of(value: Any) -> str:
    """Return JSON, which has no word for NaN and infinity: they become null."""
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
