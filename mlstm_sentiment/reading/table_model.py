"""What the columns of a table mean, by all of its rows: dates and groups."""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from .columns import Export, export_of, words_of
from .dates import Dates, Months, is_missing

_NO_GROUP = "(none)"
GroupKey = str | Months
_SAMPLED = 64  # rows that show which columns may hold dates
_MONTH = re.compile(r"\d{4}-\d{2}")  # as `group_name` writes it
_NUMBER = re.compile(r"([+-]?\d+)[.,]0+")


def _group_of(cell: Any) -> str:
    """Return what makes groups equal: blanks and case make no difference, nor do 5 and 5.0."""
    if is_missing(cell):
        return ""
    text = " ".join(unicodedata.normalize("NFKC", str(cell)).split()).casefold()
    match = _NUMBER.fullmatch(text)
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
        self._sample: list[Mapping[str, Any]] = []
        self._columns: dict[str, Dates] | None = None  # those that may be dates; found when needed
        self._export: Export | None = None
        self._known: tuple[Dates | None, Dates | None] | None = None  # until a row comes

    def add(self, row: Mapping[str, Any]) -> None:
        """Take a row into account."""
        self._known = None
        if len(self._sample) < _SAMPLED:
            self._sample.append(row)
            self._columns = None
            return
        for name, dates in self._dated().items():
            dates.add(row.get(name))

    def _dated(self) -> dict[str, Dates]:
        """Return the columns that may hold dates, by the first rows, and that of the groups."""
        if self._columns is None:
            names = dict.fromkeys(name for row in self._sample for name in row)
            self._export = export_of(names)
            skipped = set(self._text()) - {self.by}
            named = names if self.by is None else [*names, self.by]
            columns = {name: Dates(name) for name in named if name not in skipped}
            for name, dates in columns.items():
                for row in self._sample:
                    dates.add(row.get(name))
            self._columns = {n: d for n, d in columns.items() if d.may_be_dates or n == self.by}
        return self._columns

    def _in_order(self, dates: Dates) -> Dates | None:
        """Return a column of dates, which takes the order of others if its cells leave it open."""
        if not dates.are_dates:
            return None
        if not dates.is_order_known:
            others = self._dated().values()
            sure = next((d for d in others if d.are_dates and d.is_order_shown), None)
            if sure is not None:
                dates.follow(sure)
        return dates

    @property
    def dates(self) -> Dates | None:
        """The column that says when texts were written: the groups, if these are dates."""
        return self._what_is_known[0]

    @property
    def group_dates(self) -> Dates | None:
        """The column of groups, if these are dates, which are grouped by month."""
        return self._what_is_known[1]

    @property
    def _what_is_known(self) -> tuple[Dates | None, Dates | None]:
        if self._known is None:
            groups = None if self.by is None else self._in_order(self._dated()[self.by])
            self._known = groups or self._time_axis(), groups
        return self._known

    def _time_axis(self) -> Dates | None:
        axes = [dates for dates in self._dated().values() if dates.rank < 4]
        known = self._export.date if self._export else None
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
            is_number = _NUMBER.fullmatch(key) or key.lstrip("+-").isdigit()
            self._names[key] = key if is_number else " ".join(str(cell).split())
        return self._names[key]

    def group_name(self, key: GroupKey) -> str:
        """Return the name of a group from its `group_key`."""
        if isinstance(key, str) or self.by is None:
            return str(key)
        return self._dated()[self.by].settled(key) or _NO_GROUP


def all_months(names: Sequence[str]) -> bool:
    """Whether groups are months, so that they are shown in their order."""
    return all(name == _NO_GROUP or _MONTH.fullmatch(name) for name in names)
