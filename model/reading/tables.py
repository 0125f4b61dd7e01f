"""Tables: CSV, TSV and workbooks through pandas, Parquet and Feather in batches of pyarrow.

All are read some rows at a time, in bounded memory, except workbooks, whose size is limited.
"""

import csv
import io
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, NamedTuple

from ..errors import InputError, brief
from .inputs import LONGEST_RECORD, MOST_UNPACKED, SURE_UNPACKED, TOO_LONG, TableOptions

MOST_COLUMNS = 100_000
MOST_ROWS = 4000  # parsed together
MOST_CELLS = 1 << 20
BATCH_BYTES = 64 << 20  # limit of the Parquet rows that are read at once
PIECE = 1 << 20  # characters read at a time
SNIFFED = 50  # records that show the delimiter
SAMPLED = 200  # rows that show which column is prose
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
LINE_END = re.compile(r"\r\n?|\n")
EXCEL_NOTE = re.compile(r"\s*sep=(.)\r?\n", re.IGNORECASE)  # names the delimiter
NUMBER = re.compile(r"\s*[+-]?\d+([.,]\d+)?\s*")
MARK = "\ufeff"
# How JSON and HTML begin; as a table, their first line would be the header.
OTHER_TEXT = re.compile(r"""\[?\s*\{\s*["'}]|<(!doctype|html|\?xml|table)\b""", re.IGNORECASE)
NAME = r"\w+([ _.-]\w+){0,2}"  # of a column, up to three words
UNNAMED = "Unnamed: "  # and the place of a column without a name
UNQUOTED = "--quoting none treats quotes as ordinary characters"

TableRow = dict[str, Any]


@dataclass
class TableReport:
    """What was assumed of a table, and what was found in it so far."""

    location: str
    description: str = ""  # such as "semicolon, cp1252"
    rows: int = 0
    short_rows: int = 0  # those with fewer cells than the header
    repeated_headers: int = 0  # rows that equal it, as in files that were joined
    prose: str | None = None  # the one column that is clearly prose
    header_fault: str = ""  # why its first line is no header, and what to do

    def sampled(self, rows: Iterator[TableRow]) -> Iterator[TableRow]:
        """Yield rows; the first ones show which column is prose, and whether there is a header."""
        first, size = list[TableRow](), 0
        for row in rows:
            first.append(row)
            size += sum(len(value) for value in row.values() if isinstance(value, (str, bytes)))
            if len(first) == SAMPLED or size > LONGEST_RECORD:
                break
        if first:
            names = list(first[0])
            self.prose = prose_column(first)
            if any(NUMBER.fullmatch(n) or len(n.split()) > 8 for n in names):
                self.header_fault = "its first line looks like a row; add a header"
            elif self.prose is not None and self.prose.startswith(UNNAMED):
                self.header_fault = (
                    f"the column of text is {self.prose!r}, without a name; remove the lines above "
                    "the header, add the name, or give --text-key"
                )
            if self.header_fault:
                self.prose = None
        yield from first
        yield from rows


def prose_column(rows: Sequence[TableRow]) -> str | None:
    """Return the one column that is clearly prose, None if there is none or no clear winner.

    Prose has three words a row or more, most of it letters, in at least half of the rows. A clear
    winner has twice as many words as any other column of prose.
    """
    words = dict[str, float]()
    for name in rows[0]:
        cells = [cell for row in rows if isinstance(cell := row.get(name), str) and cell.strip()]
        mean = sum(len(cell.split()) for cell in cells) / max(len(cells), 1)
        text = "".join(cells)
        letters = sum(map(str.isalpha, text)) / max(len(text), 1)
        if mean >= 3 and letters >= 0.6 and 2 * len(cells) >= len(rows):
            words[name] = mean
    ranked = sorted(words, key=words.__getitem__, reverse=True)
    if not ranked or (len(ranked) > 1 and words[ranked[0]] < 2 * words[ranked[1]]):
        return None
    return ranked[0]


class Dialect:
    """How cells are separated, and whether they may stand in quotes."""

    def __init__(self, delimiter: str, *, quoted: bool):
        self.delimiter, self.quoted = delimiter, quoted
        sign = re.escape(delimiter)
        plain = rf"[^{sign}\r\n]*+"
        cell = rf'(?:"(?:[^"]++|"")*+"|(?!"){plain})' if quoted else plain
        self._record = rf"(?:{cell}{sign})%s+{cell}(?:\r\n?|\n|\Z)"
        self.record = re.compile(self._record % "*")
        self.unclosed = re.compile(rf'(?:{cell}{sign})*+"(?:[^"]++|"")*+\Z')
        self._in_quotes = re.compile(rf'(?<![^{sign}])"(?:[^"]++|"")*+"')

    def record_of(self, width: int) -> re.Pattern[str]:
        """Return the pattern of a record of so many cells, two or more; it is not blank."""
        return re.compile(self._record % f"{{{width - 1}}}")

    def width(self, record: str) -> int:
        """Return how many cells a whole record has."""
        if self.quoted and '"' in record:
            record = self._in_quotes.sub("", record)
        return record.count(self.delimiter) + 1

    def is_blank(self, record: str) -> bool:
        """Whether a record is a blank line; a quoted blank is a value, and so is a delimiter."""
        if not record.isspace():
            return False
        return not record.strip(" \r\n" if self.delimiter == "\t" else " \t\r\n")

    def records(self, text: str) -> Iterator[str]:
        """Yield the first whole records of a text that are not blank, up to a malformed one."""
        at = 0
        while at < len(text) and (match := self.record.match(text, at)):
            at = match.end()
            if not self.is_blank(match[0]):
                yield match[0]

    def parse(self, records: Sequence[str], width: int) -> list[list[str]]:
        """Return the cells of whole records, `width` of each; missing ones are empty."""
        import pandas

        frame = pandas.read_csv(
            io.StringIO("".join(records), newline=""),
            sep=self.delimiter,
            quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE,
            header=None,
            names=range(width),
            index_col=False,
            dtype=object,
            na_filter=False,
            skip_blank_lines=False,
            engine="c",
        )
        cells: list[list[str]] = frame.to_numpy(dtype=object).tolist()
        if len(cells) != len(records):
            raise AssertionError(f"pandas reads {len(cells)} rows of {len(records)}")
        return cells


class WholeRecord(NamedTuple):
    """The text of a row, the number of its last line, and how many cells it has."""

    text: str
    line: int
    width: int


class DelimitedRows:
    """The rows of delimited text below its header, each with the number of its last line.

    A short row has None for missing cells. Rows that are short or repeat the header are counted; a
    blank line is not a row. Raises InputError, with the line, for a row that is too long or has too
    many cells, for a quote that is not closed or swallows rows, and for a missing header or one of
    JSON or HTML.

    read: returns about as many characters as asked for, fewer if no more have arrived, "" at the
    end. lines: opens the whole text once more, as lines; None if it cannot be read twice.
    """

    def __init__(
        self,
        read: Callable[[int], str],
        table: TableReport,
        options: TableOptions,
        delimiter: str,
        lines: Callable[[], Iterable[str]] | None = None,
    ):
        self.table, self.options = table, options
        self._read, self._again = read, lines
        self._text, self._at, self._ended = "", 0, False
        self._line = 0  # number of lines before `_at`
        self._usual = delimiter
        self.waiting = False  # whether parsed rows are still to be yielded

    def __iter__(self) -> Iterator[tuple[int, TableRow]]:
        dialect = self._sniff()
        names: list[str] = []
        line = 0  # the number of lines before the batch
        while batch := self._batch(dialect, len(names)):
            if not names:
                names = self._header(batch.pop(0), dialect)
                line = self._line
            if not batch:
                continue
            rows = dialect.parse([each.text for each in batch], len(names))
            is_longer, line = self._line - line > len(batch), self._line
            if is_longer and self.options.quoting == "auto" and dialect.quoted:
                self._check_swallowed(batch, rows, dialect)
            for number, (each, cells) in enumerate(zip(batch, rows, strict=True), start=1):
                self.waiting = number < len(batch)
                row: TableRow = dict(zip(names, cells, strict=True))
                if each.width < len(names):
                    row |= dict.fromkeys(names[each.width :])
                    self.table.short_rows += 1
                self.table.repeated_headers += cells == names
                yield each.line, row
        if not names:
            raise InputError(f"{self.table.location}: the input is empty: not even a header")

    def _place(self, line: int) -> str:
        return f"{self.table.location}, line {line}"

    def _header(self, record: WholeRecord, dialect: Dialect) -> list[str]:
        text, line, width = record
        if width > MOST_COLUMNS:
            raise InputError(f"{self._place(line)}: not a table ({width:,} columns)")
        if found := OTHER_TEXT.match(text):
            kind = "HTML or XML; save it as CSV" if found[1] else "JSON; rename it to end in .json"
            raise InputError(f"{self._place(line)}: not a table; it begins like {kind}")
        return column_names(dialect.parse([text], width)[0], self._place(line))

    def _extend(self) -> None:
        rest = self._text[self._at :]
        piece = self._read(max(PIECE, len(rest)))
        self._text, self._at, self._ended = rest + piece, 0, not piece

    def _batch(self, dialect: Dialect, width: int) -> list[WholeRecord]:
        """Return the next whole records that have arrived and are not blank.

        There is at least one unless the input has ended. width: of the table; 0 for the header,
        which is returned alone.
        """
        batch: list[WholeRecord] = []
        most = min(MOST_ROWS, MOST_CELLS // width + 1) if width else 1
        usual = dialect.record_of(width) if width > 1 else None
        size = 0
        while len(batch) < most and size < LONGEST_RECORD:
            while self._text.startswith(MARK, self._at):  # of files that were joined
                self._at += 1
            match = usual and usual.match(self._text, self._at)
            is_usual = match is not None
            match = match or dialect.record.match(self._text, self._at)
            end = match.end() if match else len(self._text)
            is_whole = end < len(self._text) or self._text.endswith("\n", self._at)
            if match is None or not (is_whole or self._ended):
                if batch:
                    break
                self._refuse_malformed(match, dialect)
                self._extend()
                continue
            record = match[0]
            if not record:
                break
            if len(record) > LONGEST_RECORD:
                self._check_length(len(record), is_open=False)
            line = self._line + line_ends(record) + (record[-1] not in "\r\n")
            cells = width if is_usual else dialect.width(record)
            if width and cells > width:
                if batch:
                    break
                raise InputError(
                    f"{self._place(line)}: {cells} cells, but the header has {width}: not a "
                    "table, or a text that contains the delimiter is not quoted"
                )
            self._at, self._line = end, line
            size += len(record)
            if is_usual or not dialect.is_blank(record):
                batch.append(WholeRecord(record, line, cells))
        return batch

    def _refuse_malformed(self, match: object, dialect: Dialect) -> None:
        """Raise InputError unless the rest of the record may be still to come."""
        is_open = match is None and dialect.unclosed.match(self._text, self._at) is not None
        place = self._place(self._line + 1)
        if match is None and not is_open:
            raise InputError(
                f"{place}: not a table: the quoted cell that begins here is not closed, or has a "
                f"quote in it that is not doubled; {UNQUOTED}"
            )
        if is_open and self._ended:
            raise InputError(
                f"{place}: not a table (a quote is open from here to the end of the file); close "
                f"it; {UNQUOTED}"
            )
        self._check_length(len(self._text) - self._at, is_open=is_open)

    def _check_length(self, length: int, *, is_open: bool) -> None:
        if length > LONGEST_RECORD:
            hint = "; a quote may be open" if is_open else ""
            raise InputError(f"{self._place(self._line + 1)}: {TOO_LONG}{hint}")

    def _sniff(self) -> Dialect:
        """Return how the text is delimited, as asked or as its first lines look."""
        while not self._ended and "\n" not in self._text.lstrip():
            if len(self._text) > LONGEST_RECORD:
                break
            self._extend()
        delimiter = self.options.delimiter
        if note := EXCEL_NOTE.match(self._text):
            delimiter = delimiter or note[1]
            self._at, self._line = note.end(), line_ends(note[0])
        sample = self._text[self._at :]
        if not self._ended:
            sample = sample[: sample.rfind("\n") + 1] or sample
        delimiter = delimiter or self._delimiter_of(sample)
        standard, plain = (Dialect(delimiter, quoted=each) for each in (True, False))
        is_plain = self.options.quoting == "none"
        if self.options.quoting == "auto" and delimiter == "\t" and self._at == 0:
            lines = self._again() if self._again else io.StringIO(sample, newline="")
            is_plain = fits_only_unquoted(lines, standard, plain)
        named = DELIMITERS.get(delimiter, repr(delimiter))
        self.table.description = ", ".join(
            filter(None, (named, "quotes as characters" * is_plain, self.table.description))
        )
        return plain if is_plain else standard

    def _delimiter_of(self, sample: str) -> str:
        """Return the delimiter that splits most first records like the header, or the usual one."""
        ranks = self._ranked(sample)
        if ranks:
            return max(ranks, key=ranks.__getitem__)
        header = next(filter(str.strip, LINE_END.split(sample)), "")
        for other in DELIMITERS if self._usual not in header else ():
            parts = header.split(other)
            if len(parts) > 1 and all(part and part == part.strip() for part in parts):
                return other  # though not all records fit: an error says where
        return self._usual

    def _ranked(self, sample: str) -> dict[str, Any]:
        """Return the possible delimiters with their ranks; a larger rank is more likely."""
        ranks = {}
        for delimiter in DELIMITERS:
            dialect = Dialect(delimiter, quoted=self.options.quoting != "none")
            records = [r for _, r in zip(range(SNIFFED), dialect.records(sample), strict=False)]
            widths = list(map(dialect.width, records))
            if widths and 1 < widths[0] <= MOST_COLUMNS:
                names = dialect.parse(records[:1], widths[0])[0]
                is_sensible = any(names) and all(name == name.strip() for name in names)
                fitting = widths.count(widths[0]) / len(widths)
                is_usual = delimiter == self._usual
                if is_usual or (is_sensible and fitting > 0.8):
                    ranks[delimiter] = (is_sensible, fitting > 0.5, is_usual, fitting, widths[0])
        return ranks

    def _check_swallowed(
        self, batch: Sequence[WholeRecord], rows: Sequence[Sequence[str]], dialect: Dialect
    ) -> None:
        """Raise InputError for a quoted cell that seems to have swallowed several rows.

        Each of its lines has the header's number of cells, and in some column all of them are
        numbers or values of other rows.
        """
        width = len(rows[0])
        long = {n for n, each in enumerate(batch) if '"' in each.text and line_ends(each.text) > 1}
        if width == 1 or not long:
            return
        others = [row for number, row in enumerate(rows) if number not in long]
        for number in sorted(long):
            lines = LINE_END.split(batch[number].text.rstrip("\r\n"))
            cells = [line.split(dialect.delimiter) for line in lines]
            if len(lines) == 1 or any(len(each) != width for each in cells):
                continue
            for column in range(width):
                values = {each[column] for each in cells}
                column_values = {row[column] for row in others}
                if values <= column_values - {""} or all(map(NUMBER.fullmatch, values)):
                    place = self._place(batch[number].line - len(lines) + 1)
                    raise InputError(
                        f"{place}: a quoted cell spans {len(lines)} lines, each of which "
                        f"looks like a row; {UNQUOTED}; if it is one cell, give --quoting standard"
                    )


def line_ends(text: str) -> int:
    return text.count("\n") + (text.count("\r") - text.count("\r\n") if "\r" in text else 0)


def names_columns(cells: Sequence[str]) -> bool:
    """Whether the cells of a first line may be names of columns, two or more."""
    return len(cells) > 1 and all(re.fullmatch(NAME, cell.strip('"')) for cell in cells)


def probable_delimiter(text: str) -> str | None:
    """Return the delimiter of a text whose first records look like a table, None if they do not.

    All have the same number of cells, and, unless these are separated by tabs, there are at least
    three, the first of which may be a header.
    """
    for delimiter in DELIMITERS:
        dialect = Dialect(delimiter, quoted=True)
        records = list(islice(dialect.records(text), SNIFFED))
        widths = set(map(dialect.width, records))
        if len(records) > 1 and len(widths) == 1 and widths != {1}:
            header = records[0].rstrip("\r\n").split(delimiter)
            if delimiter == "\t" or (len(records) > 2 and names_columns(header)):
                return delimiter
    return None


def fits_only_unquoted(lines: Iterable[str], standard: Dialect, plain: Dialect) -> bool:
    """Whether all lines have as many cells as the header, but some only if quotes are plain."""
    width, is_odd = 0, False
    for line in lines:
        if plain.is_blank(line):
            continue
        width = width or plain.width(line)
        if plain.width(line) != width or len(line) > LONGEST_RECORD:
            return False
        if '"' in line and not is_odd:
            whole = standard.record.fullmatch(line)
            is_odd = whole is None or standard.width(line) != width
    return is_odd and width > 1


def column_names(header: Sequence[str], place: str) -> list[str]:
    """Return the header's names after `check_names`; blank ones are named by their place."""
    names = [name or f"{UNNAMED}{number}" for number, name in enumerate(header)]
    check_names(names, place)
    return names


def check_names(names: Sequence[str], place: str) -> None:
    """Raise InputError for two columns with one name, since either could be meant."""
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise InputError(f"{place}: {count} columns are named {name!r}; rename all but one")


def workbook_rows(file: IO[bytes], table: TableReport, options: TableOptions) -> Iterator[TableRow]:
    """Yield the rows of a sheet below its header, every cell as text, an empty one as "".

    Raises InputError if the sheet is not there, and for a file that is damaged or far too large.
    """
    try:
        import pandas
        from openpyxl.utils.escape import unescape  # pandas reports its absence in many words
    except ImportError as error:
        raise InputError(f".xlsx files need {error.name}: pip install {error.name}") from error
    _check_unpacked(file, table.location)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and validation, which are not read
            book = pandas.ExcelFile(file, engine="openpyxl")
            sheet = _sheet_of(list(map(str, book.sheet_names)), table, options)
            frame = book.parse(sheet, header=None, dtype=str, na_filter=False)
    except (
        *(ValueError, LookupError, TypeError, AttributeError),  # of styles, among others
        *(zipfile.BadZipFile, OSError, SyntaxError),
    ) as error:
        raise InputError(
            f"{table.location}: not a workbook, or damaged ({brief(error)}); save it again"
        ) from error
    rows = (
        [unescape(cell) if isinstance(cell, str) else "" for cell in row]  # #N/A is a float
        for row in frame.to_numpy(dtype=object).tolist()
    )
    header = next((row for row in rows if any(row)), None)
    if header is None:
        raise InputError(f"{table.location}: the sheet {sheet!r} is empty: not even a header")
    names = column_names(header, table.location)
    for row in rows:
        yield dict(zip(names, row, strict=True))


def _sheet_of(names: list[str], table: TableReport, options: TableOptions) -> str:
    """Return the sheet asked for, or the first one; InputError if it is not there."""
    if not names:
        raise InputError(
            f"{table.location}: has no worksheet that can be read; save it as CSV, or as .xlsx "
            "(not Strict Open XML)"
        )
    sheet = names[0] if options.sheet is None else options.sheet
    if sheet not in names:
        raise InputError(
            f"{table.location}: no sheet {sheet!r}; the workbook has {', '.join(map(repr, names))} "
            "(--sheet)"
        )
    more = f" of {len(names)} (--sheet)" if len(names) > 1 else ""
    table.description = f"sheet {sheet!r}{more}"
    return sheet


def _check_unpacked(file: IO[bytes], location: str) -> None:
    """Refuse a workbook whose parts unpack to far more than its size."""
    try:
        with zipfile.ZipFile(file) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
            packed = sum(part.compress_size for part in archive.infolist())
    except zipfile.BadZipFile as error:
        raise InputError(f"{location}: not an Excel workbook, or damaged; save it again") from error
    if unpacked > max(MOST_UNPACKED * packed, SURE_UNPACKED):
        raise InputError(f"{location}: unpacks to more than {MOST_UNPACKED} times its size")
    file.seek(0)


def columnar_rows(file: IO[bytes], location: str, kind: str) -> Iterator[TableRow]:
    """Yield the rows of a Parquet or Feather file; bytes that are UTF-8 become text.

    The sizes in the file's description decide how many rows are read at once. Raises InputError for
    a file that is damaged, for two columns with one name, and for a row that is too long.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(f"{kind} files need pyarrow: pip install pyarrow") from error
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
                if length > LONGEST_RECORD:
                    raise InputError(f"{location}, row {number}: {TOO_LONG}")
                yield row
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{location}: not a {name} file, or damaged ({brief(error)}); get it again"
        ) from error


def _rows(batch: Any, location: str) -> list[TableRow]:
    """Return a batch as Python values; InputError for a value that Python cannot hold."""
    from pyarrow import ArrowException, types

    try:
        rows: list[TableRow] = batch.to_pylist()
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
    check_names(source.schema.names, location)
    for number in range(source.num_record_batches):
        batch = source.get_batch(number)
        batch.validate(full=True)  # a damaged file may give a text a negative length
        for start in range(0, batch.num_rows, MOST_ROWS):
            yield batch.slice(start, MOST_ROWS)


def _parquet(file: IO[bytes], location: str) -> Iterator[Any]:
    from pyarrow import ArrowInvalid, parquet

    source = parquet.ParquetFile(file)
    check_names(source.schema_arrow.names, location)
    for number in range(source.num_row_groups):
        group = source.metadata.row_group(number)
        described, expected = group.num_columns, source.metadata.num_columns
        if described != expected:
            raise ArrowInvalid(f"row group {number} has {described} columns, not {expected}")
        # For a damaged column, pyarrow raises on reading it, and ends the process on describing it.
        next(source.iter_batches(1, row_groups=[number]), None)
        count = BATCH_BYTES * group.num_rows // max(group.total_byte_size, 1)
        yield from source.iter_batches(min(max(count, 1), MOST_ROWS), row_groups=[number])
