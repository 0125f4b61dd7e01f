"""Rows that survive an interrupted command: the next one continues after them."""

import csv
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..errors import InputError
from ..files.locks import one_at_a_time, refusal
from ..files.storage import (
    PARTIAL,
    first_free,
    flush_to_disk,
    path_in_oserrors,
    read_json,
    write_json,
)
from .inputs import LONGEST_RECORD
from .row_files import UNSAYABLE, RowFormat, cell_of, json_of

log = logging.getLogger(__name__)


@contextmanager
def growing_file(final: Path, request: Mapping[str, Any]) -> Iterator[IO[bytes]]:
    """Yield the file `final` + ".partial", which becomes `final` at the end.

    If the end is not reached, the rows stay. The next call for the same `final` continues them if
    its `request`, of JSON types, is the same; else they are kept under another name. Raises
    InputError if another process is writing it, or if there is a folder of its name.
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
        raise InputError(f"{partial}: is a folder, but its name is needed for a file; move it away")
    if partial.is_file() and not _is_request(asked, request):
        if partial.stat().st_size:
            _set_aside(partial, "is from another command, or other options")
        partial.unlink()
    if not partial.is_file():
        write_json(asked, request)
        partial.touch()
    return asked


def _is_request(path: Path, request: Mapping[str, Any]) -> bool:
    with suppress(InputError, OSError):
        return read_json(path) == request
    return False


def _set_aside(partial: Path, why: str) -> None:
    """Copy the rows to a free name: they may have taken hours."""
    (free,) = first_free(lambda number: [partial.with_name(f"{partial.name}.{number}")])
    with path_in_oserrors(free):
        shutil.copyfile(partial, free)
    log.info("%s: %s; its rows are now in %s", partial, why, free)


class KeptRows:
    """The rows that a RowWriter left in a file, compared with the rows to be written now.

    added: the names of the values that were appended to each row.
    columns: of CSV; []: those of the file's header, as long as rows of it are kept.
    """

    def __init__(
        self, file: IO[bytes], row_format: RowFormat, added: Sequence[str], columns: Sequence[str]
    ):
        file.seek(0)
        self._file = file
        self._added = added
        self._columns = list(columns)
        self._is_guessed = not columns
        self._is_csv = row_format == "csv"
        self._lines = self._whole_lines()
        self._end = 0  # end of the rows that are the same
        self._count = 0
        self._is_over = False
        self.header: list[str] = []
        """The columns of CSV whose header is in the file; [] if there is none."""
        if self._is_csv:
            self._read_header()

    def _read_header(self) -> None:
        line = next(self._lines, b"")
        cells = _cells(line)
        if self._is_guessed and cells[-len(self._added) :] == list(self._added):
            self._columns = cells
        if cells and cells == self._columns:
            self.header, self._end = cells, len(line)
        else:
            self._cut(differs=bool(line))

    def begins_next(self, values: Mapping[str, Any], *, is_answered: bool) -> bool:
        """Whether the next row has these values, so that it need not be written again.

        The first row that differs is cut off, with all after it; a copy of the file stays.
        is_answered: whether results follow the values, or only empty cells.
        """
        if self._is_over:
            return False
        line = next(self._lines, b"")
        if line and self._begins(line, values, is_answered):
            self._end += len(line)
            self._count += 1
            return True
        self._cut(differs=bool(line))
        return False

    def finish(self) -> None:
        """Cut off the remaining kept rows; the file is then at its end."""
        if not self._is_over:
            self._cut(differs=bool(next(self._lines, b"")))

    def _cut(self, *, differs: bool) -> None:
        """Cut off all rows but those that are the same.

        differs: whether rows differ, apart from one that a kill has cut short.
        """
        self._is_over = True
        if differs:
            _set_aside(Path(self._file.name), "differs from the input")
        if self._is_guessed and not self._count:  # the next rows may have other columns
            self.header, self._end = [], 0
        self._file.truncate(self._end)
        self._file.seek(self._end)
        if self._count:
            log.info("%s: continues after %s rows", self._file.name, f"{self._count:,}")

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

    def _begins(self, line: bytes, values: Mapping[str, Any], is_answered: bool) -> bool:
        if self._is_csv:
            own = self._columns[: -len(self._added)]
            wanted = [_as_written(cell_of(values.get(name))) for name in own]
            cells = _cells(line)
            answers = any(cells[len(own) :])
            is_same = values.keys() <= set(own) and cells[: len(own)] == wanted
            return is_same and answers == is_answered
        begun = json_of(dict(values)).removesuffix("}") + (", " if values else "")
        return line.startswith(f"{begun}{json_of(self._added[0])}: ".encode(errors=UNSAYABLE))


def _cells(line: bytes) -> list[str]:
    """Return the cells of a row of CSV."""
    csv.field_size_limit(LONGEST_RECORD)  # Python's own limit is 128 KiB
    text = line.decode("utf-8", errors="replace").removesuffix("\n")
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return []


def _as_written(cell: str) -> str:
    return cell.encode("utf-8", errors=UNSAYABLE).decode()
