"""What the columns of a table mean, by all of its rows: dates and groups."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ..text.profiles import normalized
from .columns import export_of, words_of

Order = Literal["month first", "day first", "year first"]

_LIST = tomllib.loads(Path(__file__).with_name("dates.toml").read_text(encoding="utf-8"))
_MONTHS = {name: int(number) for number, names in _LIST["months"].items() for name in names}
_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))
_TIME = r"\d{1,2}[:.]\d{2}([:.]\d{2}([.,]\d+)?)?(\s?[AaPp]\.?[Mm]\.?)?"
_ZONE = r"(\s?(Z|[A-Z]{2,5}|(UTC|GMT)?[+-]\d{1,2}(:?\d{2})?))?(\s?\([\w :+-]+\))?"
_PARTS = {
    "Y": r"(?P<Y>(?:19|20|21)\d{2})",
    "y": r"(?P<y>\d{2})",
    **{name: rf"(?P<{name}>\d{{1,2}})" for name in "mdnk"},
    **{2 * name: rf"(?P<{name}>\d{{2}})" for name in "ymdnk"},
    "b": rf"(?P<b>{_NAMES})\.?",
    "a": r"(?:(?:mon|tue|wed|thu|fri|sat|sun|mo|di|mi|do|fr|sa|so)[^\W\d_]*\.?)",
    "th": r"(?:st|nd|rd|th|\.|er|º)?",
    "of": r"(?:of |de |del )?",
    "time": _TIME,
    "T": rf"(?:(?:\s*[T,;|]\s*|\s+at\s+|\s+um\s+|\s+)({_TIME}){_ZONE})?",
}
_BEFORE = rf"(?:(?:{'|'.join(_LIST['before'])})\s+)?"
_WORDS = {
    kind: frozenset(_LIST[kind])
    for kind in ("written", "text", "date", "other", "never", "numbers")
}
_ENDS_LIKE_A_DATE = re.compile(r"\w*(date|datum|time|timestamp)")
_NUMBER = re.compile(r"\d+(\.\d+)?([eE]\+?\d+)?")
_EARLIEST, _LATEST = datetime(1990, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_EXCEL = date(1899, 12, 30)  # day 0 of a workbook
_NO_DATES = 5  # the rank of names of versions and numbers
_LEAST_DATES = 0.9  # smallest fraction of dates in a column of dates


Months = tuple[str | None, ...]  # one for each of ORDERS


class _Readings(NamedTuple):
    """A date in each order of its numbers; None where it is no date."""

    month_first: date | None
    day_first: date | None
    year_first: date | None
    is_named: bool = False  # a date only below a name of a date
    has_slashes: bool = False


ORDERS: tuple[Order, ...] = get_args(Order)
_NO_DATE = _Readings(None, None, None)


@cache
def _patterns(kind: str) -> list[re.Pattern[str]]:
    def filled(text: str) -> str:
        text = re.sub(r"(?<=\})\.(?=[ {])", r"\.", text)  # full stops between parts: no wildcards
        return re.sub(r"\{(\w+)\}", lambda match: _PARTS.get(match[1], match[0]), text)

    return [re.compile(_BEFORE + filled(text), re.IGNORECASE) for text in _LIST[kind]]


_matched_last: list[re.Pattern[str]] = []  # tried first: the next cell is probably written alike


@lru_cache(maxsize=1 << 16)
def _readings_of(text: str) -> _Readings:
    """Return what a cell means as a date, in each order; all None for anything else.

    _readings_of("3/4/2024").day_first  # date(2024, 4, 3)
    """
    text = " ".join(text.split())
    if not text or len(text) > 120 or not any(map(str.isdigit, text)):
        return _NO_DATE
    for pattern in chain(_matched_last, _patterns("formats")):
        if (match := pattern.fullmatch(text)) and any(found := _in_orders(match.groupdict())):
            _matched_last[:] = [pattern]
            return _Readings(*found, has_slashes="/" in text)
    for pattern in _patterns("named"):
        if (match := pattern.fullmatch(text)) and any(found := _in_orders(match.groupdict())):
            return _Readings(*found, is_named=True)
    if _NUMBER.fullmatch(text) and (day := _of_number(float(text))):
        return _Readings(day, day, day, is_named=True)
    return _NO_DATE


def _in_orders(parts: dict[str, str | None]) -> tuple[date | None, date | None, date | None]:
    year, short = parts.get("Y"), parts.get("y")
    full = int(year) if year else _full(short)
    if first := parts.get("n"):
        second = parts["k"]
        year_first = _date(_full(first), second, short) if short and len(first) == 2 else None
        return _date(full, first, second), _date(full, second, first), year_first
    name = parts.get("b")
    month = _MONTHS[name.casefold()] if name else parts.get("m")
    day = _date(full, month, parts.get("d") or 1)
    return day, day, day


def _full(short: str | None) -> int:
    return 0 if short is None else int(short) + (2000 if int(short) < 70 else 1900)


def _date(year: int, month: Any, day: Any) -> date | None:
    try:
        return date(year, int(month), int(day))
    except ValueError:
        return None


def _of_number(number: float) -> date | None:
    """Return the day of seconds since 1970, of their thousandths, or of a workbook's number."""
    for unit in (1, 1e3, 1e6, 1e9):
        if _EARLIEST.timestamp() <= number / unit < _LATEST.timestamp():
            return datetime.fromtimestamp(number / unit, UTC).date()
    if 32_874 <= number < 73_051:  # 1990 to 2100
        return _EXCEL + timedelta(days=int(number))
    return None


class _Dates:
    """A column of dates, typed over the cells that were added, in one order.

    dates = _Dates("Timestamp")
    for cell in cells:
        dates.add(cell)
    dates.settled(dates.months("3/11/2024"))  # '2024-03', or '2024-11' if some cell is 25/11/2024
    """

    def __init__(self, name: str):
        self.name = name
        has = _kinds_of(name)
        self.rank = _rank_of(has)
        self.cells = 0  # not empty
        self._says_date = has["date"] or has["written"]
        self._valid: Counter[Order] = Counter()
        self._years: dict[Order, set[int]] = {order: set() for order in ORDERS}
        self._by_slashes = self._by_other_signs = 0  # cells that are two dates
        self.followed: Order | None = None  # another column's, if its own cells show no order

    def add(self, cell: Any) -> None:
        if _is_missing(cell):
            return
        self.cells += 1
        readings = self._readings(cell)
        for order, day in zip(ORDERS, readings[:3], strict=True):
            if day is not None:
                self._valid[order] += 1
                self._years[order].add(day.year)
        if readings.month_first != readings.day_first:
            self._by_slashes += readings.has_slashes
            self._by_other_signs += not readings.has_slashes

    @property
    def may_be_dates(self) -> bool:
        """Whether half of the cells are dates, or there is none yet and the name says so."""
        return 2 * self._valid[self.order] >= self.cells and (self.cells > 0 or self.rank < 2)

    @property
    def are_dates(self) -> bool:
        """Whether the column holds dates: nine in ten of its cells are, in one order."""
        return self.cells > 0 and self._valid[self.order] >= _LEAST_DATES * self.cells

    @property
    def order(self) -> Order:
        """The order of the numbers, by all cells; without evidence, by the signs between them."""
        usual: Order = "month first" if self._by_slashes >= self._by_other_signs else "day first"
        usual = self.followed or usual
        # Of two that all cells fit, years that vary less are likelier.
        return max(ORDERS, key=lambda o: (self._valid[o], -len(self._years[o]), o == usual))

    @property
    def is_order_shown(self) -> bool:
        best = self.order
        return any(self._valid[o] < self._valid[best] for o in ORDERS[:2] if o != best)

    @property
    def is_order_known(self) -> bool:
        """Whether the cells show the order, or another column does, or no cell needs it."""
        is_needed = self._by_slashes + self._by_other_signs > 0
        return self.is_order_shown or self.followed is not None or not is_needed

    @property
    def order_note(self) -> str:
        read = "March 4" if self.order == "month first" else "3 April"
        return (
            f"No date shows whether the day or the month comes first; 3/4/2024 is taken as {read}."
        )

    def _readings(self, cell: Any) -> _Readings:
        if self.rank == _NO_DATES or _is_missing(cell):
            return _NO_DATE
        if hasattr(cell, "year") and hasattr(cell, "month"):
            day = _date(cell.year, cell.month, getattr(cell, "day", 1))
            return _Readings(day, day, day)
        readings = _readings_of(str(cell))
        return _NO_DATE if readings.is_named and not self._says_date else readings

    def months(self, cell: Any) -> Months:
        """Return the month of a cell in each order, such as 2024-03; `settled` chooses at the end.

        None where it is no date.
        """
        days = self._readings(cell)[:3]
        return tuple(None if day is None else f"{day.year}-{day.month:02}" for day in days)

    def settled(self, months: Months) -> str | None:
        return months[ORDERS.index(self.order)]


def _is_missing(value: object) -> bool:
    """Return whether a cell has no value; NaN is one that Excel could not compute."""
    return value in (None, "") or value != value


def _rank_of(has: Mapping[str, bool]) -> int:
    """Return how likely a column of dates says when texts were written; 0 is likeliest.

    0: created, 1: a date, 2: when something else happened, 3: an unknown name, 4: never; NO_DATES:
    a version or a number, though it looks like a date. has: the kinds of words in its name.
    """
    if has["numbers"] and not has["date"]:
        return _NO_DATES
    if has["never"]:
        return 4
    if has["other"] and not (has["date"] and has["text"]):
        return 2
    if has["written"] or (has["date"] and has["text"]):
        return 0
    return 1 if has["date"] else 3


def _kinds_of(name: str) -> dict[str, bool]:
    parts = words_of(name).split()
    has = {kind: not words.isdisjoint(parts) for kind, words in _WORDS.items()}
    has["date"] |= any(map(_ENDS_LIKE_A_DATE.fullmatch, parts)) and not has["never"]
    return has


_NO_GROUP = "(none)"
OTHER_GROUPS = "(others)"
MOST_GROUPS = 100_000  # named; the others are one group
GroupKey = str | Months
_SAMPLED = 64  # rows that show which columns may hold dates
_WHOLE = re.compile(r"([+-]?\d+)[.,](?!000$)0+")  # 1,000 is a thousand


def _group_of(cell: Any) -> str:
    """Return what makes groups equal: blanks and case make no difference, nor do 5 and 5.0."""
    if _is_missing(cell):
        return ""
    text = " ".join(normalized("NFKC", str(cell)).split()).casefold()
    match = _WHOLE.fullmatch(text)
    return match[1] if match else text


class TableModel:
    """The columns of a table, typed over the rows that were added.

    by: the column of groups. text: returns the columns of the text, which is nothing else. A file
    is read through before its first row is answered, so all of its rows are added by then; of
    standard input, the rows that have arrived.

    model = TableModel(by="product", text=lambda: ["review"])
    for row in rows:
        model.add(row)
    model.dates.name  # 'created'; model.dates is None if there are none
    model.group_name(model.group_key(" kettle"))  # 'Kettle'
    """

    def __init__(self, by: str | None = None, text: Callable[[], Collection[str]] = lambda: ()):
        self.by, self._text = by, text
        self._names: dict[str, str] = {"": _NO_GROUP}  # of groups: as in its first cell
        self.has_other_groups = False  # beyond MOST_GROUPS
        self._sample: list[Mapping[str, Any]] = []
        self._columns: dict[str, _Dates] | None = None  # those that may be dates; found when needed
        self._export: dict[str, Any] | None = None
        self._known: tuple[_Dates | None, _Dates | None] | None = None  # until a row comes

    def add(self, row: Mapping[str, Any]) -> None:
        self._known = None
        if len(self._sample) < _SAMPLED:
            self._sample.append(row)
            self._columns = None
            return
        for name, dates in self._dated().items():
            dates.add(row.get(name))

    def _dated(self) -> dict[str, _Dates]:
        """Return the columns that may hold dates, by the first rows, and that of the groups."""
        if self._columns is None:
            names = dict.fromkeys(name for row in self._sample for name in row)
            self._export = export_of(names)
            skipped = set(self._text()) - {self.by}
            named = names if self.by is None else [*names, self.by]
            columns = {name: _Dates(name) for name in named if name not in skipped}
            for name, dates in columns.items():
                for row in self._sample:
                    dates.add(row.get(name))
            self._columns = {n: d for n, d in columns.items() if d.may_be_dates or n == self.by}
        return self._columns

    def _in_order(self, dates: _Dates) -> _Dates | None:
        """Return a column of dates, which takes the order of others if its cells leave it open."""
        if not dates.are_dates:
            return None
        if not dates.is_order_known:
            others = self._dated().values()
            sure = next((d for d in others if d.are_dates and d.is_order_shown), None)
            if sure is not None:
                dates.followed = sure.order
        return dates

    @property
    def dates(self) -> _Dates | None:
        """The column that says when texts were written: the groups, if these are dates."""
        return self._what_is_known[0]

    @property
    def group_dates(self) -> _Dates | None:
        """The column of groups, if these are dates, which are grouped by month."""
        return self._what_is_known[1]

    @property
    def _what_is_known(self) -> tuple[_Dates | None, _Dates | None]:
        if self._known is None:
            groups = None if self.by is None else self._in_order(self._dated()[self.by])
            self._known = groups or self._time_axis(), groups
        return self._known

    def _time_axis(self) -> _Dates | None:
        axes = [dates for dates in self._dated().values() if dates.rank < 4]
        known = self._export.get("date") if self._export else None
        axes.sort(key=lambda dates: (words_of(dates.name) != known, dates.rank))
        return next(filter(None, map(self._in_order, axes)), None)

    def group_key(self, cell: Any) -> GroupKey:
        """Return what a tally counts a cell under; `group_name` names it at the end.

        Of standard input, the order of dates may show later.
        """
        if (dates := self.group_dates) is not None and any(months := dates.months(cell)):
            return months
        key = _group_of(cell)
        if key not in self._names:
            if len(self._names) > MOST_GROUPS:
                self.has_other_groups = True
                return OTHER_GROUPS
            is_number = _WHOLE.fullmatch(key) or key.lstrip("+-").isdigit()
            self._names[key] = key if is_number else " ".join(str(cell).split())
        return self._names[key]

    def group_name(self, key: GroupKey) -> str:
        if isinstance(key, str) or self.by is None:
            return str(key)
        return self._dated()[self.by].settled(key) or _NO_GROUP
