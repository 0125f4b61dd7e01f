"""Workbooks: the sheets that hold the table, merged cells filled, what is hidden reported."""

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..errors import InputError, brief
from ..files.writer import write_atomically
from .columns import choose_text, lines_above_header
from .inputs import TableOptions
from .row_files import UNSAYABLE, cell_of
from .tables import Record, column_names, counted, no_warnings

_SAMPLED = 100  # rows that show whether a sheet holds texts
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE]-[0-9]+)?")  # 007 and 12E4 are codes
_MOST = 1e15  # a spreadsheet shows fewer digits of larger numbers
_LONGEST_CELL = 32_767  # characters, of a workbook
_MOST_ROWS = 1_048_576
_NOT_IN_XML = re.compile(  # or what would be read as such an escape
    r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)"
)
_NO_VALUE = re.compile(rb"<f[^>]*(/>|>[^<]*</f>)(<v\s*/>|<v></v>)?</c>")  # a formula, no result


class _Sheet(NamedTuple):
    """A sheet's cells as text."""

    name: str
    rows: list[list[str]]
    is_hidden: bool = False
    hidden_rows: int = 0
    merged: int = 0  # ranges of cells, which were filled

    @property
    def above(self) -> int:
        blank = next((n for n, row in enumerate(self.rows) if any(row)), len(self.rows))
        return blank + lines_above_header(self.rows[blank:])

    @property
    def header(self) -> list[str]:
        return self.rows[self.above] if self.above < len(self.rows) else []

    def has_texts(self) -> bool:
        names = column_names(self.header)
        rows = [dict(zip(names, row, strict=True)) for row in self.rows[self.above + 1 :]]
        choice = choose_text(names, rows[:_SAMPLED])
        return choice.column is not None or any(c.is_candidate for c in choice.columns)


class Workbook(NamedTuple):
    """The table of a workbook, every cell as text."""

    location: str
    sheets: list[_Sheet]  # that hold it
    about: dict[str, Any]  # fields of a TableReport

    def rows(self) -> Iterator[Record]:
        names = column_names(self.sheets[0].header)
        for sheet in self.sheets:
            for number in range(sheet.above + 1, len(sheet.rows)):
                cells = zip(names, sheet.rows[number], strict=True)
                yield Record(cells, _place(self.location, sheet, number))


def _place(location: str, sheet: _Sheet, number: int) -> str:
    return f"{location}, sheet {sheet.name!r}, row {number + 1}"


def read_workbook(file: IO[bytes], location: str, options: TableOptions) -> Workbook:
    """Return the sheet asked for, or those that hold the table.

    Sheets with the same header, such as one a month, are one table. Raises InputError if the sheet
    is not there or if several hold texts, and for a file that is damaged.
    """
    try:
        with no_warnings():  # of styles and validation, which are not read
            sheets = _with_openpyxl(file)
    except ImportError as error:
        raise InputError(f"workbooks need {error.name}: pip install {error.name}") from error
    except (
        *(ValueError, LookupError, TypeError, AttributeError),  # of styles, among others
        *(zipfile.BadZipFile, OSError, SyntaxError),
    ) as error:
        raise InputError(
            f"{location}: not a workbook, or damaged ({brief(error)}); save it again"
        ) from error
    if not sheets:
        raise InputError(
            f"{location}: has no worksheet that can be read; save it as CSV, or as .xlsx "
            "(not Strict Open XML)"
        )
    chosen = _chosen(sheets, location, options.sheet)
    first = chosen[0]
    if not any(map(any, first.rows)):
        raise InputError(f"{location}: the sheet {first.name!r} is empty: not even a header")
    notes = list(_notes(sheets, chosen))
    if formulas := _formulas_without_value(file):
        noun = counted(formulas, "formula")
        notes.append(f"{noun} without a result: open it in Excel and save it")
    names = ", ".join(repr(sheet.name) for sheet in chosen)
    more = f" of {len(sheets)} (--sheet)" if len(sheets) > 1 else ""
    about = {
        "description": f"{'sheet' if len(chosen) == 1 else 'sheets'} {names}{more}",
        "lines_above": sum(map(any, first.rows[: first.above])),
        "notes": tuple(notes),
        "header_place": _place(location, first, first.above),
    }
    return Workbook(location, chosen, about)


def _with_openpyxl(file: IO[bytes]) -> list[_Sheet]:
    from openpyxl.reader.excel import ExcelReader

    class Reader(ExcelReader):
        """Leaves out sheets of charts, which openpyxl cannot read if they are empty."""

        def read_chartsheet(self, sheet: Any, rel: Any) -> None:
            """Do nothing."""

    reader = Reader(file, data_only=True)
    reader.read()
    return [_read(sheet) for sheet in reader.wb.worksheets]


def _read(sheet: Any) -> _Sheet:
    from openpyxl.utils.escape import unescape

    filled = [place for place, cell in sheet._cells.items() if cell.value is not None]
    rows = []
    if filled:  # a formatted empty cell may be a million rows further down
        ends = {"max_row": max(row for row, _ in filled), "max_col": max(n for _, n in filled)}
        rows = [[_text_of(cell, unescape) for cell in row] for row in sheet.iter_rows(**ends)]
    width = max((n for row in rows for n, cell in enumerate(row, 1) if cell), default=0)
    rows = [row[:width] for row in rows]
    merged = 0
    for area in sheet.merged_cells.ranges:
        top, left = area.min_row - 1, area.min_col - 1
        if area.min_col != area.max_col or area.max_row > len(rows) or left >= width:
            continue  # a title over several columns
        merged += 1
        for row in rows[top : area.max_row]:
            row[left] = rows[top][left]
    hidden = sum(d.hidden and number <= len(rows) for number, d in sheet.row_dimensions.items())
    return _Sheet(sheet.title, rows, sheet.sheet_state != "visible", hidden, merged)


def _text_of(cell: Any, unescape: Callable[[str], Any]) -> str:
    value = cell.value
    if value is None or cell.data_type == "e":  # an error is no value
        return ""
    if isinstance(value, str):
        return str(unescape(value)) if "_x" in value else value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)


def _chosen(sheets: Sequence[_Sheet], location: str, asked: str | None) -> list[_Sheet]:
    if asked is not None:
        found = [sheet for sheet in sheets if sheet.name == asked]
        if not found:
            names = ", ".join(repr(sheet.name) for sheet in sheets)
            raise InputError(f"{location}: no sheet {asked!r}; the workbook has {names} (--sheet)")
        return found
    filled = [sheet for sheet in sheets if any(map(any, sheet.rows))]
    visible = [sheet for sheet in filled if not sheet.is_hidden] or filled or [*sheets]
    tables = [sheet for sheet in visible if sheet.has_texts()] if len(visible) > 1 else visible
    if not tables:
        return [max(visible, key=lambda sheet: len(sheet.rows))]
    if any(sheet.header != tables[0].header for sheet in tables):
        names = " and ".join(repr(sheet.name) for sheet in tables[:2])
        raise InputError(
            f"{location}: the sheets {names} hold different tables; name one (--sheet)"
        )
    return tables


def _notes(sheets: Sequence[_Sheet], chosen: Sequence[_Sheet]) -> Iterator[str]:
    if hidden := sum(sheet.is_hidden for sheet in sheets if sheet not in chosen):
        yield f"{counted(hidden, 'hidden sheet')} not read"
    if any(sheet.is_hidden for sheet in chosen):
        yield "a hidden sheet"
    if rows := sum(sheet.hidden_rows for sheet in chosen):
        yield f"{counted(rows, 'hidden row')} read, too"
    if merged := sum(sheet.merged for sheet in chosen):
        yield f"{counted(merged, 'merged cell')} filled"


def _formulas_without_value(file: IO[bytes]) -> int:
    file.seek(0)
    with zipfile.ZipFile(file) as archive:
        return sum(
            len(_NO_VALUE.findall(archive.read(name)))
            for name in archive.namelist()
            if name.startswith("xl/worksheets/") and name.endswith(".xml")
        )


def check_fits(rows: int, values: Iterable[Any], place: str) -> None:
    """Raise InputError for more rows, or a longer cell, than a workbook holds."""
    if any(len(_escaped(value)) > _LONGEST_CELL for value in values):
        raise InputError(
            f"{place}: a cell of a workbook has at most {_LONGEST_CELL:,} characters; write .csv"
        )
    if rows >= _MOST_ROWS:  # one is the header
        raise InputError(f"{place}: a workbook has at most {_MOST_ROWS:,} rows; write .csv")


def _escaped(value: Any) -> str:
    """Return the text of a cell, with `_xHHHH_` for what XML cannot hold."""
    text = cell_of(value).encode(errors=UNSAYABLE).decode()
    return _NOT_IN_XML.sub(lambda found: f"_x{ord(found[0]):04X}_", text)


def write_workbook(rows: Path, path: Path, columns: Sequence[str]) -> None:
    """Write JSON lines, each of which fits, as a workbook without formulas.

    Texts become numbers in columns that hold nothing else. columns: [] takes those of the first
    row.
    """
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell

    book = Workbook(write_only=True)
    sheet = book.create_sheet("Answers")

    def cell(value: Any, *, is_number: bool = False) -> Any:
        if value is None or (isinstance(value, bool | int | float) and abs(value) < _MOST):
            return value
        if is_number and isinstance(value, str) and value:
            return int(value) if value.removeprefix("-").isdigit() else float(value)
        written = WriteOnlyCell(sheet)
        written.value = _escaped(value)
        written.data_type = "s"  # also for what begins like a formula
        return written

    with open(rows, encoding="utf-8") as lines:
        texts = _text_columns(lines)
        lines.seek(0)
        for number, line in enumerate(lines):
            row = json.loads(line)
            if number == 0:
                columns = columns or list(row)
                sheet.append([cell(name) for name in columns])
            sheet.append([cell(row.get(name), is_number=name not in texts) for name in columns])
    write_atomically(path, book.save, "rows")


def _text_columns(lines: Iterable[str]) -> set[str]:
    """Return the columns with a text that is no number, or one of which digits would get lost."""
    found = set[str]()
    for line in lines:
        for name, value in json.loads(line).items():
            if name not in found and isinstance(value, str) and value and not _is_exact(value):
                found.add(name)
    return found


def _is_exact(text: str) -> bool:
    """Whether a workbook, whose numbers are floats, keeps the number that a text is."""
    if _NUMBER.fullmatch(text) is None:
        return False
    number = float(text)
    return abs(number) < _MOST and Decimal(repr(number)) == Decimal(text)
