"""Inputs to records: JSON lines and arrays, text, and tables of all kinds.

Faulty text is treated the same everywhere: bytes that are not UTF-8 become U+FFFD, lone surrogates
(`\\ud800` in JSON) become `?`, NUL is kept; each is counted. NaN and null are missing values; the
words "NA", "null" and "nan" are text. `strict` refuses the first two instead.
"""

import ast
import json
import logging
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from ..errors import InputError, brief
from .inputs import BINARY, DELIMITED, WORKBOOKS, Input, Position, as_input, lines_of
from .tables import (
    DELIMITERS,
    DelimitedRows,
    Record,
    TableReport,
    columnar_rows,
    no_warnings,
    probable_delimiter,
    text_lines,
)
from .workbooks import read_workbook

_LONGEST_DOCUMENT = 1 << 30  # bytes of a text that is one record
_LONGEST_JSON = 256 << 20  # bytes of a .json without JSON lines; parsed, it takes 5 times as many
_LONGEST_LITERAL = 1 << 20  # characters in Python's notation: parsing them takes far more memory
READ_AHEAD = 4096  # bytes at the start of a .json that show whether it is an array
_ON_LINES = "put each record on its own line"
_NOT_UTF8 = "give its encoding, such as --encoding cp1252, or convert it"
_JSON_OBJECT = re.compile(r'\s*\{\s*"[^"\n]*"\s*:')
_NO_SPACE = re.compile(r"[^ \t\r\n]")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

log = logging.getLogger(__name__)


def read_records(
    source: Path | Input, *, strict: bool, whole: bool = False, position: Position | None = None
) -> Iterator[Record]:
    """Yield the records of one file, each a dict with its place in the file.

        for record in read_records(Path("reviews.parquet"), strict=True):
            print(record.place, record["text"])

    Bytes that are not UTF-8 are an InputError if `strict`, else replaced by U+FFFD and marked.
    `whole`: a text file is one record, not one per line. `position` is updated, except for
    workbooks, Parquet and Feather, which are not read from the front; a .json without JSON lines is
    read at once. Raises InputError, with file and line, for anything else that cannot be read.
    """
    source = as_input(source)
    with source.open(None if source.kind in BINARY else position) as file:
        yield from _READERS[reader_of(source, whole)](source, file, strict)


def reader_of(source: Input, whole: bool = False) -> str:
    if source.kind == ".txt":
        return "document" if whole else "text lines"
    if source.kind in DELIMITED or source.kind in BINARY:
        return "table"
    return "json" if source.kind == ".json" else "json lines"


def read_lines(
    lines: Iterable[bytes],
    kind: str,
    location: str,
    *,
    strict: bool,
    codec: str = "utf-8",
    first: int = 1,
) -> Iterator[Record]:
    """Yield the records of lines of JSON or text; InputError, with `location`, if invalid.

    first: the number of the first line.
    """
    parse = parse_text if kind == ".txt" else parse_json
    for number, line in enumerate(lines, start=first):
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        record = parse(line, f"{location}, line {number}", strict, codec)
        if record is not None:
            yield record


@lru_cache(maxsize=1)  # logged once, even if a command reads the file twice
def warn_of_other_lines(location: str, head: bytes) -> None:
    """Warn of a text file that begins like JSON or a table, or has no line ends but CR."""
    text = head.removeprefix(BYTE_ORDER_MARK).decode(errors="replace")
    is_json = _JSON_OBJECT.match(text)
    if len(head) == READ_AHEAD:
        text = text[: text.rfind("\n") + 1] or text
    if is_json:
        log.warning(
            "%s: looks like JSON, one object a line; it is read as text, one a line; to read its "
            "keys, rename it to end in .jsonl", location
        )  # fmt: skip
    elif (delimiter := probable_delimiter(text)) is not None:
        log.warning(
            "%s: looks like a table (%s); it is read as text, one a line; to read its columns, "
            "rename it to end in %s",
            location, DELIMITERS[delimiter], ".tsv" if delimiter == "\t" else ".csv",
        )  # fmt: skip
    elif "\n" not in text and "\r" in text.rstrip():
        log.warning(
            "%s: its lines end in CR, as on old Macs, and are read as one text; convert them, as "
            r"with tr '\r' '\n'", location
        )  # fmt: skip


def _read_lines(source: Input, file: Any, strict: bool) -> Iterator[Record]:
    if source.kind == ".txt":
        warn_of_other_lines(source.location, file.peek(READ_AHEAD)[:READ_AHEAD])
    lines = lines_of(file, source.location)
    records = read_lines(lines, source.kind, source.location, strict=strict)
    if source.kind == ".txt":
        return records
    return TableReport(source.location, "JSON lines", is_table=False).sampled(records)


def _read_json(source: Input, file: Any, strict: bool) -> Iterator[Record]:
    head = file.peek(READ_AHEAD)[:READ_AHEAD]
    if has_json_lines(head):
        yield from _read_lines(source, file, strict)
        return
    text, _ = _whole(source, file, _LONGEST_JSON, strict, _ON_LINES)
    what = "a JSON array" if text[:READ_AHEAD].lstrip().startswith("[") else "JSON"
    table = TableReport(source.location, what, is_table=False)
    items = _json_items(text, source.location)
    records = (_as_record(item, f"{source.location}, item {n}") for n, item in enumerate(items, 1))
    yield from table.sampled(records, strict=strict)


def _json_items(text: str, location: str) -> list[Any]:
    """Return the items of an array, or the objects of a text, however they are broken into lines.

    Of a single object that holds one array of objects, as in {"reviews": [...]}, return these.
    Raises InputError for anything else.
    """
    decoder, values, end = json.JSONDecoder(), list[Any](), 0
    try:
        while begin := _NO_SPACE.search(text, end):
            value, end = decoder.raw_decode(text, begin.start())
            values.append(value)
        first, *others = values
        if others and isinstance(first, list):
            raise ValueError("something after the array")
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{location}: not JSON ({brief(error)}); expected an array of objects; or {_ON_LINES}"
        ) from error
    if others:
        return values
    return first if isinstance(first, list) else _records_in(first)


def has_json_lines(head: bytes) -> bool:
    """Return whether a .json that begins so has one object per line."""
    lines = head.removeprefix(BYTE_ORDER_MARK).strip().split(b"\n")
    if lines[0].startswith(b"["):
        return False
    if not lines[0].lstrip().startswith(b"{") or lines[0].lstrip()[1:].lstrip()[:1] == b"'":
        return True  # Python's notation, or an error that is found there
    is_whole = len(lines) == 1 and len(head) < READ_AHEAD
    return not is_whole and len(lines) > 1 and lines[0].rstrip().endswith(b"}")


def parse_text(line: bytes, place: str, strict: bool, codec: str = "utf-8") -> Record:
    """Return a line of text as a record, also a blank one, so that rows keep their place."""
    text, repaired = _decode(line, place, strict, codec)
    return Record({"text": text.rstrip("\r\n")}, place, repaired=repaired, has_names=False)


def parse_json(line: bytes, place: str, strict: bool, codec: str = "utf-8") -> Record | None:
    text, repaired = _decode(line, place, strict, codec)
    if not text.strip():
        return None
    return _as_record(_loads(text, place), place, repaired)


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
    if len(text) > _LONGEST_LITERAL:
        return None
    try:
        with no_warnings(SyntaxWarning):  # about "\d" and the like in a review
            return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _as_record(content: Any, place: str, repaired: bool = False) -> Record:
    if not isinstance(content, dict):
        hint = ""
        if isinstance(content, list) and all(isinstance(item, dict) for item in content):
            hint = "; rename a file that holds an array to end in .json"
        if isinstance(content, tuple) and len(content) == 1 and isinstance(content[0], dict):
            raise InputError(f"{place}: has a comma after its object; remove it")
        raise InputError(
            f"{place}: holds a {type(content).__name__}; expected a JSON object, such as "
            f'{{"text": "..."}}{hint}'
        )
    try:
        items = [(str(key), value) for key, value in content.items()]
    except ValueError as error:  # in Python's notation a key may be a number of any length
        raise InputError(f"{place}: a key is a number that is too large ({error})") from error
    return Record(items, place, repaired=repaired)


def _decode(line: bytes, place: str, strict: bool, codec: str = "utf-8") -> tuple[str, bool]:
    """Return bytes as text, and whether any of them were not of the encoding."""
    try:
        return line.decode(codec), False
    except UnicodeDecodeError as error:
        if strict:
            name = "UTF-8" if codec == "utf-8" else codec
            where = f"{error.reason} at byte {error.start + 1:,}"
            raise InputError(f"{place}: not {name} ({where}); {_NOT_UTF8}") from error
        return line.decode(codec, errors="replace"), True


def _read_document(source: Input, file: IO[bytes], strict: bool) -> Iterator[Record]:
    text, repaired = _whole(source, file, _LONGEST_DOCUMENT, strict, "cut it")
    yield Record({"text": text}, source.location, repaired=repaired)


def _whole(
    source: Input, file: IO[bytes], longest: int, strict: bool, remedy: str
) -> tuple[str, bool]:
    """Return a file as text, and whether it was repaired; InputError, with `remedy`, if too long.

    longest: bytes that it may have.
    """
    content = file.read(longest + 1)
    if len(content) > longest:
        raise InputError(f"{source.location}: longer than {longest:,} bytes; {remedy}")
    return _decode(content.removeprefix(BYTE_ORDER_MARK), source.location, strict)


def _read_table(source: Input, file: IO[bytes], strict: bool) -> Iterator[Record]:
    table = TableReport(source.location)
    rows: Iterator[Record]
    try:
        if source.kind in WORKBOOKS:
            if source.kept is None:
                kept = read_workbook(file, source.location, source.options)
                object.__setattr__(source, "kept", kept)
            vars(table).update(source.kept.about)
            rows = source.kept.rows()
        elif source.kind in BINARY:
            rows = columnar_rows(file, source.location, source.kind)
        else:
            table.description = str(source.found_encoding)
            lines = text_lines(file, "strict" if strict else "replace")
            rows = iter(DelimitedRows(lines, table, source.options, DELIMITED[source.kind]))
        yield from table.sampled(rows, strict=strict)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source.location}: not UTF-8 after row {1 + table.rows} ({error.reason}); {_NOT_UTF8}"
        ) from error


_READERS = {
    "json lines": _read_lines,
    "text lines": _read_lines,
    "json": _read_json,
    "document": _read_document,
    "table": _read_table,
}


def _records_in(item: Any) -> list[Any]:
    """Return the items of the only array of objects in an object, or the object alone."""
    level = [item] if isinstance(item, dict) else []
    while level:
        values = [value for one in level for value in one.values()]
        lists = [v for v in values if isinstance(v, list) and v and isinstance(v[0], dict)]
        if lists:
            is_record = _has_prose(item) and not _has_prose(lists[0][0])
            return lists[0] if len(lists) == 1 and not is_record else [item]
        level = [value for value in values if isinstance(value, dict)]
    return [item]


def _has_prose(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_prose, value.values()))
    return isinstance(value, str) and len(value.split()) > 3
