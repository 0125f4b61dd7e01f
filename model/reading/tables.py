"""Reading CSV and TSV row by row, in bounded memory."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from ..errors import InputError
from .inputs import LONGEST_RECORD, TOO_LONG

MOST_COLUMNS = 100_000
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}


class TableLines:
    """The lines of a table as csv.reader takes them, and after them a row of two empty cells.

    That row is read whole, unless a quote is still open: then it becomes part of a cell.
    """

    def __init__(self, lines: Iterable[str], delimiter: str, location: str):
        self.lines, self.delimiter, self.location = lines, delimiter, location
        self.number = 0
        self.line = ""  # the last one
        self.first = 1  # first line of the current row; its reader sets it and `characters`
        self.characters = 0  # since the last row
        self.has_header = False  # among the rows so far; their reader sets it
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.number += 1
            self.line = line
            self.characters += len(line)
            if self.characters > LONGEST_RECORD:
                place = f"{self.location}, line {self.first}"
                raise InputError(f"{place}: {TOO_LONG}; a quote may be open")
            yield line
        self.ended = True
        yield self.delimiter

    @property
    def place(self) -> str:
        """The place of the last line, for messages."""
        return f"{self.location}, line {self.number}"


def table_rows(
    lines: Iterable[str], delimiter: str, location: str
) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Yield the rows below the header, each with the number of its last line.

    lines: with their ends, as from files opened with newline="". A short row has None for missing
    cells; a blank line is not a row. Raises InputError for a row that is too long or has too many
    cells, for an open quote, and for a missing header.
    """
    csv.field_size_limit(LONGEST_RECORD)  # Python's own limit is 128 KiB
    numbered = TableLines(lines, delimiter, location)
    names: list[str] = []
    for row in _rows(numbered, delimiter):
        if numbered.ended:
            break
        numbered.first, numbered.characters = numbered.number + 1, 0
        if not row or (len(row) == 1 and is_blank(row[0], numbered.line)):
            continue
        if names:
            yield numbered.number, _named(row, names, numbered.place)
        else:
            names = column_names(row, numbered.place)
            check_delimiter(names, delimiter, numbered.place)
            numbered.has_header = True
    if not names:
        raise InputError(f"{location}: the input is empty: not even a header")


def is_blank(cell: str, line: str) -> bool:
    """Whether the only cell of a row is that of a blank line; a quoted blank is a value."""
    return bool(cell) and not cell.strip(" \t") and '"' not in line


def _rows(numbered: TableLines, delimiter: str) -> Iterator[list[str]]:
    """Yield the rows, the last of two empty cells; InputError for a quote that is no end of a cell.

    A lenient reader would take the next rows into the cell.
    """
    try:
        yield from csv.reader(numbered, delimiter=delimiter, strict=True)
    except csv.Error as error:
        if numbered.ended:
            raise InputError(
                f"{numbered.location}, line {numbered.first}: not a table (a quote is open from "
                "here to the end of the file); close it"
            ) from error
        if not numbered.has_header:
            check_quoted_header(numbered.line, delimiter, numbered.place)
        raise InputError(
            f"{numbered.place}: not a table ({error}): the quote of a cell that begins in line "
            f"{numbered.first} is not closed, or there is one within it, which must be doubled"
        ) from error


def check_delimiter(names: Sequence[str], delimiter: str, place: str) -> None:
    """Raise InputError for a header with another delimiter, or for Excel's line that names one.

    It has another one if the only column's name looks like several names.
    """
    if re.fullmatch("sep=.?", names[0]):
        raise InputError(f"{place}: a note for Excel, not a header; remove this line")
    for other in DELIMITERS.keys() - {delimiter}:
        parts = names[0].split(other) if len(names) == 1 else []
        if len(parts) > 1 and all(part and part == part.strip() for part in parts):
            raise InputError(_misread(names[0], delimiter, other, place))


def check_quoted_header(line: str, delimiter: str, place: str) -> None:
    """Raise InputError if the line of a header has several names with another delimiter.

    In this line a quote ends before the end of a cell.
    """
    for other in DELIMITERS.keys() - {delimiter}:
        with suppress(csv.Error):
            if len(next(csv.reader([line], delimiter=other, strict=True), [])) > 1:
                raise InputError(_misread(line.strip(), delimiter, other, place))


def _misread(header: str, delimiter: str, other: str, place: str) -> str:
    """Return the message for a header whose names another delimiter separates."""
    mend = ", or let its name end in .tsv" if other == "\t" else ""
    return (
        f"{place}: one column, {header!r}: its cells are separated by {DELIMITERS[other]}, not by "
        f"{DELIMITERS[delimiter]}; save it with {DELIMITERS[delimiter]}{mend}"
    )


def column_names(header: Sequence[str], place: str) -> list[str]:
    """Return the header's names after `check_names`; blank ones are named by their place."""
    if len(header) > MOST_COLUMNS:
        raise InputError(f"{place}: not a table ({len(header):,} columns)")
    names = [name or f"Unnamed: {number}" for number, name in enumerate(header)]
    check_names(names, place)
    return names


def check_names(names: Sequence[str], place: str) -> None:
    """Raise InputError for two columns with one name, since either could be meant."""
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise InputError(f"{place}: {count} columns are named {name!r}; rename all but one")


def _named(row: Sequence[str], names: Sequence[str], place: str) -> dict[str, str | None]:
    if len(row) > len(names):
        raise InputError(
            f"{place}: {len(row)} cells where the header has {len(names)}: not a table, or a text "
            "with the delimiter in it needs quotes"
        )
    return dict(zip(names, [*row, *[None] * (len(names) - len(row))], strict=True))
