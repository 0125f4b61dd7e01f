"""The rows of a run, metrics.jsonl: one JSON object a line, written as the run goes on."""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import open_work, write_content

_MOST_ROW_BYTES = 1 << 20

log = logging.getLogger(__name__)


class RowWriter:
    """Appends rows to a file; each is flushed as it is written.

    `keep_rows` first drops what an earlier start of the run wrote after its checkpoint.
    """

    def __init__(self, path: Path):
        self._file = open_work(path, "a", encoding="utf-8")

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row; an OSError names the file."""
        try:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        except OSError as error:
            error.filename = self._file.name
            raise

    def close(self) -> None:
        with suppress(OSError):  # a failed write was reported when it happened
            self._file.close()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read a metrics file without lines that a kill cut short; InputError for other faults."""
    return [row for _, row in _rows_of(path)]


def keep_rows(path: Path, last_step: int) -> None:
    """Drop the rows beyond `last_step`, and incomplete lines; InputError as for `read_rows`."""
    if not path.exists() or os.path.getsize(path) == 0:
        return
    rows = b"".join(line + b"\n" for line, row in _rows_of(path) if row["step"] <= last_step)
    write_content(path, rows, None)


def _rows_of(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    damaged = 0  # the previous line's number if damaged; a last line that a kill tore is ignored
    for number, line in enumerate(_lines_of(path), start=1):
        if damaged:
            log.warning(f"{path}: line {damaged} is damaged; left out")
        damaged = 0
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):  # neither UTF-8 nor JSON, or too large or deep
            damaged = number
            continue
        if not isinstance(row, dict) or type(row.get("step")) is not int:
            raise InputError(f"{path}: line {number} is not a row of metrics; remove it")
        yield line.rstrip(b"\r\n"), row


def _lines_of(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file; an empty one for a line that is too long for a row."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        while line := file.readline(_MOST_ROW_BYTES):
            rest = line
            while not rest.endswith(b"\n") and len(rest) == _MOST_ROW_BYTES:
                rest = file.readline(_MOST_ROW_BYTES)
            yield line if rest is line else b""
