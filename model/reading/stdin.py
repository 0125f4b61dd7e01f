"""Records from a pipe or a terminal, as soon as their lines arrive."""

import io
import logging
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator

from ..errors import InputError
from .inputs import LONGEST_RECORD, TABLES, TOO_LONG
from .records import BYTE_ORDER_MARK, Record, decode, read_lines
from .tables import table_rows
from .texts import TEXT_KEYS, key_in

PLACE = "standard input"
ARRAY = re.compile(rb"\[\s*([{\"]|$)")  # how an array of objects or of strings begins
DELIMITED = {",": "csv", "\t": "tsv", ";": "csv"}  # a header's delimiter and its format
KINDS = (".txt", ".jsonl", *TABLES)
NAME = r"\w+([ _.-]\w+){0,2}"  # of a column, up to three words
READ_BYTES = 1 << 20

log = logging.getLogger(__name__)


class ArrivingLines:
    """The lines of a file descriptor, with their ends.

    A read returns what has arrived, so that no line waits for the next one.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._written = 0  # of them, those that are not blank
        self._rest = b""  # a line whose end has not arrived

    @property
    def waiting(self) -> bool:
        """Whether lines that are not blank have arrived and were not taken yet."""
        return self._written > 0

    def holds_record(self, kind: str) -> bool:
        """Whether a record of a kind among KINDS has arrived whole and was not taken yet.

        A row of a table is not whole while a quote is open: its cell goes on in a line to come.
        """
        if kind not in TABLES:
            return self.waiting
        is_open = False
        for line in self._lines:
            is_open ^= line.count(b'"') % 2 == 1
            if not is_open and line.strip():
                return True
        return False

    def first(self) -> bytes:
        """Return the next line that is not blank, and take none; InputError if there is none."""
        while not self.waiting:
            known = len(self._lines)
            self._fill()
            if len(self._lines) == known:
                raise InputError(f"{PLACE}: the input is empty")
        return next(filter(bytes.strip, self._lines))

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._lines:
            self._fill()
        if not self._lines:
            raise StopIteration
        line = self._lines.popleft()
        self._written -= bool(line.strip())
        return line

    def _fill(self) -> None:
        """Wait for a line or the end; InputError for a line that is too long."""
        parts, size = [self._rest], len(self._rest)
        while chunk := self._read():
            parts.append(chunk)
            size += len(chunk)
            if b"\n" in chunk or size > LONGEST_RECORD:
                *lines, self._rest = b"".join(parts).split(b"\n")
                if len((*lines, self._rest)[0]) > LONGEST_RECORD:
                    raise InputError(f"{PLACE}: a line is {TOO_LONG}")
                self._take(line + b"\n" for line in lines)
                return
        self._take(filter(None, [b"".join(parts)]))
        self._rest = b""

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, READ_BYTES)
        except OSError as error:
            raise InputError(f"{PLACE}: {error.strerror}") from error

    def _take(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._lines.append(line)
            self._written += bool(line.strip())


def kind_of(line: bytes) -> str:
    """Return the kind of a stream, JSON lines or plain text, by its first line.

    Raises InputError for a probable table or array of JSON, which would otherwise be answered as
    plain text.
    """
    start = line.removeprefix(BYTE_ORDER_MARK).strip()
    if start.startswith(b"{"):
        return ".jsonl"
    if ARRAY.match(start):
        raise InputError(
            f"{PLACE}: begins like an array of JSON; give one object per line (jq -c '.[]'), or "
            "name a .json file. --input-format txt reads it as text"
        )
    for delimiter, kind in DELIMITED.items():
        names = [name.strip('"') for name in start.decode(errors="replace").split(delimiter)]
        if len(names) > 1 and key_in(names, None, TEXT_KEYS):
            raise InputError(
                f"{PLACE}: begins with {', '.join(names[:5])}, like a table; say --input-format "
                f"{kind}, or --input-format txt if it is text"
            )
        if len(names) > 1 and all(re.fullmatch(NAME, name) for name in names):
            log.warning(
                "%s: begins with %s, which may be a table's header; it is read as text, one a "
                "line (for a table: --input-format %s)", PLACE, ", ".join(names[:5]), kind
            )  # fmt: skip
            break
    return ".txt"


def read_arriving(lines: Iterator[bytes], kind: str) -> Iterator[Record]:
    """Yield records of a kind among KINDS; InputError, with the line, for an invalid one."""
    if kind not in TABLES:
        yield from read_lines(lines, kind, PLACE, strict=True)
        return
    for number, row in table_rows(_decoded(lines), TABLES[kind], PLACE):
        record = Record(row)
        record.place = f"{PLACE}, line {number}"
        yield record


def _decoded(lines: Iterator[bytes]) -> Iterator[str]:
    """Yield the lines as text, also cut at carriage returns, as in a file."""
    for number, line in enumerate(lines, start=1):
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        yield from io.StringIO(decode(line, f"{PLACE}, line {number}", True)[0], newline="")
