"""Inputs to records: JSON lines and arrays, CSV, TSV, text, Parquet.

Faulty text is treated the same everywhere: bytes that are not UTF-8 become U+FFFD, lone surrogates
(`\\ud800` in JSON) become `?`, NUL is kept; each is counted. NaN and null are missing values; the
words "NA", "null" and "nan" are text. `strict` refuses the first two instead.
"""

import ast
import io
import json
import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from ..errors import InputError, brief
from .inputs import LONGEST_RECORD, TABLES, Input, Position, as_input, lines_of
from .json_arrays import array_items
from .parquet import parquet_rows
from .tables import table_rows

LONGEST_DOCUMENT = 1 << 30  # bytes of a text that is one record
LONGEST_LITERAL = 1 << 20  # characters in Python's notation: parsing them takes far more memory
READ_AHEAD = 4096  # bytes at the start of a .json that show whether it is an array
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Record(dict[str, Any]):
    """One row, with its place for error messages."""

    place: str = ""
    repaired: bool = False  # it held bytes that are not UTF-8


def read_records(
    source: Path | Input, *, strict: bool, whole: bool = False, position: Position | None = None
) -> Iterator[Record]:
    """Yield the records of one input.

    Bytes that are not UTF-8 are an InputError if `strict`, else replaced by U+FFFD and marked.
    `whole`: a text file is one record, not one per line. `position` is updated, except for Parquet,
    which is not read from the front. Raises InputError, with file and line, for anything else that
    cannot be read.
    """
    given = source if isinstance(source, Input) else as_input(source)
    with given.open(None if given.kind == ".parquet" else position) as file:
        yield from _READERS[reader_of(given, whole)](given, file, strict)


def reader_of(given: Input, whole: bool = False) -> str:
    """Return the name of the reader for an input."""
    if given.kind == ".txt":
        return "document" if whole else "text lines"
    if given.kind in TABLES:
        return "table"
    return {".json": "json", ".parquet": "parquet"}.get(given.kind, "json lines")


def read_lines(
    lines: Iterable[bytes], kind: str, location: str, *, strict: bool
) -> Iterator[Record]:
    """Yield the records of lines of JSON or text; InputError, with the line, for an invalid one.

    location: the source of the lines, for messages.
    """
    parse = parse_text if kind == ".txt" else parse_json
    for number, line in enumerate(lines, start=1):
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        record = parse(line, f"{location}, line {number}", strict)
        if record is not None:
            yield record


def _read_lines(given: Input, file: IO[bytes], strict: bool) -> Iterator[Record]:
    lines = lines_of(file, given.location)
    return read_lines(lines, given.kind, given.location, strict=strict)


def _read_json(given: Input, file: Any, strict: bool) -> Iterator[Record]:
    """Read `.json`: an array of objects, or one object per line."""
    if not begins_an_array(file.peek(READ_AHEAD)):
        yield from _read_lines(given, file, strict)
        return
    number = 0
    try:
        for number, item in enumerate(array_items(file, strict=strict), start=1):
            record = _as_record(item, f"{given.location}, item {number}")
            record.repaired = not strict and any("\ufffd" in str(v) for v in record.values())
            yield record
    except UnicodeDecodeError as error:
        raise InputError(
            f"{given.location}: not UTF-8 after item {number} ({error.reason}); convert the file"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{given.location}, item {number + 1}: not JSON ({brief(error)}); expected an array "
            "of objects"
        ) from error


def begins_an_array(head: bytes) -> bool:
    """Return whether JSON that begins so is an array, not one object per line."""
    return head.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"[")


def parse_text(line: bytes, place: str, strict: bool) -> Record:
    """Return a line of text as a record, also a blank one, so that rows keep their place."""
    text, repaired = decode(line, place, strict)
    return _placed(Record(text=text.rstrip("\r\n")), place, repaired)


def parse_json(line: bytes, place: str, strict: bool) -> Record | None:
    """Return a line of JSON as a record, None for a blank one."""
    text, repaired = decode(line, place, strict)
    if not text.strip():
        return None
    return _placed(_as_record(_loads(text, place), place), place, repaired)


def _loads(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # The oldest dumps hold Python's notation: single quotes.
        if text.lstrip().startswith("{") and (content := _literal(text)) is not None:
            return content
        raise InputError(
            f"{place}: not JSON ({brief(error)}); expected one object per line"
        ) from error


def _literal(text: str) -> Any:
    if len(text) > LONGEST_LITERAL:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # about "\d" and the like in a review
            return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _as_record(content: Any, place: str) -> Record:
    if not isinstance(content, dict):
        mend = "; let the name of a file with an array end in .json" if _is_rows(content) else ""
        raise InputError(
            f"{place}: holds a {type(content).__name__}; expected a JSON object, such as "
            f'{{"text": "..."}}{mend}'
        )
    try:
        named = [(str(key), value) for key, value in content.items()]
    except ValueError as error:  # in Python's notation a key may be a number of any length
        raise InputError(f"{place}: a key is a number that is too large ({error})") from error
    return _placed(Record(named), place, False)


def _is_rows(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(item, dict) for item in content)


def _placed(record: Record, place: str, repaired: bool) -> Record:
    record.place, record.repaired = place, repaired or record.repaired
    return record


def decode(line: bytes, place: str, strict: bool) -> tuple[str, bool]:
    """Return bytes as text, and whether any of them were not UTF-8."""
    try:
        return line.decode("utf-8"), False
    except UnicodeDecodeError as error:
        if strict:
            raise InputError(f"{place}: not UTF-8 ({error.reason}); convert the file") from error
        return line.decode("utf-8", errors="replace"), True


def _read_document(given: Input, file: IO[bytes], strict: bool) -> Iterator[Record]:
    content = file.read(LONGEST_DOCUMENT + 1)
    if len(content) > LONGEST_DOCUMENT:
        raise InputError(f"{given.location}: longer than {LONGEST_DOCUMENT:,} bytes; cut it")
    text, repaired = decode(content.removeprefix(BYTE_ORDER_MARK), given.location, strict)
    yield _placed(Record(text=text), given.location, repaired)


def _read_table(given: Input, file: IO[bytes], strict: bool) -> Iterator[Record]:
    errors, row = "strict" if strict else "replace", 1  # the header
    try:
        with io.TextIOWrapper(file, encoding="utf-8-sig", errors=errors, newline="") as text:
            lines = iter(partial(text.readline, LONGEST_RECORD + 1), "")
            for _, cells in table_rows(lines, TABLES[given.kind], given.location):
                row += 1
                repaired = not strict and any("\ufffd" in (cell or "") for cell in cells.values())
                yield _placed(Record(cells), f"{given.location}, row {row}", repaired)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{given.location}: not UTF-8 after row {row} ({error.reason}); convert the file"
        ) from error


def _read_parquet(given: Input, file: IO[bytes], strict: bool) -> Iterator[Record]:
    for number, row in enumerate(parquet_rows(file, given.location), start=1):
        yield _placed(Record(row), f"{given.location}, row {number}", False)


_READERS = {
    "json lines": _read_lines,
    "text lines": _read_lines,
    "json": _read_json,
    "document": _read_document,
    "table": _read_table,
    "parquet": _read_parquet,
}
