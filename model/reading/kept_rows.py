"""Rows that outlast the command that writes them: the next one goes on after them."""

import csv
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..errors import InputError
from ..files.locks import one_at_a_time
from ..files.storage import PARTIAL, flush_to_disk, read_json, write_json
from .inputs import LONGEST_RECORD
from .row_files import UNSAYABLE, RowFormat, cell_of, json_of

log = logging.getLogger(__name__)


@contextmanager
def growing_file(final: Path, request: Mapping[str, Any]) -> Iterator[IO[bytes]]:
    """Yield the file `final` + ".partial", which becomes `final` at the end.

    Where that end is not reached, the rows stay, and the next call for the same `final` finds them
    if its `request`, which is of JSON's types, is the same; else it begins anew. Raises InputError
    if another process is writing it.
    """

    def busy() -> None:
        raise InputError(f"{final}: another process is writing it; wait, or name another file")

    final = final.resolve() if final.is_symlink() else final
    partial = final.with_name(f"{final.name}.{PARTIAL}")
    asked = partial.with_name(f"{partial.name}.json")
    with one_at_a_time(final.with_name(f".{partial.name}.lock"), busy):
        if not (partial.is_file() and _is_request(asked, request)):
            partial.unlink(missing_ok=True)
            write_json(asked, request)
            partial.touch()
        try:
            with open(partial, "r+b") as file:
                yield file
        except BaseException:
            if partial.stat().st_size:
                log.info("%s: kept; the same command goes on after its rows", partial)
            else:
                partial.unlink()
                asked.unlink()
            raise
        flush_to_disk(partial)
        os.replace(partial, final)
        asked.unlink()


def _is_request(path: Path, request: Mapping[str, Any]) -> bool:
    with suppress(InputError, OSError):
        return read_json(path) == request
    return False


class KeptRows:
    """The rows that a RowWriter left in a file, held against those that are to be written now.

    added: the names of what stands in each row behind its own values.
    columns: of CSV; [] for those that the file has.
    """

    def __init__(
        self,
        file: IO[bytes],
        row_format: RowFormat,
        added: Sequence[str],
        columns: Sequence[str] = (),
    ):
        file.seek(0)
        self._file = file
        self._added = added
        self._is_csv = row_format == "csv"
        self._lines = self._whole_lines()
        self._end = 0  # of the rows that are the same
        self._count = 0
        self._is_over = False
        self.columns = list(columns)
        self.has_header = False
        if self._is_csv:
            header = next(self._lines, b"")
            found = _cells(header)
            self.has_header = bool(found) and self.columns in ([], found)
            if self.has_header:
                self.columns, self._end = found, len(header)
            else:
                self.cut()

    def begins_next(self, values: Mapping[str, Any]) -> bool:
        """Whether the next row has these own values, so that it need not be written again.

        The first one that does not is cut off, with all after it.
        """
        if self._is_over:
            return False
        line = next(self._lines, b"")
        if line and self._begins(line, values):
            self._end += len(line)
            self._count += 1
            return True
        self.cut()
        return False

    def cut(self) -> None:
        """Cut off the rows that were not asked for; the file is at its end afterwards."""
        if self._is_over:
            return
        self._is_over = True
        self._file.truncate(self._end)
        self._file.seek(self._end)
        if self._count:
            log.info("%s: goes on after %s rows", self._file.name, f"{self._count:,}")

    def _whole_lines(self) -> Iterator[bytes]:
        """Yield each row with its end; a kill may have cut the last one short."""
        parts, is_open = [], False
        for part in self._file:
            parts.append(part)
            if self._is_csv and part.count(b'"') % 2:  # a cell goes on in the next line
                is_open = not is_open
            if part.endswith(b"\n") and not is_open:
                yield b"".join(parts)
                parts = []

    def _begins(self, line: bytes, values: Mapping[str, Any]) -> bool:
        if self._is_csv:
            own = self.columns[: -len(self._added)]
            wanted = [_as_written(cell_of(values.get(name))) for name in own]
            return values.keys() <= set(own) and _cells(line)[: len(own)] == wanted
        begun = json_of(dict(values)).removesuffix("}") + (", " if values else "")
        return line.startswith(f"{begun}{json_of(self._added[0])}: ".encode(errors=UNSAYABLE))


def _cells(line: bytes) -> list[str]:
    """Return the cells of a row of CSV."""
    csv.field_size_limit(LONGEST_RECORD)  # Python's own is 128 KiB
    text = line.decode("utf-8", errors="replace").removesuffix("\n")
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return []


def _as_written(cell: str) -> str:
    return cell.encode("utf-8", errors=UNSAYABLE).decode()
