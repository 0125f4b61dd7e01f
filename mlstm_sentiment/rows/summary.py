"""Counts classified rows by their outcome: over all of them, and by group or month."""

import logging
import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..head.answers import NEUTRAL, NO_ANSWER, NO_LABEL, UNFAMILIAR, UNSURE
from ..reading.table_model import MOST_GROUPS, OTHER_GROUPS, GroupKey, TableModel
from ..text.glyphs import aligned, visible

if TYPE_CHECKING:
    from ..head.head import Head

_log = logging.getLogger(__name__)
SHOWN_GROUPS = 20  # printed, the largest
_LONGEST_NAME = 30  # characters of a group's name that are printed
_NAME_END = 13  # printed of each end of a longer name: its end may be all that identifies a URL
Z = 1.959964  # of a 95 % interval
_MANY = 1 / 4  # of all rows unfamiliar: others may be foreign, too
DOUBTED = (
    "Many rows are unfamiliar. If they are in another language, the answers to other rows in it "
    "mean nothing: short ones are often not found."
)

Outcome = str | tuple[str, ...]  # of a row: its label; of several labels all that it has


class Tally(Counter[Outcome]):
    """The number of rows of each outcome."""

    @property
    def answered(self) -> int:
        """The number of rows in the shares: neither unfamiliar nor without an answer."""
        return self.total() - self[UNFAMILIAR] - self[NO_ANSWER]

    def rows(self, outcome: str) -> int:
        """The number of rows with this outcome, or with this one of their labels."""
        several = (n for key, n in self.items() if isinstance(key, tuple) and outcome in key)
        return self[outcome] + sum(several)

    def share(self, outcome: str) -> float:
        return self.rows(outcome) / self.answered if self.answered else math.nan

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

    model: what the columns of all rows mean. by: the column whose values are groups, by its name
    in the output. Dates are grouped by month. sides: whether the rows are labelled with two sides
    only.
    """

    def __init__(
        self, fitted: "Head", model: TableModel, by: str | None = None, *, sides: bool = False
    ):
        names = fitted.classes
        middle = [NEUTRAL, UNSURE] if fitted.has_neutral else [UNSURE]
        self.sides = sides
        self._several_labels = fitted.several_labels
        self.middle = [] if sides else middle  # outcomes between the two classes
        self.is_tested = True  # as far as the rows say: whether other languages are noticed
        self.apart = [NO_ANSWER] if sides else [UNFAMILIAR, NO_ANSWER]  # not in the shares
        self.outcomes = [names[1], *self.middle, names[0]] if fitted.is_binary else list(names)
        if self._several_labels:
            self.outcomes.append(NO_LABEL)
        self.unfamiliar = 0  # rows, also where two sides were asked for
        self.model, self.by = model, by
        self.total = Tally()
        self._tallies: dict[GroupKey, Tally] = {}
        self.tagged = 0  # rows whose text had HTML tags

    def add(self, row: Mapping[str, Any]) -> None:
        outcome = _outcome_of(row, several_labels=self._several_labels)
        self.total[outcome] += 1
        marked = str(row.get("unfamiliar")).lower()  # in a file, a cell of text
        if outcome == UNFAMILIAR or (self.sides and marked == "true"):
            self.unfamiliar += 1
        elif outcome != NO_ANSWER and marked not in ("true", "false"):
            self.is_tested = False
        if self.by is not None:
            key = self.model.group_key(row.get(self.by))
            self._tallies.setdefault(key, Tally())[outcome] += 1

    @property
    def groups(self) -> dict[str, Tally]:
        groups: dict[str, Tally] = {}
        for key, tally in self._tallies.items():
            groups.setdefault(self.model.group_name(key), Tally()).update(tally)
        return groups

    def largest_groups(self) -> dict[str, Tally]:
        """Return the largest groups, largest first, months in their order; others are added up.

        Of equally large months, the newest are returned.
        """
        groups = self.groups
        by_month = self.model.group_dates is not None
        size = {name: (tally.total(), name * by_month) for name, tally in groups.items()}
        ordered = sorted(size, key=size.__getitem__, reverse=True)
        ordered.sort(key=OTHER_GROUPS.__eq__)
        largest, others = ordered[:SHOWN_GROUPS], ordered[SHOWN_GROUPS:]
        if by_month:
            largest.sort()
        shown = {name: groups[name] for name in largest}
        for name in others:
            shown.setdefault(OTHER_GROUPS, Tally()).update(groups[name])
        return shown

    @property
    def limit_note(self) -> str:
        """Sentences for people on what is not known of the groups; else empty."""
        dates = self.model.group_dates
        parts = []
        if dates is not None and not dates.is_order_known:
            parts.append(dates.order_note)
        if self.model.has_other_groups:
            parts.append(f"Only the first {MOST_GROUPS:,} groups are counted separately.")
        return " ".join(parts)

    def log(self) -> None:
        """Print the counts, unless there is one row alone."""
        if self.total.total() > 1:
            _log.info("%s", "\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return the counts for people: a line, then one for each group."""
        known = {*self.outcomes, *self.apart}
        others = {key for key in self.total if isinstance(key, str)} - known
        outcomes = [*self.outcomes, *sorted(others), *self.apart]
        parts = [_part(self.total, outcome) for outcome in outcomes]
        rows = "1 row" if self.total.total() == 1 else f"{self.total.total():,} rows"
        lines = ["; ".join([f"{rows}: {', '.join(parts)}", *self._remarks()])]
        if self.answers_doubted:
            lines.append(DOUBTED)
        if not self._tallies:
            return lines
        cells = [["by " + visible(str(self.by)), "rows", *map(visible, outcomes)]]
        for name, tally in self.largest_groups().items():
            shown = (
                name if len(name) <= _LONGEST_NAME else f"{name[:_NAME_END]}...{name[-_NAME_END:]}"
            )
            cells.append([visible(" ".join(shown.split())), f"{tally.total():,}"])
            cells[-1] += [f"{tally.rows(outcome):,}" for outcome in outcomes]
        lines += aligned(cells)
        return [*lines, self.limit_note] if self.limit_note else lines

    @property
    def answers_doubted(self) -> bool:
        """Whether so many rows are unfamiliar that answers to others are doubtful, too."""
        return self.unfamiliar > _MANY * self.total.total()

    def _remarks(self) -> list[str]:
        total = self.total
        remarks = {
            f"shares of the {total.answered:,} answered": 0 < total.answered < total.total(),
            "a row may have several labels": self._several_labels,
            f"HTML tags left out in {self.tagged:,}": self.tagged,
            "two sides only, as asked": self.sides,
            f"{self.unfamiliar:,} of them unfamiliar": self.sides,
            "other languages not tested": not self.is_tested,
        }
        return [remark for remark, holds in remarks.items() if holds]


def _part(tally: Tally, outcome: str) -> str:
    is_answer = outcome not in (UNFAMILIAR, NO_ANSWER) and tally.answered
    share = f" ({tally.share(outcome):.0%})".replace("%", " %") if is_answer else ""
    return f"{tally.rows(outcome):,} {visible(outcome)}{share}"


def _outcome_of(row: Mapping[str, Any], *, several_labels: bool) -> Outcome:
    """Return what became of a classified row: its label, or all that it has.

    several_labels: whether the classifier wrote `labels`; else this is a column of the input.
    """
    if not several_labels:
        return str(row["label"])
    if row["labels"] is None:
        return NO_ANSWER
    return UNFAMILIAR if row["unfamiliar"] else tuple(row["labels"]) or NO_LABEL
