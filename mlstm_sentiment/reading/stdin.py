"""Records from a pipe or a terminal, as soon as their lines arrive."""

import logging
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator

from ..errors import InputError
from .columns import is_sure_name
from .encodings import marked_encoding
from .inputs import LONGEST_RECORD, OTHER_FILES, TOO_LONG
from .records import BYTE_ORDER_MARK, Record, read_lines, sampled_records
from .tables import TableReport, names_columns

PLACE = "standard input"
_ARRAY = re.compile(rb"\[\s*([{\"]|$)")  # how an array of objects or of strings begins
_DELIMITERS = ",\t;"  # of a header
_READ_BYTES = 1 << 20

log = logging.getLogger(__name__)


class ArrivingLines:
    """The lines of a file descriptor, with their line ends, each as soon as it arrives."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self.arrived: deque[bytes] = deque()
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
            before = len(self.arrived)
            self._fill()
            if len(self.arrived) == before:
                raise InputError(f"{PLACE}: the input is empty")
        return next(filter(bytes.strip, self.arrived))

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self.arrived:
            self._fill()
        if not self.arrived:
            raise StopIteration
        line = self.arrived.popleft()
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
            chunk = os.read(self._descriptor, _READ_BYTES)
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
            self.arrived.append(line)
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
            "name a .json file"
        )
    for delimiter in _DELIMITERS:
        names = [name.strip('"') for name in start.decode(errors="replace").split(delimiter)]
        if len(names) > 1 and any(map(is_sure_name, names)):
            raise InputError(
                f"{PLACE}: begins with {', '.join(names[:5])}, like a table; write it to a .csv "
                "file, or to a .txt file if it is text, and name that with --input"
            )
        if names_columns(names):
            log.warning(
                "%s: begins with %s, which may be a table's header; it is read as text, one a "
                "line (for a table: write it to a .csv file)", PLACE, ", ".join(names[:5])
            )  # fmt: skip
            break
    return ".txt"


class ArrivingRecords:
    """The records of lines of JSON or text, each as soon as it is complete.

    Raises InputError for a faulty one. kind: .jsonl or .txt.
    """

    def __init__(self, lines: Iterator[bytes], kind: str, codec: str = "utf-8"):
        if "\n".encode(codec) != b"\n":
            raise InputError(f"{PLACE}: cannot be read as {codec}; name the file with --input")
        self._lines = lines
        self.has_equal_keys = kind == ".txt"
        """Whether all records have the same keys."""
        self._table = TableReport(PLACE, "JSON lines", is_table=False)
        self._records = read_lines(lines, kind, PLACE, strict=True, codec=codec)
        if kind == ".jsonl":
            self._records = sampled_records(self._records, self._table, waiting=self._has_arrived)

    @property
    def waiting(self) -> bool:
        """Whether a complete, unread record that is not blank has arrived."""
        return self._table.ahead > 0 or self._has_arrived()

    def _has_arrived(self) -> bool:
        return getattr(self._lines, "waiting", False)

    def __iter__(self) -> Iterator[Record]:
        return self._records
