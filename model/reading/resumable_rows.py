"""Rows that survive an interrupted command: the next one continues after them."""

import csv
import json
import logging
import os
import shutil
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..errors import InputError
from ..files.storage import (
    PARTIAL,
    first_free,
    flush_to_disk,
    one_at_a_time,
    path_in_oserrors,
    read_json,
    refusal,
    write_json,
)
from .row_files import RowFormat, cell_of, csv_line, json_line, value_of

log = logging.getLogger(__name__)


@contextmanager
def resumable_output(final: Path, request: Mapping[str, Any]) -> Iterator[IO[bytes]]:
    """Yield the file `final` + ".partial", which becomes `final` at the end.

    After an interruption, the rows stay. The next call for the same `final` continues them if its
    `request`, of JSON types, is the same; otherwise they are kept under another name. Raises
    InputError if another process is writing the file, or if a folder has its name.
    """
    final = final.resolve() if final.is_symlink() else final
    partial = final.with_name(f"{final.name}.{PARTIAL}")
    busy = refusal(f"{final}: another process is writing it; wait, or name another file")
    with one_at_a_time(final.with_name(f".{partial.name}.lock"), busy):
        asked = _begin(partial, request)
        try:
            with path_in_oserrors(final, partial), open(partial, "r+b") as file:
                yield file
        except BaseException:
            if partial.stat().st_size:
                log.info("%s: kept; the same command continues after its rows", partial)
            else:
                partial.unlink()
                asked.unlink()
            raise
        flush_to_disk(partial)
        os.replace(partial, final)
        asked.unlink()


def _begin(partial: Path, request: Mapping[str, Any]) -> Path:
    """Ensure that the files for the rows and for the request exist; return the latter."""
    asked = partial.with_name(f"{partial.name}.json")
    if partial.is_dir():
        raise InputError(f"{partial}: is a folder, but a file of this name is needed; move it away")
    if partial.is_file() and not _is_request(asked, request):
        if partial.stat().st_size:
            _copy_to_free_name(partial, "is from another command, or other options")
        partial.unlink()
    if not partial.is_file():
        write_json(asked, request)
        partial.touch()
    return asked


def _is_request(path: Path, request: Mapping[str, Any]) -> bool:
    with suppress(InputError, OSError):
        return read_json(path) == request
    return False


def _copy_to_free_name(partial: Path, why: str) -> None:
    """Copy the rows to a free name: they may have taken hours."""
    (free,) = first_free(lambda number: [partial.with_name(f"{partial.name}.{number}")])
    with path_in_oserrors(free):
        shutil.copyfile(partial, free)
    log.info("%s: %s; its rows are now in %s", partial, why, free)


class WrittenRows:
    """The rows that a RowWriter left in a file, compared with the rows to be written now.

    added: the names of the values that follow those of the input in each row.
    columns: of the CSV; [] takes those of the first row.
    """

    def __init__(
        self, file: IO[bytes], row_format: RowFormat, added: Sequence[str], columns: Sequence[str]
    ):
        file.seek(0)
        self._file, self._added, self._columns = file, list(added), list(columns)
        self._is_csv = row_format == "csv"
        self._lines = self._whole_lines()
        self._end = self._count = 0  # of the rows that agree
        self._is_over = False
        self._last = b""  # the last row that agrees
        self._begun = 0  # of CSV, the bytes of its cells from the input
        self.header: list[str] = []
        """The columns of CSV whose header is in the file; [] if there is none."""

    def begins_next(self, values: Mapping[str, Any]) -> bool:
        """Whether the next row in the file has these values, so that it need not be written again.

        The file is cut off before the first row that differs; a copy of the whole file is kept.
        """
        if self._is_over:
            return False
        if self._is_csv and not self.header:
            columns = self._columns or [*values, *self._added]
            if not self._take(lambda line: line.removeprefix(BOM_UTF8) == csv_line(columns)):
                return False
            self.header, self._count = columns, 0
        return self._take(lambda line: self._begins(line, values))

    def last_results(self) -> dict[str, Any]:
        """Return what was added to the row that `begins_next` has found, by name."""
        # Of CSV without the cells of the input, which may be longer than csv.reader accepts.
        line = self._last[self._begun :].decode(errors="replace")
        if not self._is_csv:
            row = json.loads(line)
            return {name: row.get(name) for name in self._added}
        cells = next(csv.reader([line], strict=False))
        pairs = zip(self._added, cells[-len(self._added) :], strict=True)
        return {name: value_of(cell, is_text=name == "label") for name, cell in pairs}

    def finish(self) -> None:
        """Cut off the remaining kept rows; the file is then at its end."""
        if not self._is_over:
            self._take(lambda line: False)

    def _take(self, is_same: Callable[[bytes], bool]) -> bool:
        """Return whether the next line is the same; if not, cut it off with all after it."""
        line = next(self._lines, b"")
        if line and is_same(line):
            self._end += len(line)
            self._count += 1
            self._last = line
            return True
        self._is_over = True
        if line:  # a whole row, not just one that a kill has cut short
            _copy_to_free_name(Path(self._file.name), "differs from the input")
        if not self._count:
            self.header, self._end = [], 0
        self._file.truncate(self._end)
        self._file.seek(self._end)
        if self._count:
            log.info("%s: continues after %s rows", self._file.name, f"{self._count:,}")
        return False

    def _whole_lines(self) -> Iterator[bytes]:
        """Yield each row with its end; a kill may have cut the last one short."""
        parts, is_open = [], False
        for part in self._file:
            parts.append(part)
            if self._is_csv and part.count(b'"') % 2:  # a cell continues in the next line
                is_open = not is_open
            if part.endswith(b"\n") and not is_open:
                yield b"".join(parts)
                parts = []

    def _begins(self, line: bytes, values: Mapping[str, Any]) -> bool:
        if not self._is_csv:
            return line.startswith(json_line({**values, self._added[0]: 0})[:-3])
        own = self.header[: -len(self._added)]
        cells = [cell_of(values.get(name)) for name in own]
        begun = csv_line([*cells, ""])[:-1] if own else b""
        self._begun = len(begun)
        return values.keys() <= set(own) and line.startswith(begun)
