"""Where rows go: a file, complete or not at all, or standard output.

Rows in a file survive an interrupted command: the next one continues after them.
"""

import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

from ..errors import InputError
from ..files.storage import keep, one_at_a_time
from ..files.writer import (
    PARTIAL,
    STDOUT,
    check_output,
    finish_work,
    open_work,
    path_in_oserrors,
    remove_work,
    set_aside,
    write_atomically,
)
from ..reading.columns import NUMBER
from ..reading.inputs import COMPRESSIONS
from ..reading.row_files import STANDARD, Dialect, RowFormat, cell_of, refused_values, row_as_json
from ..reading.rows import Rows
from ..reading.tables import Record
from ..reading.workbooks import check_fits, write_workbook

_FORMULA = re.compile(r"[=+\-@\t\r]")  # how a cell begins that a spreadsheet computes
_FORMATS: dict[str, RowFormat] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".xlsx": "xlsx",
}  # fmt: skip


@dataclass(frozen=True)
class Sink:
    """A .jsonl, .csv, .tsv or .xlsx file for rows, complete or not at all, or standard output.

    >>> sink = Sink("labelled.csv")

    path: the file; None: standard output. format: jsonl, csv, tsv or xlsx. Default: by the suffix
    of the path, and CSV is written as the input is: its delimiter, encoding and byte order mark; a
    format that is named is UTF-8 with commas or tabs. safe_cells: whether cells of CSV that a
    spreadsheet would compute get an apostrophe before them. An error or an interruption leaves the
    rows so far in PATH.partial; the same call continues after them.
    """

    path: Path | str | None = None
    format: RowFormat | None = None
    safe_cells: bool = False

    def __post_init__(self) -> None:
        suffix = Path(self.path or "").suffix.lower()
        if suffix in COMPRESSIONS:
            raise InputError(
                f"--output {self.path}: rows are not written compressed; leave {suffix} out"
            )
        if self._format not in _FORMATS.values():
            raise InputError(f"format is {self.format!r}; it must be jsonl, csv, tsv or xlsx")
        if self._format == "xlsx" and self.path is None:
            raise InputError("a workbook cannot be printed; name a file with --output")

    @cached_property
    def _format(self) -> RowFormat:
        suffix = ".jsonl" if self.path is None else Path(self.path).suffix.lower()
        if not self.format and suffix not in _FORMATS:
            raise InputError(
                f"--output {self.path}: the name must end in {', '.join(_FORMATS)}; or give "
                "--format"
            )
        return self.format or _FORMATS[suffix]

    def check(self, rows: Rows) -> None:
        """Raise InputError if it may not be written, or cannot hold the rows of a file."""
        if self.path is not None:
            _check_resumable(Path(self.path))
        if self._format == "xlsx":
            text, place = rows.longest
            check_fits(rows.count, [text], place)

    @contextmanager
    def open(
        self,
        request: Mapping[str, Any],
        columns: Sequence[str],
        added: Sequence[str],
        *,
        dialect: Dialect = STANDARD,
    ) -> Iterator["RowOutput"]:
        """Open it for rows that end with the values named `added`.

        request: all that these values depend on, except the rows of the input. columns: of CSV; []
        takes those of the first row. dialect: of the input.
        """
        row_format = self._format
        dialect = dialect if self.format is None else STANDARD
        delimiter = "\t" if row_format == "tsv" else dialect.delimiter.replace("\t", ",")
        dialect = replace(dialect, delimiter=delimiter, safe_cells=self.safe_cells)
        path = None if self.path is None else Path(self.path)
        if path is None:
            if sys.stdout is None:
                raise InputError("standard output is closed; name a file with --output")
            with path_in_oserrors(Path(STDOUT)):
                yield RowOutput(sys.stdout.buffer, row_format, columns, dialect=dialect)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            table = partial(RowOutput, row_format=row_format, columns=columns, dialect=dialect)
            finish = {
                "jsonl": partial(finish_work, kind="rows"),
                "xlsx": partial(write_workbook, columns=columns),
            }.get(row_format, partial(_write_table, table=table))
            request = {**request, "format": row_format}
            with _resumable_output(path, request, finish) as file:
                rows = ResumableOutput(file, row_format, columns, added)
                yield rows
                rows.cut()


class RowOutput:
    """Writes batches of rows as JSON lines or CSV.

    JSON lines keep what CSV loses: null differs from an empty text, a number from a string of
    digits. file: None writes nothing. columns: of a table; [] takes those of the first row.
    dialect: of CSV.
    """

    def __init__(
        self,
        file: IO[bytes] | None = None,
        row_format: RowFormat = "jsonl",
        columns: Sequence[str] = (),
        *,
        dialect: Dialect = STANDARD,
    ):
        self._file, self._format, self._dialect = file, row_format, dialect
        self._columns, self._has_header = columns, False

    def take(self, rows: Sequence[Record]) -> list[dict[str, Any]]:
        """Return what was added to the first of the next rows, those that are written already."""
        return []

    def write(self, rows: Iterable[Record]) -> None:
        """Write a batch; InputError for a value that has no column in CSV or cannot be JSON."""
        if self._file is None:
            return
        for row in rows:
            self._file.write(self._line(row))
        self._file.flush()

    def _line(self, row: Record) -> bytes:
        if self._format == "jsonl":
            return row_as_json(row, row.place)
        self._check_columns(row)
        head, dialect = b"", self._dialect
        if not self._has_header:
            self._has_header = True
            mark = "\ufeff".encode(dialect.codec) if dialect.mark else b""
            head = mark + dialect.line(list(map(self._safe, self._columns)))
        with refused_values(row.place):
            values = (row.get(name) for name in self._columns)
            cells = [self._safe(v) if isinstance(v, str) else cell_of(v) for v in values]
            return head + dialect.line(cells)

    def _check_columns(self, row: Record) -> None:
        self._columns = self._columns or list(row)
        if unknown := [name for name in row if name not in self._columns]:
            raise InputError(
                f"{row.place}: has {unknown[0]!r}, but the first row has no such column; write "
                "JSON lines instead (--format jsonl)"
            )

    def _safe(self, text: str) -> str:
        is_formula = self._dialect.safe_cells and _FORMULA.match(text)
        return f"'{text}" if is_formula and not NUMBER.fullmatch(text) else text


class ResumableOutput(RowOutput):
    """A work file of JSON lines, whatever they become; it may have rows of an interrupted command.

    `take` each batch of the input, and write the rows that the file lacks. added: the names of what
    follows the values of a row of the input.
    """

    def __init__(
        self, file: IO[bytes], row_format: RowFormat, columns: Sequence[str], added: Sequence[str]
    ):
        super().__init__(file, row_format, columns)
        self._work, self._added = file, added
        self._rows = self._size = 0  # that were taken or written; bytes of those taken
        self._is_over = False

    def take(self, rows: Sequence[Record]) -> list[dict[str, Any]]:
        """Return what was added to the first of the next rows, those that are written already.

        If not to all, write the others next.
        """
        answers = []
        # The file's next line may be of no row, or of another one.
        with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
            for row in rows:
                line = self._work.readline()
                stored = json.loads(line)
                answer = {name: stored.pop(name) for name in self._added}
                is_whole = line.endswith(b"\n")
                if not is_whole or self._json(stored, row.place) != self._json(row, row.place):
                    break
                self._size += len(line)
                answers.append(answer)
        self._rows += len(answers)
        if answers:
            self._columns = self._columns or [*rows[0], *self._added]
        return answers

    def cut(self) -> None:
        """Cut off what was not taken: part of a line, or rows that differ, after copying all."""
        if self._is_over:
            return
        self._is_over = True
        self._work.seek(self._size)
        if self._work.readline().endswith(b"\n"):
            _copy_to_free_name(Path(self._work.name), "differs from the input")
        self._work.truncate(self._size)
        self._work.seek(self._size)
        if self._rows:
            log.info("%s: continues after %s rows", self._work.name, f"{self._rows:,}")

    def _line(self, row: Record) -> bytes:
        self.cut()
        if self._format != "jsonl":
            self._check_columns(row)
        self._rows += 1
        if self._format == "xlsx":
            check_fits(self._rows, row.values(), row.place)
        return self._json(row, row.place)

    def _json(self, row: Mapping[str, Any], place: str) -> bytes:
        return row_as_json(row, place, is_strict=self._format not in ("csv", "tsv"))


def _write_table(work: Path, final: Path, table: Callable[[IO[bytes]], RowOutput]) -> None:
    """Write the JSON lines of a work file as a table."""

    def write(path: Path) -> None:
        with open(work, "rb") as lines, open(path, "wb") as file:
            table(file).write(Record(json.loads(line)) for line in lines)

    write_atomically(final, write, "rows")


log = logging.getLogger(__name__)


@contextmanager
def _resumable_output(
    final: Path, request: Mapping[str, Any], finish: Callable[[Path, Path], None]
) -> Iterator[IO[bytes]]:
    """Yield the file `final` + ".partial"; at the end, `finish` makes `final` of it.

    After an interruption, the rows stay. The next call for the same `final` continues them if its
    `request`, of JSON types, is the same; otherwise they are kept under another name. Raises
    InputError if another process is writing the file, or if a folder has its name.
    """
    work, request_file, lock = _check_resumable(final)
    busy = f"{final}: another process is writing it; wait, or name another file"
    with one_at_a_time(lock, busy):
        _begin(work, request_file, json.dumps(request, default=str).encode() + b"\n")
        try:
            with path_in_oserrors(final, work), open_work(work, "r+b") as file:
                yield file
            finish(work, final)
        except BaseException:
            if work.is_file() and work.stat().st_size:
                log.info("%s: kept; the same command continues after its rows", work)
            else:
                remove_work(work)
                remove_work(request_file)
            raise
        remove_work(work)
        remove_work(request_file)


def _check_resumable(final: Path) -> tuple[Path, Path, Path]:
    """Return the rows so far, their request and their lock; InputError if one may not be written.

    An input may be none of these files.
    """
    check_output(final, "rows")
    partial = final.with_name(f"{final.name}.{PARTIAL}")
    work = partial, partial.with_name(f"{partial.name}.json"), set_aside(final, "lock")
    for path in work:
        check_output(path, None)
    return work


def _begin(work: Path, request_file: Path, request: bytes) -> None:
    """Ensure that the work file is there, and that it is of this request."""
    with suppress(OSError):
        if work.is_file() and request_file.read_bytes() == request:
            return
    if work.is_file() and work.stat().st_size:
        _copy_to_free_name(work, "is from another command, or other options")
    remove_work(work)
    with open_work(request_file, "wb") as file:
        file.write(request)
    open_work(work, "wb").close()


def _copy_to_free_name(partial: Path, why: str) -> None:
    free = keep(partial, partial.with_name(partial.name.removesuffix(f".{PARTIAL}")), copy=True)
    log.info("%s: %s; its rows are now in %s", partial, why, free)
