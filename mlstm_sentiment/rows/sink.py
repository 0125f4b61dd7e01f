"""Where rows go: a file, complete or not at all, or standard output.

Rows in a file survive an interrupted command: the next one continues after them.
"""

import hashlib
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..errors import InputError
from ..files.storage import keep, one_at_a_time, refusal
from ..files.writer import (
    PARTIAL,
    STDOUT,
    check_output,
    finish_work,
    open_work,
    path_in_oserrors,
    remove_work,
    set_aside,
)
from ..reading.columns import NUMBER
from ..reading.inputs import COMPRESSIONS
from ..reading.records import Record
from ..reading.row_files import (
    STANDARD,
    Dialect,
    RowFormat,
    cell_of,
    refused_values,
    row_as_json,
    value_of,
)
from ..reading.rows import Rows
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
        return self.format or _format_of(self.path)

    def check(self, rows: Rows) -> None:
        """Raise InputError if it may not be written, or cannot hold the rows of a file."""
        if self.path is not None:
            _check_resumable(Path(self.path))
        if self._format == "xlsx":
            check_fits(rows.count, [rows.longest.text], rows.longest.place)

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
        if row_format == "tsv" or dialect.delimiter == "\t":
            dialect = replace(dialect, delimiter="\t" if row_format == "tsv" else ",")
        dialect = replace(dialect, safe_cells=self.safe_cells)
        path = None if self.path is None else Path(self.path)
        if path is None:
            if sys.stdout is None:
                raise InputError("standard output is closed; name a file with --output")
            with path_in_oserrors(Path(STDOUT)):
                yield RowOutput(sys.stdout.buffer, row_format, columns, dialect=dialect)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            request = {**request, "format": row_format, "columns": list(columns)}
            if dialect != STANDARD:
                request["dialect"] = asdict(dialect)
            finish = None
            if row_format == "xlsx":
                finish = partial(write_workbook, columns=columns)
            with _resumable_output(path, request, finish) as rows:
                yield RowOutput(rows, row_format, columns, added, dialect=dialect)


class RowOutput:
    """Writes batches of rows; those that an interrupted command has written are read back.

    JSON lines keep what CSV loses: null differs from an empty text, a number from a string of
    digits. file: None writes nothing. columns: of CSV; [] takes those of the first row. added: the
    names of the last values of each row. dialect: of CSV.
    """

    def __init__(
        self,
        file: Any = None,
        row_format: RowFormat = "jsonl",
        columns: Sequence[str] = (),
        added: Sequence[str] = (),
        *,
        dialect: Dialect = STANDARD,
    ):
        self._file, self._columns, self._added, self._dialect = file, columns, added, dialect
        self._is_csv, self._has_header = row_format in ("csv", "tsv"), False
        self._is_workbook, self._rows = row_format == "xlsx", 0

    def sizes(self) -> Iterator[int]:
        """Yield the sizes of the batches that have been written, one before each is taken."""
        return self._file.sizes() if isinstance(self._file, _ResumableRows) else iter(())

    def take(self, rows: Sequence[Record]) -> list[dict[str, Any]] | None:
        """Return what was added to the next rows; None if they have not been written yet."""
        written = self._file.take(rows) if isinstance(self._file, _ResumableRows) else None
        if written is None:
            return None
        self._rows += len(rows)
        if not self._is_csv:
            stored = list(map(json.loads, written.splitlines()))
            self._columns = self._columns or list(stored[0])
            return [{name: row.get(name) for name in self._added} for row in stored]
        lines = self._dialect.lines(written)
        if not self._has_header:
            self._columns, self._has_header = next(lines), True
        return [
            {
                name: self._value(name, cell)
                for name, cell in zip(self._added, cells[-len(self._added) :], strict=True)
            }
            for cells in lines
        ]

    def _value(self, name: str, cell: str) -> Any:
        """Return the value of what was added, from its cell as it is written."""
        is_text = name == "label"
        if is_text and cell == self._safe(cell.removeprefix("'")):
            cell = cell.removeprefix("'")
        return value_of(cell, is_text=is_text)

    def write(self, rows: Sequence[Record]) -> None:
        """Write a batch; InputError for a value that has no column in CSV or cannot be JSON."""
        if self._file is None:
            return
        for row in rows:
            if self._is_csv or self._is_workbook:
                self._check_columns(row)
            line = self._csv_line(row) if self._is_csv else row_as_json(row, row.place)
            self._rows += 1
            if self._is_workbook:
                check_fits(self._rows, row.values(), row.place)
            self._file.write(line)
        self._file.flush()

    def _check_columns(self, row: Record) -> None:
        self._columns = self._columns or list(row)
        if unknown := [name for name in row if name not in self._columns]:
            raise InputError(
                f"{row.place}: has {unknown[0]!r}, but the first row has no such column; write "
                "JSON lines instead (--format jsonl)"
            )

    def _csv_line(self, row: Record) -> bytes:
        head, dialect = b"", self._dialect
        if not self._has_header:
            self._has_header = True
            mark = "\ufeff".encode(dialect.codec) if dialect.mark else b""
            head = mark + dialect.line(list(map(self._safe, self._columns)))
        with refused_values(row.place):
            values = (row.get(name) for name in self._columns)
            cells = [self._safe(v) if isinstance(v, str) else cell_of(v) for v in values]
            return head + dialect.line(cells)

    def _safe(self, text: str) -> str:
        is_formula = self._dialect.safe_cells and _FORMULA.match(text)
        return f"'{text}" if is_formula and not NUMBER.fullmatch(text) else text


def _format_of(path: Path | str | None) -> RowFormat:
    suffix = ".jsonl" if path is None else Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise InputError(
            f"--output {path}: the name must end in {', '.join(_FORMATS)}; or give --format"
        )
    return _FORMATS[suffix]


log = logging.getLogger(__name__)


class _BatchEnd(NamedTuple):
    """The end of a batch: what is in the file so far, and of which rows of the input."""

    rows: int
    size: int  # bytes of the file
    input_digest: str  # of the rows of the input
    output_digest: str  # of the bytes


@contextmanager
def _resumable_output(
    final: Path,
    request: Mapping[str, Any],
    finish: Callable[[Path, Path], None] | None = None,
) -> Iterator["_ResumableRows"]:
    """Yield the file `final` + ".partial", which becomes `final` at the end.

    After an interruption, the rows stay. The next call for the same `final` continues them if its
    `request`, of JSON types, is the same; otherwise they are kept under another name. finish: makes
    `final` of the rows, if it is no plain file of them. Raises
    InputError if another process is writing the file, or if a folder has its name.
    """
    partial, journal, lock = _check_resumable(final)
    busy = refusal(f"{final}: another process is writing it; wait, or name another file")
    with one_at_a_time(lock, busy):
        head = json.dumps(request, default=str).encode() + b"\n"
        _begin(partial, journal, head)
        try:
            with (
                path_in_oserrors(final, partial),
                open_work(partial, "r+b") as file,
                open_work(journal, "r+b") as ends,
            ):
                ends.seek(len(head))
                rows = _ResumableRows(file, ends)
                yield rows
                rows.finish()
        except BaseException:
            if partial.stat().st_size:
                log.info("%s: kept; the same command continues after its rows", partial)
            else:
                remove_work(partial)
                remove_work(journal)
            raise
        if finish is None:
            finish_work(partial, final, "rows")
        else:
            finish(partial, final)
            remove_work(partial)
        remove_work(journal)


def _check_resumable(final: Path) -> tuple[Path, Path, Path]:
    """Return the rows so far, their journal and their lock; InputError if one may not be written.

    An input may be none of these files.
    """
    check_output(final, "rows")
    partial = final.with_name(f"{final.name}.{PARTIAL}")
    work = partial, partial.with_name(f"{partial.name}.json"), set_aside(final, "lock")
    for path in work:
        check_output(path, None)
    return work


def _begin(partial: Path, journal: Path, head: bytes) -> None:
    """Ensure that the file is there, and a journal that begins with the request."""
    if partial.is_file() and not _begins_with(journal, head):
        if partial.stat().st_size:
            _copy_to_free_name(partial, "is from another command, or other options")
        remove_work(partial)
    if not partial.is_file():
        with open_work(journal, "wb") as file:
            file.write(head)
        open_work(partial, "wb").close()


def _begins_with(path: Path, head: bytes) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        return file.read(len(head)) == head
    return False


def _copy_to_free_name(partial: Path, why: str) -> None:
    free = keep(partial, partial.with_name(partial.name.removesuffix(f".{PARTIAL}")), copy=True)
    log.info("%s: %s; its rows are now in %s", partial, why, free)


class _ResumableRows:
    """A file of rows in batches, and a journal that says which rows of the input are in it.

    `take` each batch of the input; if its rows are not in the file, write them, then `flush`.
    """

    def __init__(self, file: IO[bytes], journal: IO[bytes]):
        self._file, self._journal = file, journal
        self._taken = self._agreed = self._size = 0  # rows, rows, bytes
        self._input, self._output = hashlib.sha256(), hashlib.sha256()
        self._journal_end = journal.tell()
        self._next = self._next_end()
        self._is_over = False

    def sizes(self) -> Iterator[int]:
        """Yield how many rows each batch in the file has, as long as all before are taken."""
        while self._next is not None:
            yield self._next.rows - self._taken

    def take(self, rows: Sequence[Record]) -> bytes | None:
        """Return what the file has for the next rows of the input; None if they are to be written.

        The file is cut off before the first batch that differs; a copy of all of it is kept.
        """
        for row in rows:
            self._input.update(row_as_json(row, row.place))
        self._taken += len(rows)
        if self._next is None:
            self._cut()
            return None
        written, output = self._file.read(self._next.size - self._size), self._output.copy()
        output.update(written)
        digests = self._input.hexdigest(), output.hexdigest()
        if self._next != (self._taken, self._size + len(written), *digests):
            self._cut()
            return None
        self._agreed, self._size, self._output = self._next.rows, self._next.size, output
        self._journal_end = self._journal.tell()
        self._next = self._next_end()
        return written

    def write(self, line: bytes) -> None:
        self._file.write(line)
        self._output.update(line)
        self._size += len(line)

    def flush(self) -> None:
        """End a batch: only now its rows count as written."""
        self._file.flush()
        digests = self._input.hexdigest(), self._output.hexdigest()
        line = json.dumps(_BatchEnd(self._taken, self._size, *digests))
        self._journal.write(line.encode() + b"\n")
        self._journal.flush()

    def finish(self) -> None:
        self._cut()

    def _cut(self) -> None:
        """Cut off rows that do not match the input, after copying them, or part of a batch."""
        if self._is_over:
            return
        self._is_over = True
        if self._next is not None:
            _copy_to_free_name(Path(self._file.name), "differs from the input")
            self._next = None
        for file, end in ((self._file, self._size), (self._journal, self._journal_end)):
            file.truncate(end)
            file.seek(end)
        if self._agreed:
            log.info("%s: continues after %s rows", self._file.name, f"{self._agreed:,}")

    def _next_end(self) -> _BatchEnd | None:
        """Return the next one in the journal; None at its end, also if a kill has cut it short."""
        line = self._journal.readline()
        with suppress(ValueError, TypeError):
            end = _BatchEnd(*json.loads(line))
            if line.endswith(b"\n") and end.rows > self._taken and end.size >= self._size:
                return end
        return None
