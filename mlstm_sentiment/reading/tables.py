"""Tables: CSV and TSV by Python's csv, Parquet and Feather by pyarrow, in bounded memory."""

import csv
import re
import warnings
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import StringIO, TextIOWrapper
from itertools import islice, zip_longest
from threading import Lock
from typing import IO, Any, Literal, NamedTuple

from ..errors import InputError, brief, imported
from .columns import (
    NUMBER,
    UNNAMED,
    choose_text,
    extra_header_rows,
    header_is_a_row,
    lines_above_header,
)
from .inputs import LONGEST_RECORD, TOO_LONG, TableOptions

_MOST_COLUMNS = 100_000
MOST_ROWS = 4000  # parsed together
_BATCH_BYTES = 64 << 20  # limit of the Parquet rows that are read at once
_SAMPLE, _SAMPLE_LINES = 1 << 20, 10_000  # characters and lines that show how it is written
_USUAL_CELL = 131_072  # characters of a cell that csv reads unless its limit is changed
_SNIFFED = 50  # records that show the delimiter
_SAMPLED = 200  # rows that show which column is the text
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
_EXCEL_NOTE = re.compile(r"\s*sep=(.)\r?\n", re.IGNORECASE)  # names the delimiter
_MARK = "\ufeff"
# How JSON and HTML begin; as a table, their first line would be the header.
_OTHER_TEXT = re.compile(r"""\[?\s*\{\s*["'}]|<(!doctype|html|\?xml|table)\b""", re.IGNORECASE)
_NAME = r"\w+([ _.-]\w+){0,2}"  # of a column, up to three words
_Quotes = Literal["standard", "none", "backslash"]
_QUOTES_NAMES = {
    "standard": "",
    "none": "quotes as characters",
    "backslash": "quotes after backslashes",
}
_ESCAPED_QUOTE = re.compile(r'(?<!\\)((?:\\\\)*)\\"')
_UNQUOTED = "--quoting none treats quotes as ordinary characters"


class Record(dict[str, Any]):
    """One row, with what is known of it.

    place: where it is in its file, for people, as an editor numbers it. repaired: whether it held
    bytes that are not UTF-8. has_names: whether its keys are the input's own; a line of text has
    none. table: its table, if it is a row of one.
    """

    table: "TableReport | None" = None

    def __init__(
        self,
        cells: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        place: str = "",
        *,
        repaired: bool = False,
        has_names: bool = True,
    ):
        super().__init__(cells)
        self.place, self.repaired, self.has_names = place, repaired, has_names


@dataclass
class TableReport:
    """How records are read, and what has been found in them so far."""

    location: str
    description: str = ""  # such as "semicolon, cp1252"
    rows: int = 0
    short_rows: int = 0  # those with fewer cells than the header
    bad_rows: int = 0  # those with more, which were left out
    repeated_headers: int = 0  # rows that equal it, as in files that were joined
    mojibake: int = 0  # texts that were read in a wrong encoding before
    spanning: int = 0  # rows of one cell in quotes that spans lines
    text: str | None = None  # the column of the text
    doubt: str = ""  # why the user must name it, and how
    header_place: str = ""
    lines_above: int = 0  # rows above the header, which belong to nothing
    header_rows: int = 0  # rows below the header that belong to it
    has_header: bool = True  # else the first line is a row, and columns are named by their place
    delimiter: str = ","
    is_table: bool = True  # else rows of JSON, which have no header
    notes: tuple[str, ...] = ()  # what else a person should know

    def __post_init__(self) -> None:
        self._sample: list[Record] = []  # the first rows, until they show the text

    def left_out(self) -> list[str]:
        """Return in words what is not among the rows, or not as it was written."""
        repeated = self.repeated_headers if self.has_header else 0
        verb = "repeats" if repeated == 1 else "repeat"
        counts = {
            "{} above the header left out": counted(self.lines_above, "line"),
            "{} below the header left out, which belong to it": counted(self.header_rows, "row"),
            "{} with too few cells": f"{self.short_rows:,}",
            "{} with too many cells left out": f"{self.bad_rows:,}",
            f"{{}} {verb} the header": f"{repeated:,}",
            "{} in quotes over several lines": counted(self.spanning, "cell"),
        }
        parts = [] if self.has_header else ["no header: the first line is a row"]
        parts += [words.format(n) for words, n in counts.items() if n.split()[0] != "0"]
        if self.mojibake:
            parts.append(
                f"{counted(self.mojibake, 'text')} with characters such as \u00e2\u20ac\u2122: "
                "UTF-8 that was once read as cp1252; export it again as UTF-8"
            )
        return [*parts, *self.notes]

    def sampled(self, rows: Iterator[Record], *, strict: bool = True) -> Iterator[Record]:
        """Yield rows; the first ones show the column of the text, and what is header.

        Of JSON, which may come in several calls, each row may be the one that shows it. strict:
        whether bytes that are not UTF-8 are refused before; else rows with U+FFFD are marked as
        repaired.
        """

        def counted_row(row: Record) -> Record:
            self.rows += 1
            row.table = self
            row.repaired |= not strict and any("\ufffd" in str(v) for v in row.values())
            return row

        first, size, error = list[Record](), 0, None
        try:
            for row in rows:
                first.append(row)
                size += sum(len(value) for value in row.values() if isinstance(value, (str, bytes)))
                if len(first) == _SAMPLED or size > LONGEST_RECORD:
                    break
        except InputError as raised:  # after the rows before it
            error = raised
        names = list(dict.fromkeys(name for row in first for name in row))
        if self.is_table and first:
            self.header_rows = extra_header_rows(names, first)
            first = first[self.header_rows :]
            cells = [_written_name(name, names) for name in names]
            if header_is_a_row(names, first, cells):
                self.has_header = False
                by_place = {name: f"column {number}" for number, name in enumerate(names, start=1)}
                rows = (_renamed(row, by_place) for row in rows)
                first = [_renamed(row, by_place) for row in first]
                header = zip(by_place.values(), cells, strict=True)
                first.insert(0, Record(header, self.header_place or self.location))
        self._choose(first)
        yield from map(counted_row, first)
        if error is not None:
            raise error
        for row in rows:
            if not self.is_table:  # rows of JSON may differ
                self._choose([row])
            yield counted_row(row)

    def _choose(self, rows: Sequence[Record]) -> None:
        """Choose the column of the text by these rows and those before, unless it is chosen."""
        if self.text is not None or len(self._sample) >= _SAMPLED or not rows:
            return
        self._sample += rows
        flat = self._sample if self.is_table else [flattened(row) for row in self._sample]
        choice = choose_text(list(dict.fromkeys(name for row in flat for name in row)), flat)
        self.text = choice.column
        if choice.column is None:
            self.doubt = choice.question("--text-key")
        elif choice.column.startswith(UNNAMED):
            self.text = None
            self.doubt = (
                f"the column of text is {choice.column!r}, without a name; remove the lines above "
                "the header, add the name, or give --text-key"
            )


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _renamed(row: Record, names: Mapping[str, str]) -> Record:
    return Record(((names[name], cell) for name, cell in row.items()), row.place)


def flattened(row: Mapping[str, Any], prefix: str = "", depth: int = 3) -> dict[str, Any]:
    """Return the values of a row, those of an object in it by names such as review.text."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict) and value and depth:
            flat |= flattened(value, f"{prefix}{name}.", depth - 1)
        else:
            flat[f"{prefix}{name}"] = value
    return flat


class _LongCells:
    """Lets csv read cells as long as a record may be.

    Its limit is one of the process: the first thread that needs another one changes it, and the
    last one restores it.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._before = Lock(), 0, 0

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = csv.field_size_limit(LONGEST_RECORD)
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                csv.field_size_limit(self._before)


_long_cells = _LongCells()
_warnings_lock = Lock()


@contextmanager
def no_warnings(kind: type[Warning] = Warning) -> Iterator[None]:
    """Ignore warnings of a kind; in one thread at a time, since their filters are the process's."""
    with _warnings_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", kind)
        yield


class _Lines:
    """The lines of a text, each with its end: LF, CR LF or CR.

    lines: at most a little longer than a record may be. A record that is too long is an
    InputError. location: names the input in errors.
    """

    def __init__(self, lines: Iterator[str], location: str):
        self._lines, self._location = lines, location
        self._ahead = deque[str]()  # lines that have been looked at
        self.number = 0  # of lines taken
        self.record: list[str] = []  # lines taken since the last record ended
        self._size = 0  # characters of these
        self._is_long = False  # whether a cell in it may be

    @property
    def place(self) -> str:
        """Where the record begins."""
        return f"{self._location}, line {self.number + 1 - len(self.record)}"

    def sample(self) -> str:
        """Return the first lines without consuming them; blank ones before are taken."""
        size = 0
        for line in self._lines:
            if not self._ahead and not line.strip(" \r\n"):
                self.number += 1
                continue
            self._ahead.append(line)
            size += len(line)
            if size > _SAMPLE or len(self._ahead) == _SAMPLE_LINES:
                break
        return "".join(self._ahead)

    def records(self, reader: Iterator[list[str]], delimiter: str) -> Iterator[list[str]]:
        """Yield the cells that a reader of these lines finds in records that are not blank."""
        blank = " \r\n" if delimiter == "\t" else " \t\r\n"
        while True:
            self.record, self._size = [], 0
            try:
                cells = next(reader, None)
            finally:
                if self._is_long:
                    self._is_long = False
                    _long_cells.leave()
            if cells is None:
                return
            if any(line.strip(blank) for line in self.record):  # an empty cell in quotes is a row
                yield cells

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._ahead.popleft() if self._ahead else next(self._lines)
        if not self.record:
            line = line.lstrip(_MARK)  # of files that were joined
        self.number += 1
        self.record.append(line)
        self._size += len(line)
        if self._size > LONGEST_RECORD:
            hint = f"; a quote may be open; {_UNQUOTED}" if self.record[1:] else ""
            raise InputError(f"{self.place}: {TOO_LONG}{hint}")
        if self._size > _USUAL_CELL and not self._is_long:
            self._is_long = True
            _long_cells.enter()
        return line


def text_lines(file: IO[bytes], errors: str) -> Iterator[str]:
    """Yield the lines of a file of UTF-8; of one that is too long for a record, its beginning.

    errors: what is done about bytes that are not UTF-8, as for `bytes.decode`.
    """
    text = TextIOWrapper(file, "utf-8", errors, newline="")
    try:
        yield from iter(partial(text.readline, LONGEST_RECORD + 2), "")
    finally:
        if not file.closed:  # by its owner
            text.detach()


class DelimitedRows:
    """The rows of delimited text below its header.

    A short row has None for missing cells. Rows that are short or repeat the header are counted; a
    blank line is not a row. Raises InputError, with the line, for a row that is too long or has too
    many cells, for a quote that is not closed or swallows rows, and for a missing header or one of
    JSON or HTML.

    lines: with their ends.
    """

    def __init__(
        self, lines: Iterator[str], table: TableReport, options: TableOptions, delimiter: str
    ):
        self.table, self.options = table, options
        self._lines = _Lines(lines, table.location)
        self._usual = delimiter
        self._seen: list[set[str]] = []  # values of each column in the first rows

    def __iter__(self) -> Iterator[Record]:
        dialect = self._sniff()
        self.table.delimiter = dialect.delimiter
        names: list[str] = []
        for number, cells in enumerate(self._records(dialect)):
            if number < self.table.lines_above:
                continue
            place = self._lines.place
            if not names:
                names, self.table.header_place = self._header(cells), place
                self._seen = [set() for _ in names]
                continue
            if len(cells) > len(names):
                if self.options.bad_rows == "skip":
                    self.table.bad_rows += 1
                    continue
                way_out = "--bad-rows skip leaves such rows out"
                if len(names) == 1 and dialect.delimiter != "\t":
                    way_out = f"--delimiter tab reads lines of one column whole, {way_out}"
                raise InputError(
                    f"{place}: {len(cells)} cells, but the header has {len(names)}: not a "
                    f"table, or a text that contains the delimiter is not quoted; {way_out}"
                )
            self.table.short_rows += len(cells) < len(names)
            self.table.repeated_headers += cells == names
            self.table.spanning += len(names) == 1 and len(self._lines.record) > 1
            if dialect.quotes != "none" and self.options.quoting == "auto":
                self._check_swallowed(cells, dialect.delimiter)
            yield Record(zip_longest(names, cells), place)
        if not names:
            raise InputError(f"{self.table.location}: the input is empty: not even a header")

    def _records(self, dialect: "_Dialect") -> Iterator[list[str]]:
        try:
            yield from self._lines.records(dialect.reader(self._lines), dialect.delimiter)
        except csv.Error as error:
            what = (
                "not a table (a quote is open from here to the end of the file); close it"
                if "unexpected end" in str(error)
                else "not a table: the quoted cell that begins here is not closed, or has a quote "
                "in it that is not doubled"
            )
            raise InputError(f"{self._lines.place}: {what}; {_UNQUOTED}") from error

    def _header(self, cells: Sequence[str]) -> list[str]:
        place = f"{self.table.location}, line {self._lines.number}"
        if len(cells) > _MOST_COLUMNS:
            raise InputError(f"{place}: not a table ({len(cells):,} columns)")
        if match := _OTHER_TEXT.match("".join(self._lines.record)):
            kind = "HTML or XML; save it as CSV" if match[1] else "JSON; rename it to end in .json"
            raise InputError(f"{place}: not a table; it begins like {kind}")
        return column_names(cells)

    def _sniff(self) -> "_Dialect":
        """Return the delimiter and the quotes, as asked or as the text looks.

        Also counts the lines above the header.
        """
        sample = self._lines.sample().lstrip(_MARK)
        delimiter = self.options.delimiter
        if note := _EXCEL_NOTE.match(sample):
            delimiter = delimiter or note[1]
            for _ in StringIO(note[0], newline=""):
                next(self._lines)
            sample = sample[note.end() :]
        quotes: _Quotes = "standard"
        if not (is_auto := self.options.quoting == "auto"):
            quotes = self.options.quoting
        elif _is_escaped(sample, delimiter or self._delimiter_of(sample, quotes)):
            quotes = "backslash"
        delimiter = delimiter or self._delimiter_of(sample, quotes)
        if is_auto and delimiter == "\t" and note is None and _fits_only_unquoted(sample):
            quotes = "none"
        dialect = _Dialect(delimiter, quotes)
        self.table.lines_above = lines_above_header(dialect.first_records(sample))
        name = DELIMITERS.get(delimiter, repr(delimiter))
        parts = (name, _QUOTES_NAMES[quotes], self.table.description)
        self.table.description = ", ".join(filter(None, parts))
        return dialect

    def _delimiter_of(self, sample: str, quotes: "_Quotes") -> str:
        """Return the delimiter that splits most first records like the header, or the usual one."""
        ranks: dict[str, Any] = {}  # of the possible ones; a larger rank is more likely
        for delimiter in DELIMITERS:
            records = _Dialect(delimiter, quotes).first_records(sample)
            records = records[lines_above_header(records) :]
            widths = list(map(len, records))
            if widths and 1 < widths[0] <= _MOST_COLUMNS:
                names = records[0]
                is_sensible = any(names) and all(name == name.strip() for name in names)
                fitting = widths.count(widths[0]) / len(widths)
                is_usual = delimiter == self._usual
                if is_usual or (is_sensible and fitting > 0.8):
                    ranks[delimiter] = (is_sensible, fitting > 0.5, is_usual, fitting, widths[0])
        if ranks:
            return max(ranks, key=ranks.__getitem__)
        header = next(filter(str.strip, StringIO(sample, newline="")), "").rstrip("\r\n")
        for other in DELIMITERS if self._usual not in header else ():
            parts = header.split(other)
            if len(parts) > 1 and all(part and part == part.strip() for part in parts):
                return other  # though not all records fit: an error says where
        return self._usual

    def _check_swallowed(self, cells: Sequence[str], delimiter: str) -> None:
        """Raise InputError for a quoted cell that seems to have swallowed several rows.

        Each of its lines has the header's number of cells, and in some column all of them are
        numbers or values of earlier rows.
        """
        lines = self._lines.record
        if len(lines) == 1:
            if self._lines.number <= MOST_ROWS:
                for values, cell in zip(self._seen, cells, strict=False):
                    values.add(cell)
            return
        parts = [line.rstrip("\r\n").split(delimiter) for line in lines]
        if len(self._seen) == 1 or any(len(each) != len(self._seen) for each in parts):
            return
        for values, column in zip(self._seen, zip(*parts, strict=True), strict=True):
            if set(column) <= values - {""} or all(map(NUMBER.fullmatch, column)):
                raise InputError(
                    f"{self._lines.place}: a quoted cell spans {len(lines)} lines, each "
                    f"of which looks like a row; {_UNQUOTED}; if it is one cell, give --quoting "
                    "standard"
                )


class _Dialect(NamedTuple):
    """How delimited text is written."""

    delimiter: str
    quotes: _Quotes

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        if self.quotes == "backslash":
            lines = (_ESCAPED_QUOTE.sub(r'\1""', line) for line in lines)
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quoting=csv.QUOTE_NONE if self.quotes == "none" else csv.QUOTE_MINIMAL,
            strict=True,
        )

    def records(self, lines: Iterable[str]) -> Iterator[list[str]]:
        counted = _Lines(iter(lines), "")
        return counted.records(self.reader(counted), self.delimiter)

    def first_records(self, text: str) -> list[list[str]]:
        """Return the first records of a text, up to a malformed one."""
        first: list[list[str]] = []
        with suppress(csv.Error, InputError):
            first.extend(islice(self.records(StringIO(text, newline="")), _SNIFFED))
        return first


def _is_escaped(text: str, delimiter: str) -> bool:
    """Whether the lines with a quote after a backslash are records only if it is escaped by it."""
    if not _ESCAPED_QUOTE.search(text):
        return False
    lines = [line for line in StringIO(text, newline="") if _ESCAPED_QUOTE.search(line)]

    def fit(quotes: _Quotes) -> bool:
        with suppress(csv.Error, InputError):  # a line may be too long
            for line in lines[:_SNIFFED]:
                list(_Dialect(delimiter, quotes).records([line]))
            return True
        return False

    return not fit("standard") and fit("backslash")


def probable_delimiter(text: str) -> str | None:
    """Return the delimiter of a text whose first records look like a table, None if they do not.

    All have the same number of cells, and, unless these are separated by tabs, there are at least
    three, the first of which may be a header.
    """
    for delimiter in DELIMITERS:
        records = _Dialect(delimiter, "standard").first_records(text)
        widths = set(map(len, records))
        is_even = len(records) > 1 and len(widths) == 1 and widths != {1}
        if is_even and (delimiter == "\t" or (len(records) > 2 and names_columns(records[0]))):
            return delimiter
    return None


def _fits_only_unquoted(text: str) -> bool:
    """Whether all lines have as many cells as the header, but some only if quotes are plain."""
    lines = [line for line in StringIO(text, newline="") if line.strip(" \r\n")]
    widths = {line.count("\t") + 1 for line in lines}
    if len(widths) != 1 or widths == {1}:
        return False
    return any(
        [len(row) for row in _Dialect("\t", "standard").first_records(line)] != [*widths]
        for line in lines
        if '"' in line
    )


def names_columns(cells: Sequence[str]) -> bool:
    """Whether the cells of a first line may be names of columns, two or more."""
    return len(cells) > 1 and all(re.fullmatch(_NAME, cell.strip('"')) for cell in cells)


def column_names(header: Sequence[str]) -> list[str]:
    """Return names that differ: a blank one is named by its place, a repeated one numbered."""
    counts, taken = Counter[str](), set(header)
    names = []
    for number, cell in enumerate(header):
        name = base = cell or f"{UNNAMED}{number}"
        counts[base] += 1
        while counts[base] > 1 and name in taken:
            name = f"{base} ({counts[base]})"
            counts[base] += name in taken
        taken.add(name)
        names.append(name)
    return names


def _written_name(name: str, names: Collection[str]) -> str:
    """Return the cell of the header that `column_names` gave a name."""
    base = re.sub(r" \(\d+\)$", "", name)
    return "" if name.startswith(UNNAMED) else base if base in names else name


def columnar_rows(file: IO[bytes], location: str, kind: str) -> Iterator[Record]:
    """Yield the rows of a Parquet or Feather file; bytes that are UTF-8 become text.

    The sizes in the file's description decide how many rows are read at once. Columns with one name
    are numbered. Raises InputError for a file that is damaged, and for a row that is too long.
    """
    pyarrow = imported("pyarrow", f"{kind} files need")
    name = "Parquet" if kind == ".parquet" else "Feather"
    if not file.seekable():
        raise InputError(
            f"{location}: a {name} file cannot be read from a stream; decompress it first"
        )
    try:
        number = 0
        for batch in (_parquet if kind == ".parquet" else _feather)(file, location):
            for row in _rows(batch, location):
                number += 1
                length = sum(len(cell) for cell in row.values() if isinstance(cell, str))
                place = f"{location}, row {number}"
                if length > LONGEST_RECORD:
                    raise InputError(f"{place}: {TOO_LONG}")
                yield Record(row, place)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{location}: not a {name} file, or damaged ({brief(error)}); get it again"
        ) from error


def _rows(batch: Any, location: str) -> list[dict[str, Any]]:
    from pyarrow import ArrowException, types

    batch = batch.rename_columns(column_names(batch.schema.names))
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except (ArrowException, UnicodeDecodeError) as error:
        if "zoneinfo" not in str(error):  # damage
            raise
        raise InputError(
            f"{location}: a column of times has a time zone that is unknown here, such as one of "
            "Windows; convert it to UTC, or leave the column out"
        ) from error
    except (ValueError, OverflowError) as error:  # such as a time beyond the year 9999
        raise InputError(
            f"{location}: a value that Python cannot hold ({brief(error)}); leave its column out"
        ) from error
    for column in batch.schema:
        if types.is_binary(column.type) or types.is_large_binary(column.type):
            for row in rows:
                row[column.name] = _as_text(row[column.name])
    return rows


def _as_text(value: bytes | None) -> str | bytes | None:
    try:
        return value if value is None else value.decode()
    except UnicodeDecodeError:
        return value


def _feather(file: IO[bytes], location: str) -> Iterator[Any]:
    from pyarrow import ipc

    source = ipc.open_file(file)
    for number in range(source.num_record_batches):
        batch = source.get_batch(number)
        batch.validate(full=True)  # a damaged file may give a text a negative length
        for start in range(0, batch.num_rows, MOST_ROWS):
            yield batch.slice(start, MOST_ROWS)


def _parquet(file: IO[bytes], location: str) -> Iterator[Any]:
    from pyarrow import ArrowInvalid, parquet

    source = parquet.ParquetFile(file)
    for number in range(source.num_row_groups):
        group = source.metadata.row_group(number)
        described, expected = group.num_columns, source.metadata.num_columns
        if described != expected:
            raise ArrowInvalid(f"row group {number} has {described} columns, not {expected}")
        # For a damaged column, pyarrow raises on reading it, and ends the process on describing it.
        next(source.iter_batches(1, row_groups=[number]), None)
        count = _BATCH_BYTES * group.num_rows // max(group.total_byte_size, 1)
        yield from source.iter_batches(min(max(count, 1), MOST_ROWS), row_groups=[number])
