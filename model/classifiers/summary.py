"""Counts classified rows by their outcome: over all of them, by group and by month."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..text.glyphs import visible
from .answers import NEUTRAL, NO_ANSWER, NO_LABEL, UNFAMILIAR, UNSURE, word_of

if TYPE_CHECKING:
    from .head import Head

OTHER_GROUPS, NO_GROUP = "(others)", "(none)"
MOST_GROUPS = 100_000  # counted separately
SHOWN_GROUPS = 20  # printed, the largest
LONGEST_NAME = 30  # characters of a group's name that are printed
NAME_END = 13  # printed of each end of a longer name: its end may be all that identifies a URL
Z = 1.959964  # of a 95 % interval
MONTHS = (
    "jan(?:uary)?", "feb(?:ruary)?", "mar(?:ch)?", "apr(?:il)?", "may", "june?", "july?",
    "aug(?:ust)?", "sept?(?:ember)?", "oct(?:ober)?", "nov(?:ember)?", "dec(?:ember)?",
)  # fmt: skip
# Without a day, only with - or /: 2023.2 is a version.
YEAR_FIRST = re.compile(r"(\d{4})(?:[-/]|\.(?=\d+\.))(\d{1,2})(?:[-/.]\d{1,2})?(?:[T ].*)?")
DAY_FIRST = re.compile(r"\d{1,2}\.\s?(\d{1,2})\.\s?(\d{4})(?: .*)?")
MONTH_FIRST = re.compile(r"(\d{1,2}) \d{1,2}, (\d{4})")  # of Amazon's reviews
WITH_SLASHES = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(?:,? .*)?")
IN_WORDS = re.compile(
    rf"(?:\d{{1,2}}\.? )?({'|'.join(MONTHS)})\.?(?: \d{{1,2}})?,? (\d{{4}})", re.IGNORECASE
)
DATE_NAME = re.compile("date|time|datum|created|month|day", re.IGNORECASE)
LEAST_DATES = 0.9  # smallest fraction of dates in a column of dates


class Tally(Counter[str]):
    """The number of rows of each outcome."""

    @property
    def answered(self) -> int:
        """The number of rows in the shares: neither unfamiliar nor without an answer."""
        return self.total() - self[UNFAMILIAR] - self[NO_ANSWER]

    def share(self, outcome: str) -> float:
        """Return an outcome's fraction of the answered rows; NaN if there are none."""
        return self[outcome] / self.answered if self.answered else math.nan

    def interval(self, outcome: str) -> tuple[float, float]:
        """Return the 95 % interval of `share` (Wilson 1927); 0 to 1 if there are no rows."""
        n, p = self.answered, self.share(outcome)
        if not n:
            return 0.0, 1.0
        middle, scale = p + Z**2 / (2 * n), 1 + Z**2 / n
        margin = Z * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
        return max((middle - margin) / scale, 0.0), min((middle + margin) / scale, 1.0)


class Summary:
    """Counts rows as they are classified.

    by: the column whose values are groups, by its name in the output. Dates are grouped by month.
    sides: whether the rows are labelled with two sides only.
    """

    def __init__(self, fitted: "Head", by: str | None = None, *, sides: bool = False):
        names = fitted.classes
        middle = [NEUTRAL, UNSURE] if fitted.has_neutral else [UNSURE]
        self.sides = sides
        self._several_labels = fitted.several_labels
        self.middle = [] if sides else middle  # outcomes between the two classes
        self.apart = [NO_ANSWER] if sides else [UNFAMILIAR, NO_ANSWER]  # not in the shares
        self.outcomes = [names[1], *self.middle, names[0]] if fitted.is_binary else list(names)
        self.by = by
        self.total = Tally()
        self.groups: dict[str, Tally] = {}
        self.tagged = 0  # rows whose text had HTML tags

    def add(self, row: Mapping[str, Any]) -> str:
        """Count a classified row; return its outcome."""
        outcome = outcome_of(row, several_labels=self._several_labels)
        self.total[outcome] += 1
        if self.by is not None:
            value = row.get(self.by)
            group = NO_GROUP if is_missing(value) else month_of(value, None) or str(value)
            if group not in self.groups and len(self.groups) >= MOST_GROUPS:
                group = OTHER_GROUPS
            self.groups.setdefault(group, Tally())[outcome] += 1
        return outcome

    def largest_groups(self) -> dict[str, Tally]:
        """Return the largest groups, largest first, months in their order; others are added up.

        Of equally large months, the newest are returned.
        """
        size = {name: (tally.total(), month_of(name) or "") for name, tally in self.groups.items()}
        ordered = sorted(size, key=size.__getitem__, reverse=True)
        ordered.sort(key=OTHER_GROUPS.__eq__)
        largest, others = ordered[:SHOWN_GROUPS], ordered[SHOWN_GROUPS:]
        if all(name == NO_GROUP or month_of(name) == name for name in largest):
            largest.sort()
        shown = {name: self.groups[name] for name in largest}
        for name in others:
            shown.setdefault(OTHER_GROUPS, Tally()).update(self.groups[name])
        return shown

    @property
    def limit_note(self) -> str:
        """A sentence for people if there were too many groups to count each one; else empty."""
        if len(self.groups) <= MOST_GROUPS:
            return ""
        return f"Only the first {MOST_GROUPS:,} groups are counted separately."

    def lines(self) -> list[str]:
        """Return the counts for people: a line, then one for each group."""
        others = self.total.keys() - {*self.outcomes, *self.apart}
        outcomes = [*self.outcomes, *sorted(others), *self.apart]
        parts = [_part(self.total, outcome) for outcome in outcomes]
        tags = f"; HTML tags left out in {self.tagged:,}" if self.tagged else ""
        rows = "1 row" if self.total.total() == 1 else f"{self.total.total():,} rows"
        asked = "; two sides only, as asked" if self.sides else ""
        lines = [f"{rows}: {', '.join(parts)}{tags}{asked}"]
        if not self.groups:
            return lines
        cells = [["by " + visible(str(self.by)), "rows", *map(visible, outcomes)]]
        for name, tally in self.largest_groups().items():
            shown = name if len(name) <= LONGEST_NAME else f"{name[:NAME_END]}...{name[-NAME_END:]}"
            cells.append([visible(" ".join(shown.split())), f"{tally.total():,}"])
            cells[-1] += [f"{tally[outcome]:,}" for outcome in outcomes]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            pairs = list(zip(row, widths, strict=True))
            first, *rest = pairs
            lines.append("  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)]))
        return [*lines, self.limit_note] if self.limit_note else lines


def _part(tally: Tally, outcome: str) -> str:
    is_answer = outcome not in (UNFAMILIAR, NO_ANSWER) and tally.answered
    share = f" ({tally.share(outcome):.0%})".replace("%", " %") if is_answer else ""
    return f"{tally[outcome]:,} {visible(outcome)}{share}"


def outcome_of(row: Mapping[str, Any], *, several_labels: bool) -> str:
    """Return what became of a classified row: its label.

    several_labels: whether the classifier wrote `labels`; else this is a column of the input.
    """
    if not several_labels:
        return str(row["label"])
    if row["labels"] is None:
        return NO_ANSWER
    return word_of(", ".join(row["labels"]) or NO_LABEL, unfamiliar=row["unfamiliar"])


def is_missing(value: object) -> bool:
    """Return whether a cell has no value; NaN is one that Excel could not compute."""
    return value in (None, "") or value != value


class DateColumn:
    """The column that says when rows were written; counts the rows of each month."""

    def __init__(self, key: str):
        self.key = key
        # By month: as it is if the month comes first, and if the day does.
        self._tallies: dict[tuple[str | None, str | None], Tally] = {}

    def add(self, row: Mapping[str, Any], outcome: str) -> None:
        """Count a classified row."""
        value = row.get(self.key)
        readings = month_of(value), month_of(value, day_first=True)
        self._tallies.setdefault(readings, Tally())[outcome] += 1

    @property
    def day_first(self) -> bool | None:
        """Whether 3/4/2024 is in April, by numbers above 12; None if no row shows it."""
        margin = sum(
            tally.total() * ((month_first is None) - (day_first is None))
            for (month_first, day_first), tally in self._tallies.items()
        )
        is_open = not margin and any(first != second for first, second in self._tallies)
        return None if is_open else margin > 0

    def months(self) -> dict[str | None, Tally]:
        """Return the rows of each month, such as 2024-03; under None those without a date."""
        place = 1 if self.day_first else 0
        months: dict[str | None, Tally] = {}
        for readings, tally in self._tallies.items():
            months.setdefault(readings[place], Tally()).update(tally)
        return months

    @classmethod
    def found_in(
        cls, rows: Iterable[Mapping[str, Any]], names: Sequence[str]
    ) -> "DateColumn | None":
        """Return the first column of dates, if possible one named like a date; None without one."""
        rows = list(rows)
        for name in sorted(names, key=lambda name: not DATE_NAME.search(name)):
            values = [row[name] for row in rows if not is_missing(row.get(name))]
            dated = (sum(bool(month_of(v, order)) for v in values) for order in (False, True))
            if values and max(dated) >= LEAST_DATES * len(values):
                return cls(name)
        return None


def month_of(value: object, day_first: bool | None = False) -> str | None:
    """Return the month of a date, such as 2024-03; None for anything else.

    day_first: whether 3/4/2024 is in April; None: not known, so it is no date.
    """
    if hasattr(value, "year") and hasattr(value, "month"):
        return _month(value.year, value.month)
    text = str(value).strip()
    if match := YEAR_FIRST.fullmatch(text):
        return _month(match[1], match[2])
    if match := DAY_FIRST.fullmatch(text) or MONTH_FIRST.fullmatch(text):
        return _month(match[2], match[1])
    if day_first is not None and (match := WITH_SLASHES.fullmatch(text)):
        return _month(match[3], match[2 if day_first else 1])
    if match := IN_WORDS.fullmatch(text):
        begins = [name.startswith(match[1][:3].lower()) for name in MONTHS]
        return _month(match[2], begins.index(True) + 1)
    return None


def _month(year: Any, month: Any) -> str | None:
    is_one = 1900 <= int(year) < 2200 and 1 <= int(month) <= 12
    return f"{int(year)}-{int(month):02}" if is_one else None
