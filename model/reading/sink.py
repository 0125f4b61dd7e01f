"""Where rows go: a file, complete or not at all, or standard output."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files.writer import STDOUT, is_stream, open_stream, path_in_oserrors
from .records import Record
from .resumable_rows import ResumableRows, resumable_output
from .row_files import RowFormat, RowWriter

_FORMATS: dict[str, RowFormat] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}


@dataclass(frozen=True)
class Sink:
    """A .jsonl or .csv file for rows, complete or not at all, or standard output.

    >>> sink = Sink("labelled.csv")

    path: the file; None: standard output. format: jsonl or csv. Default: by the suffix of the
    path. An error or an interruption leaves the rows so far in PATH.partial; the same call
    continues after them.
    """

    path: Path | str | None = None
    format: RowFormat | None = None

    def __post_init__(self) -> None:
        if self.format is None:
            object.__setattr__(self, "format", _format_of(self.path))
        if self.format not in _FORMATS.values():
            raise InputError(f"format is {self.format!r}; it must be jsonl or csv")

    @contextmanager
    def open(
        self,
        request: Mapping[str, Any],
        columns: Sequence[str],
        added: Sequence[str],
        *,
        mark: bool = False,
    ) -> Iterator["RowOutput"]:
        """Open it for rows that end with the values named `added`.

        request: all that these values depend on, except the rows of the input. columns: of CSV; []
        takes those of the first row. mark: whether CSV begins with a byte order mark.
        """
        row_format = self.format or "jsonl"
        path = None if self.path is None else Path(self.path)
        if path is None:
            if sys.stdout is None:
                raise InputError("standard output is closed; name a file with --output")
            with path_in_oserrors(Path(STDOUT)):
                yield RowOutput(RowWriter(sys.stdout.buffer, row_format, columns, mark=mark))
        elif is_stream(path):
            with path_in_oserrors(path), open_stream(path) as file:
                yield RowOutput(RowWriter(file, row_format, columns, mark=mark))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            request = {**request, "format": row_format, "columns": list(columns)}
            with resumable_output(path, request) as rows:
                writer = RowWriter(rows, row_format, columns, mark=mark)
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
    """Return the format that the name of a file asks for."""
    suffix = ".jsonl" if path is None else Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise InputError(
            f"--output {path}: the name must end in {', '.join(_FORMATS)}; or give --format"
        )
    return _FORMATS[suffix]
