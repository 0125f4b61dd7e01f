"""Inputs cut into blocks: pieces of a fixed size that processes encode in parallel.

The limits of a block, and the place of each review in it, depend on the input alone. So the corpus
is the same for any number of processes.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, Any

import numpy as np

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import LONGEST_RECORD, TOO_LONG, Input, is_too_long
from mlstm_sentiment.reading.records import (
    BYTE_ORDER_MARK,
    READ_AHEAD,
    has_json_lines,
    parse_json,
    parse_text,
    read_records,
    reader_of,
    warn_of_other_lines,
)
from mlstm_sentiment.reading.tables import Record, TableReport
from mlstm_sentiment.reading.texts import (
    ReadingReport,
    accept,
    shown_keys,
    text_at,
    text_keys,
    text_of,
)
from mlstm_sentiment.text.profiles import text_profile

BLOCK_BYTES = 8 << 20  # decompressed; encoding a block takes several times as much memory
_READ_BYTES = 1 << 20
MOST_ROWS = 1 << 20  # of a table encoded together; row_ids has 24 bits for them


@dataclass(frozen=True)
class Request:
    """How to turn texts into reviews."""

    text_keys: tuple[str, ...]  # () if each input shows its own
    profile: str
    strict: bool
    documents: bool  # a text file is one review, not one per line
    digests: bool  # whether to compute digests, which find duplicates
    block_bytes: int  # size of a block; a review's place depends on it


@dataclass(frozen=True)
class Block:
    """Some lines of an input, or all records of an input that cannot be cut by lines."""

    input_number: int  # number of the input
    index: int  # of the block in it
    source: Input
    lines: bytes | None = None  # if the input is a stream
    span: tuple[int, int] | None = None  # if it is a plain file: the bytes where its lines begin
    first_line: int = 1  # number of the first of `lines`
    keys: tuple[str, ...] = ()  # of its texts; () if its records show them


@dataclass
class Reviews:
    """Encoded reviews in the order of their input."""

    encoded: list[bytes]
    rows: list[int]  # place of each in its block
    report: ReadingReport
    keys: list[str] | None = None  # of the first record without text, for a message
    found_keys: dict[str, int] = field(default_factory=dict)  # records read from each key
    table: TableReport | None = None  # what was assumed of a table


def cut(input_number: int, source: Input, request: Request) -> Iterator[Block]:
    """Yield the blocks of an input; warn of a text file whose lines may not be texts."""
    if reader_of(source, request.documents) == "text lines":
        with source.open() as file:
            warn_of_other_lines(source.location, file.read(READ_AHEAD))
    if not _is_cut_by_lines(source, request):
        yield Block(input_number, 0, source, keys=request.text_keys)
        return
    keys = request.text_keys or shown_keys(source)
    if source.is_plain:
        size = source.stored_bytes
        for index, start in enumerate(range(0, size, request.block_bytes)):
            end = min(start + request.block_bytes, size)
            yield Block(input_number, index, source, span=(start, end), keys=keys)
    else:
        with source.open() as file:
            yield from _cut_stream(input_number, source, file, request.block_bytes, keys)


def _is_cut_by_lines(source: Input, request: Request) -> bool:
    """Return whether an input's records are its lines; a `.json` may be one array."""
    reader = reader_of(source, request.documents)
    if reader != "json":
        return reader.endswith("lines")
    with source.open() as file:
        return has_json_lines(file.read(READ_AHEAD))


def _cut_stream(
    input_number: int, source: Input, file: IO[bytes], block_bytes: int, keys: tuple[str, ...]
) -> Iterator[Block]:
    index, line, rest = 0, 1, b""
    while piece := file.read(block_bytes):  # all of them: what is no plain file is buffered
        end = piece.rfind(b"\n") + 1
        if end == 0:  # a line longer than a block
            rest += piece
            if len(rest) > LONGEST_RECORD:
                break  # the block's reader reports where
            continue
        lines, rest = rest + piece[:end], piece[end:]
        yield Block(input_number, index, source, lines, first_line=line, keys=keys)
        index, line = index + 1, line + lines.count(b"\n")
    if rest:
        yield Block(input_number, index, source, rest, first_line=line, keys=keys)


def read_block(block: Block, request: Request) -> Iterator[Reviews]:
    """Encode a block, in parts of about a block's size if it is a whole input."""
    if block.lines is None and block.span is None:
        records = read_records(block.source, strict=request.strict, whole=request.documents)
        yield _encode_part(records, request, block.keys)  # also if there are no records
        for first in records:
            yield _encode_part(chain([first], records), request, block.keys)
        return
    try:
        yield _encode_lines(block, request, block.first_line)
        return
    except InputError as error:
        if block.span is None or isinstance(error.__cause__, OSError):
            raise
    # Again, to name the line: before an error, nobody has counted the lines before a span.
    yield _encode_lines(block, request, 1 + _newlines(block))


def _encode_lines(block: Block, request: Request, first: int) -> Reviews:
    """Encode the lines of a block; first: the number of its first one, for messages."""
    is_text = block.source.kind == ".txt"
    loads, slow = (_never, parse_text) if is_text else (_json_loads(), parse_json)
    in_file = f"{block.source.location}, line "

    def place_of(row: int, _: bytes) -> str:
        return in_file + str(first + row)

    lines = _lines(block, place_of)
    enabled = gc.isenabled()
    gc.disable()  # it would scan the block's records again and again
    try:
        return _encode(enumerate(lines), loads, slow, place_of, request, block.keys)
    finally:
        if enabled:
            gc.enable()


def _lines(block: Block, place_of: Callable[[int, bytes], str]) -> list[bytes]:
    content = block.lines if block.lines is not None else _lines_of_span(block)
    lines = content.split(b"\n")
    if len(content) > LONGEST_RECORD:
        for row, line in enumerate(lines):
            if is_too_long(line):
                raise InputError(f"{place_of(row, line)}: {TOO_LONG}")
    if block.index == 0:
        lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
    return lines[:-1] if not lines[-1] else lines


def _lines_of_span(block: Block) -> bytes:
    assert block.span is not None
    start, end = block.span
    with block.source.named_errors(), open(block.source.location, "rb") as file:
        if start:
            file.seek(start - 1)
            start += len(file.readline(LONGEST_RECORD + 2)) - 1  # the line that began before
        if start >= end:
            return b""
        file.seek(start)
        content = file.read(end - start)
        return content if content.endswith(b"\n") else content + file.readline(LONGEST_RECORD + 2)


def _newlines(block: Block) -> int:
    assert block.span is not None
    left, count, last = block.span[0], 0, b"\n"
    with block.source.named_errors(), open(block.source.location, "rb") as file:
        while left > 0 and (part := file.read(min(_READ_BYTES, left))):
            count, left, last = count + part.count(b"\n"), left - len(part), part
    return count + (not last.endswith(b"\n"))


def _encode(
    rows: Any, loads: Any, slow: Any, place_of: Any, request: Request, keys: tuple[str, ...]
) -> Reviews:
    """Encode numbered raw rows.

    `loads` parses a row quickly into a dictionary, or fails. `slow` then parses the row, given its
    place; it returns None for a blank row. place_of: names a numbered row. keys: of the texts.
    """
    encode = text_profile(request.profile).encode
    strict, reviews = request.strict, Reviews([], [], ReadingReport())
    report, encoded, accepted_rows = reviews.report, reviews.encoded, reviews.rows
    key_counts = reviews.found_keys
    for row, raw in rows:
        try:
            record = loads(raw)
        except ValueError:  # slow may still read NaN, lone surrogates, broken bytes, single quotes
            record = None
        if type(record) is not dict:
            record = slow(raw, place_of(row, raw), strict)
            if record is None:
                continue
        report.records += 1
        if type(record) is Record and record.repaired:
            report.repaired_text += 1
        is_simple = len(keys) == 1 and keys[0] in record
        found = keys if is_simple else text_keys(record, keys)
        if not found:
            reviews.keys = reviews.keys or list(record)
            report.missing_text += 1
            continue
        key = " + ".join(found)
        key_counts[key] = key_counts.get(key, 0) + 1
        text = record[keys[0]] if is_simple else None
        if type(text) is not str:
            # orjson makes a float of a whole number too large for it
            place = place_of(row, raw)
            exact = record if type(record) is Record else slow(raw, place, strict)
            text = text_of(text_at(exact, found, place), place)
        try:
            if not accept(text, report, strict) or text is None:
                continue
            if (review := encode(text)).isspace() or not review:  # such as of "&nbsp;"
                report.empty_text += 1
                continue
            encoded.append(review)
            accepted_rows.append(row)
        except ValueError as error:
            raise InputError(f"{place_of(row, raw)}: {error}; fix the text") from error
    return reviews


def _never(raw: Any) -> None:
    """Always fail; used if no quick parser is installed."""


def _json_loads() -> Any:
    try:
        from orjson import loads
    except ImportError:
        return _never
    return loads


def _encode_part(records: Iterable[Record], request: Request, keys: tuple[str, ...]) -> Reviews:
    """Encode records with text until they are a block's size, or MOST_ROWS."""
    table = None  # of the last record

    def rows() -> Iterator[tuple[int, Record]]:
        nonlocal table
        size = 0
        for row, record in enumerate(records):
            table = record.table
            size += sum(len(value) for value in record.values() if isinstance(value, str))
            yield row, record
            if size >= request.block_bytes or row + 1 == MOST_ROWS:
                return

    def as_it_is(record: Record, place: str, strict: bool) -> Record:
        return record

    reviews = _encode(rows(), _never, as_it_is, lambda _, record: record.place, request, keys)
    reviews.table = table
    return reviews


def row_ids(block: Block, index: int, rows: list[int]) -> np.ndarray:
    """Return the reviews' places among all, uint64, rising in the order of the input."""
    high = (block.input_number << 44) | (index << 24)
    return np.uint64(high) + np.array(rows, dtype=np.uint64)
