"""What the columns of a table mean, by all of its rows: dates, groups, ratings."""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from .columns import Export, export_of, words_of
from .dates import Dates, is_missing, month_of

NO_GROUP = "(none)"
GroupKey = str | tuple[str | None, ...]
_SAMPLED = 64  # rows that show which columns may hold dates
_RATING_NAMES = frozenset(
    ("rating", "ratings", "star", "stars", "score", "overall", "grade", "nps", "note", "bewertung")
)
_RATING = re.compile(
    r"(?P<value>\d+([.,]\d+)?)\s*(stars?|sterne?|étoiles?)?"
    r"(\s*(/|of|out of|von|sur)\s*\d+)?\s*(stars?)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"([+-]?\d+)[.,]0+")


def group_of(cell: Any) -> str:
    """Return what makes groups equal: blanks and case make no difference, nor do 5 and 5.0."""
    if is_missing(cell):
        return ""
    text = " ".join(unicodedata.normalize("NFKC", str(cell)).split()).casefold()
    match = _NUMBER.fullmatch(text)
    return match[1] if match else text


class Groups:
    """A column of groups; each has the name that its first cell has.

    groups = Groups()
    groups.of("Kettle "), groups.of("kettle"), groups.of("")  # 'Kettle', 'Kettle', '(none)'
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {"": NO_GROUP}

    def of(self, cell: Any) -> str:
        """Return the name of a cell's group."""
        key = group_of(cell)
        name = self._names.get(key)
        if name is None:
            is_number = _NUMBER.fullmatch(key) or key.lstrip("+-").isdigit()
            name = key if is_number else " ".join(str(cell).split())
            self._names[key] = name
        return name


def rating_of(cell: Any) -> float | None:
    """Return a rating as a number: of 4, 4.0, "4 stars", "4/5" or "★★★★☆"; None without one."""
    if is_missing(cell) or isinstance(cell, bool):
        return None
    text = str(cell).strip()
    if "★" in text:
        return float(text.count("★"))
    match = _RATING.fullmatch(text)
    return float(match["value"].replace(",", ".")) if match else None


class TypedRow(NamedTuple):
    """The values of a row that a report needs."""

    group: str | None  # None without --by
    date: date | None
    rating: float | None

    @property
    def month(self) -> str | None:
        """The month of the date, such as 2024-03."""
        return month_of(self.date)


class TableModel:
    """The columns of a table, typed over the rows that were added.

    by: the column of groups. text: returns the columns of the text, which is nothing else. A file
    is read through before its first row is answered, so all of its rows are added by then; of
    standard input, the rows that have arrived.

    model = TableModel(by="product", text=lambda: ["review"])
    for row in rows:
        model.add(row)
    model.dates.name, model.rating_name  # 'created', 'stars'; None if there are none
    model.typed(row).month  # '2024-03'
    """

    def __init__(self, by: str | None = None, text: Callable[[], Collection[str]] = lambda: ()):
        self.by, self._text = by, text
        self.groups = Groups()
        self._sample: list[Mapping[str, Any]] = []
        self._is_sampled = False
        self._columns = {} if by is None else {by: Dates(by)}  # those that may be dates
        self._ratings: dict[str, list[int]] = {}  # cells, and those that are ratings
        self._export: Export | None = None
        self._known: tuple[Dates | None, Dates | None, str | None] | None = (
            None  # until a row comes
        )

    def add(self, row: Mapping[str, Any]) -> None:
        """Take a row into account."""
        self._known = None
        if self._is_sampled:
            for name, dates in self._columns.items():
                dates.add(row.get(name))
            self._add_ratings(row)
            return
        if self.by is not None:
            self._columns[self.by].add(row.get(self.by))
        self._sample.append(row)
        if len(self._sample) >= _SAMPLED:
            self._find_columns()

    def _find_columns(self) -> None:
        """Choose the columns whose cells are typed: those that may hold dates or ratings."""
        self._is_sampled = True
        names = dict.fromkeys(name for row in self._sample for name in row)
        self._export = export_of(names)
        texts = set(self._text())
        for name in names:
            if name in texts:
                continue
            dates = Dates(name)
            for row in self._sample:
                dates.add(row.get(name))
            if dates.may_be_dates and name not in self._columns:
                self._columns[name] = dates
            if not _RATING_NAMES.isdisjoint(words_of(name).split()) or (
                self._export and words_of(name) == self._export.rating
            ):
                self._ratings[name] = [0, 0]
        for row in self._sample:
            self._add_ratings(row)
        self._sample = []

    def _add_ratings(self, row: Mapping[str, Any]) -> None:
        for name, counts in self._ratings.items():
            if not is_missing(cell := row.get(name)):
                counts[0] += 1
                counts[1] += rating_of(cell) is not None

    def _dates_of(self, name: str) -> Dates | None:
        """Return a column of dates, which takes the order of others if its cells leave it open."""
        dates = self._columns.get(name)
        if dates is None or not dates.are_dates:
            return None
        if not dates.is_order_known:
            others = self._columns.values()
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
    def rating_name(self) -> str | None:
        """The column of ratings."""
        return self._what_is_known[2]

    @property
    def _what_is_known(self) -> tuple[Dates | None, Dates | None, str | None]:
        """Return the dates, the dates of groups, and the name of the ratings."""
        if self._known is None:
            if not self._is_sampled:
                self._find_columns()
            groups = None if self.by is None else self._dates_of(self.by)
            self._known = groups or self._time_axis(), groups, self._ratings_among_columns()
        return self._known

    def _time_axis(self) -> Dates | None:
        axes = [name for name, dates in self._columns.items() if dates.rank < 4]
        known = self._export.date if self._export else None
        axes.sort(key=lambda name: (words_of(name) != known, self._columns[name].rank))
        return next(filter(None, map(self._dates_of, axes)), None)

    def _ratings_among_columns(self) -> str | None:
        known = self._export.rating if self._export else None
        names = [n for n, (cells, ratings) in self._ratings.items() if cells and ratings == cells]
        return min(names, key=lambda name: words_of(name) != known, default=None)

    def group_key(self, cell: Any) -> GroupKey:
        """Return what a tally counts a cell under; `group_name` names it at the end.

        Of standard input, the order of dates may show later.
        """
        dates = self._columns.get(self.by) if self.by is not None else None
        if dates is not None and dates.are_dates and not is_missing(cell):
            readings = dates.readings(cell)[:3]
            if any(readings):
                return tuple(map(month_of, readings))
        return self.groups.of(cell)

    def group_name(self, key: GroupKey) -> str:
        """Return the name of a group from its `group_key`."""
        if isinstance(key, str) or self.by is None:
            return str(key)
        return self._columns[self.by].settled(key) or NO_GROUP

    def group(self, cell: Any) -> str:
        """Return the name of a cell's group: the month of a date, else what the cell says."""
        dates = self.group_dates
        return (dates and dates.month(cell)) or self.groups.of(cell)

    def typed(
        self, row: Mapping[str, Any], own: Callable[[str], str] = lambda name: name
    ) -> TypedRow:
        """Return the values of a row. own: returns a column's name in it, if it has another one."""
        dates, rating = self.dates, self.rating_name
        return TypedRow(
            None if self.by is None else self.group(row.get(own(self.by))),
            dates.day(row.get(own(dates.name))) if dates else None,
            rating_of(row.get(own(rating))) if rating else None,
        )


def is_month(name: str) -> bool:
    """Whether the name of a group is a month, as `TableModel.group` writes it."""
    return re.fullmatch(r"\d{4}-\d{2}", name) is not None


def all_months(names: Sequence[str]) -> bool:
    """Whether groups are months, so that they are shown in their order."""
    return all(name == NO_GROUP or is_month(name) for name in names)
