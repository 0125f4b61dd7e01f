"""Records from a pipe or a terminal, as soon as their lines have come."""

import csv
import os
from collections import deque
from collections.abc import Iterator

from model.errors import InputError

from .inputs import TABLES
from .records import BYTE_ORDER_MARK, Record, decode, read_lines

PLACE = "standard input"
KINDS = (".txt", ".jsonl", *TABLES)
READ_BYTES = 1 << 20
LONGEST_CELL = 2**31 - 1  # characters; Python's own limit is 128 KiB


class ArrivingLines:
    """The lines of a file descriptor, with their ends; `waiting` of them can be had at once.

    A read returns what has arrived, so that a line never waits for the next one.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._rest = b""  # a line whose end has not come

    @property
    def waiting(self) -> int:
        """How many lines have come and were not taken."""
        return len(self._lines)

    def first(self) -> bytes:
        """Return the next line without taking it; InputError where none will come."""
        if not self._lines:
            self._fill()
        if not self._lines:
            raise InputError(f"{PLACE}: nothing came")
        return self._lines[0]

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._lines:
            self._fill()
        if not self._lines:
            raise StopIteration
        return self._lines.popleft()

    def _fill(self) -> None:
        """Wait until a line has come, or the end."""
        parts = [self._rest]
        while chunk := os.read(self._descriptor, READ_BYTES):
            parts.append(chunk)
            if b"\n" in chunk:
                *lines, self._rest = b"".join(parts).split(b"\n")
                self._lines += (line + b"\n" for line in lines)
                return
        self._lines += filter(None, [b"".join(parts)])
        self._rest = b""


def kind_of(line: bytes) -> str:
    """Return the kind of a stream by its first line: JSON lines or plain ones."""
    return ".jsonl" if line.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{") else ".txt"


def read_arriving(lines: Iterator[bytes], kind: str) -> Iterator[Record]:
    """Yield records of a kind among KINDS; InputError, with its line, for one that is none."""
    if kind in TABLES:
        yield from _read_table(lines, TABLES[kind])
        return
    yield from read_lines(lines, kind, PLACE, strict=True)


def _read_table(lines: Iterator[bytes], delimiter: str) -> Iterator[Record]:
    csv.field_size_limit(LONGEST_CELL)
    rows = csv.reader(_decoded(lines), delimiter=delimiter, strict=True)
    try:
        header = next(rows, None)
        if header is None:
            raise InputError(f"{PLACE}: nothing came")
        for row in filter(None, rows):  # a blank line is no row, as in a file
            place = f"{PLACE}, line {rows.line_num}"
            if len(row) > len(header):
                raise InputError(
                    f"{place}: {len(row)} cells where the header has {len(header)}; a text with "
                    "the delimiter in it needs quotes"
                )
            cells = [*row, *[None] * (len(header) - len(row))]
            record = Record(zip(header, cells, strict=True))
            record.place = place
            yield record
    except csv.Error as error:
        raise InputError(f"{PLACE}, line {rows.line_num}: not a table ({error})") from error


def _decoded(lines: Iterator[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        yield decode(line, f"{PLACE}, line {number}", True)[0]
