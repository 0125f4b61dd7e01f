"""Records from a pipe or a terminal, as soon as their lines arrive."""

import logging
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator

from ..errors import InputError
from .columns import is_sure_name
from .encodings import marked_encoding
from .inputs import DELIMITED, JSON_KINDS, LONGEST_RECORD, OTHER_FILES, TOO_LONG, TableOptions
from .records import BYTE_ORDER_MARK, Record, decode, read_lines
from .tables import DelimitedRows, TableReport, TableRow, names_columns

PLACE = "standard input"
_ARRAY = re.compile(rb"\[\s*([{\"]|$)")  # how an array of objects or of strings begins
_FORMATS = {",": "csv", "\t": "tsv", ";": "csv"}  # a header's delimiter and its format
KINDS = (".txt", ".jsonl", *DELIMITED)
READ_BYTES = 1 << 20

log = logging.getLogger(__name__)


class ArrivingLines:
    """The lines of a file descriptor, with their line ends, each as soon as it arrives."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._written = 0  # how many of them are not blank
        self._rest = b""  # a line whose end has not arrived
        self._has_begun = False

    @property
    def waiting(self) -> bool:
        """Whether unread lines that are not blank have arrived."""
        return self._written > 0

    def first(self) -> bytes:
        """Return the next line that is not blank without taking it; InputError if there is none."""
        while not self.waiting:
            before = len(self._lines)
            self._fill()
            if len(self._lines) == before:
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
            chunk = os.read(self._descriptor, READ_BYTES)
        except OSError as error:
            raise InputError(f"{PLACE}: {error.strerror}") from error
        if not self._has_begun:
            self._has_begun = True
            what = next((w for mark, w in OTHER_FILES.items() if chunk.startswith(mark)), None)
            if (marked_encoding(chunk) or "utf-8").startswith(("utf-16", "utf-32")):
                what = "is UTF-16"
            if what is not None:
                kind = what.partition(";")[0]
                raise InputError(
                    f"{PLACE}: {kind}; name the file with --input, or convert it in the pipe"
                )
        return chunk

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
    if _ARRAY.match(start):
        raise InputError(
            f"{PLACE}: begins like a JSON array; give one object per line (jq -c '.[]'), or "
            "name a .json file. --input-format txt reads it as text"
        )
    for delimiter, kind in _FORMATS.items():
        names = [name.strip('"') for name in start.decode(errors="replace").split(delimiter)]
        if len(names) > 1 and any(map(is_sure_name, names)):
            raise InputError(
                f"{PLACE}: begins with {', '.join(names[:5])}, like a table; give --input-format "
                f"{kind}, or --input-format txt if it is text"
            )
        if names_columns(names):
            log.warning(
                "%s: begins with %s, which may be a table's header; it is read as text, one a "
                "line (for a table: --input-format %s)", PLACE, ", ".join(names[:5]), kind
            )  # fmt: skip
            break
    return ".txt"


class ArrivingRecords:
    """The records of lines, each as soon as it is complete; InputError for a faulty one.

    kind: one of KINDS.
    """

    def __init__(self, lines: Iterator[bytes], kind: str, options: TableOptions | None = None):
        options = options or TableOptions()
        codec = options.encoding or "utf-8"
        if "\n".encode(codec) != b"\n":
            raise InputError(f"{PLACE}: cannot be read as {codec}; name the file with --input")
        self._lines, self._table = lines, TableReport(PLACE, "UTF-8" if codec == "utf-8" else codec)
        self._decoded = (
            decode(line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line,
                   f"{PLACE}, line {number}", True, codec)[0]
            for number, line in enumerate(lines, start=1)
        )  # fmt: skip
        self.has_equal_keys = kind not in JSON_KINDS
        """Whether all records have the same keys, as in a table."""
        self._rows: DelimitedRows | None = None
        self._ahead = 0  # records that have been read and not been yielded
        if kind == ".txt":
            self._records = read_lines(map(str.encode, self._decoded), kind, PLACE, strict=True)
            return
        records: Iterator[Record]
        if kind in DELIMITED:
            self._rows = DelimitedRows(self._read, self._table, options, DELIMITED[kind])
            records = self._of_table(self._rows)
        else:
            self._table = TableReport(PLACE, "JSON lines", is_table=False)
            records = read_lines(map(str.encode, self._decoded), kind, PLACE, strict=True)
        sampled = self._table.sampled(self._counted(records), lambda: self._has_arrived)
        self._records = self._of_sampled(sampled)

    @property
    def waiting(self) -> bool:
        """Whether a complete, unread record that is not blank has arrived."""
        return self._ahead > 0 or self._has_arrived

    @property
    def _has_arrived(self) -> bool:
        return getattr(self._lines, "waiting", False) if self._rows is None else self._rows.waiting

    def __iter__(self) -> Iterator[Record]:
        return self._records

    def _counted(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            self._ahead += 1
            yield record

    def _of_sampled(self, rows: Iterator[TableRow]) -> Iterator[Record]:
        for row in rows:
            if not self._table.rows:
                self._ahead += (not self._table.has_header) - self._table.header_rows
            self._ahead -= 1
            self._table.rows += 1
            record = row if isinstance(row, Record) else Record(row)
            record.place = record.place or f"{PLACE}, line {1 + self._table.rows}"
            record.table = self._table
            yield record

    def _read(self, size: int) -> str:
        """Return the lines that have arrived, at least one unless the input ended."""
        parts = [next(self._decoded, "")]
        while parts[-1] and getattr(self._lines, "waiting", False) and sum(map(len, parts)) < size:
            parts.append(next(self._decoded, ""))
        return "".join(parts)

    def _of_table(self, rows: DelimitedRows) -> Iterator[Record]:
        for number, row in rows:
            record = Record(row)
            record.place = f"{PLACE}, line {number}"
            yield record
