"""Where rows go: a file, complete or not at all, or standard output."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files.writer import STDOUT, is_stream, open_stream, path_in_oserrors
from ..reading.records import Record
from ..reading.row_files import Dialect, RowFormat, RowWriter
from ..reading.workbooks import write_workbook
from .resumable_rows import ResumableRows, check_resumable, resumable_output

_FORMATS: dict[str, RowFormat] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".xlsx": "xlsx",
}  # fmt: skip


_STANDARD = Dialect()


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
        if self._format not in _FORMATS.values():
            raise InputError(f"format is {self.format!r}; it must be jsonl, csv, tsv or xlsx")
        if self._format == "xlsx" and (self.path is None or is_stream(Path(self.path))):
            raise InputError("a workbook cannot be written to a stream; name a file with --output")

    @cached_property
    def _format(self) -> RowFormat:
        return self.format or _format_of(self.path)

    def check(self) -> None:
        """Raise InputError if the file may not be written."""
        if self.path is not None and not is_stream(Path(self.path)):
            check_resumable(Path(self.path))

    @contextmanager
    def open(
        self,
        request: Mapping[str, Any],
        columns: Sequence[str],
        added: Sequence[str],
        *,
        dialect: Dialect = _STANDARD,
    ) -> Iterator["RowOutput"]:
        """Open it for rows that end with the values named `added`.

        request: all that these values depend on, except the rows of the input. columns: of CSV; []
        takes those of the first row. dialect: of the input.
        """
        row_format = self._format
        dialect = dialect if self.format is None else _STANDARD
        if row_format == "tsv" or dialect.delimiter == "\t":
            dialect = replace(dialect, delimiter="\t" if row_format == "tsv" else ",")
        dialect = replace(dialect, safe_cells=self.safe_cells)
        path = None if self.path is None else Path(self.path)
        if path is None:
            if sys.stdout is None:
                raise InputError("standard output is closed; name a file with --output")
            with path_in_oserrors(Path(STDOUT)):
                yield RowOutput(RowWriter(sys.stdout.buffer, row_format, columns, dialect=dialect))
        elif is_stream(path):
            with path_in_oserrors(path), open_stream(path) as file:
                yield RowOutput(RowWriter(file, row_format, columns, dialect=dialect))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            request = {**request, "format": row_format, "columns": list(columns)}
            if dialect != _STANDARD:
                request["dialect"] = asdict(dialect)
            finish = None
            if row_format == "xlsx":
                finish = partial(write_workbook, columns=columns)
            with resumable_output(path, request, finish) as rows:
                writer = RowWriter(rows, row_format, columns, dialect=dialect)
                yield RowOutput(writer, rows, added)


class RowOutput:
    """Takes batches of rows; those that an interrupted command has written are read back."""

    def __init__(
        self,
        writer: RowWriter | None,
        rows: ResumableRows | None = None,
        added: Sequence[str] = (),
    ):
        self._writer, self._rows, self._added = writer, rows, added

    def sizes(self) -> Iterator[int]:
        """Yield the sizes of the batches that have been written, one before each is taken."""
        return iter(()) if self._rows is None else self._rows.sizes()

    def take(self, rows: Sequence[Record]) -> list[dict[str, Any]] | None:
        """Return what was added to the next rows; None if they have not been written yet."""
        written = None if self._rows is None else self._rows.take(rows)
        if written is None or self._writer is None:
            return None
        return self._writer.read_back(written, self._added)

    def write(self, rows: Sequence[Record]) -> None:
        """Write the rows of a batch."""
        if self._writer is not None:
            for row in rows:
                self._writer.write(row, row.place)
            self._writer.flush()


def _format_of(path: Path | str | None) -> RowFormat:
    suffix = ".jsonl" if path is None else Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise InputError(
            f"--output {path}: the name must end in {', '.join(_FORMATS)}; or give --format"
        )
    return _FORMATS[suffix]
