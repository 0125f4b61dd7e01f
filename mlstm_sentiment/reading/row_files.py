"""How values and rows are written as JSON and as cells of CSV, and read again."""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from ..errors import InputError

RowFormat = Literal["jsonl", "csv", "tsv", "xlsx"]
UNSAYABLE = "backslashreplace"  # writes a lone surrogate, which UTF-8 lacks, as JSON does


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
        name = self.encoding
        return f"{name}-le" if name in ("utf-16", "utf-32") else name.removesuffix("-sig")

    def line(self, cells: Sequence[str]) -> bytes:
        line = io.StringIO()
        # With \r\n as the line end, the writer quotes a cell that contains either character.
        csv.writer(line, delimiter=self.delimiter, lineterminator="\r\n").writerow(cells)
        text = line.getvalue().removesuffix("\r\n") + "\n"
        return text.encode(self.codec, errors=UNSAYABLE)


STANDARD = Dialect()


@contextmanager
def refused_values(place: str) -> Iterator[None]:
    """Raise InputError, with the place, for a value that cannot be written."""
    try:
        yield
    except RecursionError as error:
        raise InputError(f"{place}: is nested too deeply to be written") from error
    except (TypeError, ValueError) as error:  # an odd key, a number of 5,000 digits
        raise InputError(f"{place}: JSON cannot represent it ({error})") from error


def row_as_json(row: Mapping[str, Any], place: str, *, is_strict: bool = True) -> bytes:
    """Return a line of JSON, with its end; InputError, with the place, for what JSON lacks.

    is_strict: whether NaN and infinity become null, as they are not JSON; else Python's words.
    """
    with refused_values(place):
        return _json_of(dict(row), is_strict=is_strict).encode(errors=UNSAYABLE) + b"\n"


def cell_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    is_json = isinstance(value, bool | int | list | tuple | dict)
    return _json_of(value) if is_json else str(value)  # also of infinity, and of a date


def _json_of(value: Any, *, is_strict: bool = True) -> str:
    dumps = partial(json.dumps, ensure_ascii=False, default=str, allow_nan=not is_strict)
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
