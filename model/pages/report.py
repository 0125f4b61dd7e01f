"""The report of `classify`: one page with shares, the clearest texts in colour, rows to search."""

import heapq
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ..classifiers.answers import NEUTRAL, NO_ANSWER, UNFAMILIAR, UNSURE
from ..classifiers.sentiment_classifier import SentimentClassifier
from ..classifiers.summary import DateColumn, Summary, Tally
from ..files.writer import write_atomically
from ..reading.no_answer import NO_TEXT, reason_of_no_answer
from ..text.glyphs import visible
from ..text.markup import without_tags
from ..units.sentiment_traces import orientation_of
from ..units.unit_traces import read_texts
from .charts import Share, share_bar, stacked_bar, time_chart
from .heatmap import letters
from .page import as_utf8, fill, page_style, script_digest

TEMPLATE = Path(__file__).with_name("report.html")
CLEAREST = 8  # texts of each class
SET_APART = 20  # rows of each kind
ROWS = 2000  # to search
WIDEST_GAP = 6  # months; a longer one, as after a wrong date, is drawn as wide
SAMPLE = 64  # rows by which the column of dates is found
ORDER_UNKNOWN = (
    "No date shows whether the day or the month comes first; 3/4/2024 is taken as March 4."
)
SIDES_ONLY = " Two sides only, as asked: also for texts that are neutral, unsure or unfamiliar."
LONGEST = 600  # characters of a text that are coloured
LONGEST_CELL = 300  # characters of a text in a table
KINDS = {UNSURE: "middle", NEUTRAL: "neutral"}  # CSS classes; positive has high, negative low
ABOUT = {
    NEUTRAL: "Neither praise nor blame, such as a plain fact.",
    UNSURE: "The probability is near the threshold: neutral, mixed, or hard to tell.",
    UNFAMILIAR: "Too short, or unlike the texts that the model knows. Not in the shares.",
    NO_ANSWER: "No text, or a placeholder in its place. Not in the shares.",
}


class ReportRow(NamedTuple):
    """A row as the page shows it."""

    text: str
    outcome: str
    probability: float
    place: int
    text_hash: int  # of the whole text, of which `text` may be the beginning
    reason: str = ""  # why it is no answer


class Report:
    """Collects what the page shows, in bounded memory, while rows are classified.

    summary: counts the same rows. text_name: returns the name in the output of the texts' column.
    added: the names of the results in each row.
    """

    def __init__(
        self,
        classifier: SentimentClassifier,
        summary: Summary,
        text_name: Callable[[], str],
        added: Sequence[str],
    ):
        self._classifier, self._summary = classifier, summary
        self._text_name, self._added = text_name, set(added)
        self._sample: list[tuple[Mapping[str, Any], str]] = []
        self._dates: DateColumn | None = None
        self._is_sampled = False
        self._clearest: tuple[list[Any], list[Any]] = ([], [])  # heaps: negative, positive
        self._apart: dict[str, list[ReportRow]] = {
            outcome: [] for outcome in ABOUT if outcome in [*summary.middle, *summary.apart]
        }
        self._rows: list[ReportRow] = []
        self._count = 0

    def add(self, row: Mapping[str, Any], outcome: str) -> None:
        """Take a classified row, and what became of it."""
        text = row.get(self._text_name())
        plain = visible(" ".join(without_tags("" if text is None else str(text)).split()))
        probability = row["probability"] or 0.0
        reason = None
        if outcome == NO_ANSWER:
            reason = reason_of_no_answer(None if text is None else str(text), self._text_name())
        shown = ReportRow(
            _cut(plain, LONGEST), outcome, probability, self._count, hash(plain), reason or ""
        )
        self._count += 1
        if len(self._rows) < ROWS:
            self._rows.append(shown)
        if outcome in self._apart:
            if len(self._apart[outcome]) < SET_APART and shown.reason != NO_TEXT:
                self._apart[outcome].append(shown)
        elif outcome in self._classifier.fitted.classes:
            self._keep_clearest(shown)
        if self._is_sampled:
            return self._add_month(row, outcome)
        self._sample.append((row, outcome))
        if len(self._sample) >= SAMPLE:
            self._find_dates()

    def _keep_clearest(self, row: ReportRow) -> None:
        is_positive = row.outcome == self._classifier.fitted.classes[1]
        if is_positive != (row.probability > self._classifier.fitted.threshold):
            return  # the label was corrected, or is by another threshold
        clear = row.probability if is_positive else 1 - row.probability
        heap = self._clearest[is_positive]
        if all(row.text_hash != other.text_hash for _, _, other in heap):
            item = (clear, -row.place, row)
            (heapq.heappush if len(heap) < CLEAREST else heapq.heappushpop)(heap, item)

    def _find_dates(self) -> None:
        self._is_sampled = True
        rows = [row for row, _ in self._sample]
        names = dict.fromkeys(name for row in rows for name in row)
        hidden = self._added | {self._text_name()}
        present = [name for name in names if name not in hidden]
        by = [name for name in present if name == self._summary.by]
        self._dates = DateColumn.found_in(rows, by) or DateColumn.found_in(rows, present)
        for row, outcome in self._sample:
            self._add_month(row, outcome)

    def _add_month(self, row: Mapping[str, Any], outcome: str) -> None:
        if self._dates is not None:
            self._dates.add(row, outcome)

    def write(self, path: Path, source: str) -> None:
        """Write the page, whole or not at all. source: where the rows are from."""
        content = self.page(source).encode("utf-8", errors="replace")
        write_atomically(path, lambda temporary: temporary.write_bytes(content))

    def page(self, source: str) -> str:
        """Return the page."""
        if not self._is_sampled:
            self._find_dates()
        template = TEMPLATE.read_text(encoding="utf-8")
        name = html.escape(visible(as_utf8(source.rpartition("/")[2] or source)))
        panels = [
            self._overall(),
            self._over_time(),
            self._by_group(),
            self._clearest_texts(),
            self._set_apart(),
            self._all_rows(),
        ]
        content = {
            "style": page_style(),
            "script_digest": script_digest(template),
            "title": f"What the texts in {name} say",
            "lead": self._lead(),
            "panels": "\n".join(filter(None, panels)),
            "footer": self._footer(),
        }
        return fill(template, content)

    def _lead(self) -> str:
        total = self._summary.total
        positive, *middle, negative = self._summary.outcomes
        if not total.answered:
            return "No text got an answer."
        low, high = map(_percent, total.interval(positive))
        others = [
            f"{_percent(total.share(outcome))} {_safe(outcome)}" for outcome in (negative, *middle)
        ]
        return (
            f"Of {total.answered:,} texts, <b>{_percent(total.share(positive))} are "
            f"{_safe(positive)}</b> (95&nbsp;% interval {low} to {high}), "
            f"{_listed(others)}.{SIDES_ONLY if self._summary.sides else ''}"
        )

    def _overall(self) -> str:
        total = self._summary.total
        positive, *middle, negative = self._summary.outcomes
        kinds = [("high", positive), *((KINDS[o], o) for o in middle), ("low", negative)]
        bar = stacked_bar([(k, o, total.share(o)) for k, o in kinds]) if total.answered else ""
        rows = []
        for kind, outcome in kinds:
            share = share_of(total, outcome)
            key = f'<span class="key {kind}"></span> {_safe(outcome)}'
            rows.append((key, f"{total[outcome]:,}", share.in_words if total.answered else ""))
        for outcome in self._summary.apart:
            rows.append((f"{outcome} (set apart)", f"{total[outcome]:,}", ""))
        rows.append(("all rows", f"{total.total():,}", ""))
        return _panel("Overall", bar + _table(("answer", "#rows", "#share"), rows))

    def _over_time(self) -> str:
        if self._dates is None:
            return ""
        months = self._dates.months()
        undated = months.pop(None, Tally()).answered
        positive = self._summary.outcomes[0]
        points = [share_of(months[m], positive, m) for m in sorted(filter(None, months))]
        points = [point for point in points if point.rows]
        if len(points) < 2:
            return ""
        months_of_points = [12 * int(p.name[:4]) + int(p.name[5:]) for p in points]
        gaps = (min(after - month, WIDEST_GAP) for month, after in pairwise(months_of_points))
        times = list(accumulate(gaps, initial=0))
        column = _safe(self._dates.key)
        chart = time_chart(points, times, f"share of {positive} texts by month")
        rows = [(p.name, f"{p.rows:,}", p.in_words) for p in points]
        table = _table(("month", "#texts", f"#{_safe(positive)}"), rows)
        hints = [ORDER_UNKNOWN] if self._dates.day_first is None else []
        hints += [f"Without a date, and left out: {undated:,}."] if undated else []
        said = f'<p class="hint">{" ".join(hints)}</p>' if hints else ""
        return _panel(
            f"Share of {_safe(positive)} texts by month (column {column})",
            f"{chart}{said}<details><summary>As a table</summary>{table}</details>",
        )

    def _by_group(self) -> str:
        is_by_month = self._dates is not None and self._dates.key == self._summary.by
        if not self._summary.groups or is_by_month:
            return ""
        positive = self._summary.outcomes[0]
        rows = []
        for name, tally in self._summary.largest_groups().items():
            share = share_of(tally, positive)
            said, bar = (share.in_words, share_bar(share)) if share.rows else ("", "")
            rows.append((_cell(visible(name)), f"{share.rows:,}", said, bar))
        names = ("group", "#texts", f"#{_safe(positive)}", "")
        title = f"Share of {_safe(positive)} texts by {_safe(str(self._summary.by))}"
        note = self._summary.limit_note
        said = f'<p class="hint">{note}</p>' if note else ""
        return _panel(title, _table(names, rows, last="bar-cell") + said)

    def _clearest_texts(self) -> str:
        heaps = [sorted(heap, reverse=True) for heap in reversed(self._clearest)]
        chosen = [[row for _, _, row in heap] for heap in heaps]
        coloured = iter(self._coloured([row.text for rows in chosen for row in rows]))
        columns = []
        for outcome, rows in zip(reversed(self._classifier.fitted.classes), chosen, strict=True):
            quotes = "".join(
                f'<blockquote class="mirror">{next(coloured)}<footer>row {row.place + 1:,}, '
                f"probability of {_safe(self._classifier.fitted.classes[1])} {row.probability:.3f}"
                "</footer></blockquote>"
                for row in rows
            )
            columns.append(_panel(f"Clearest {_safe(outcome)} texts", quotes or "<p>None.</p>"))
        return f'<div class="pair">{"".join(columns)}</div>'

    def _coloured(self, texts: Sequence[str]) -> Iterable[str]:
        """Return the texts with their letters coloured by the sentiment unit."""
        loaded, fitted = self._classifier.loaded, self._classifier.fitted
        if not texts or not all(map(loaded.profile.clean, texts)):
            return map(html.escape, texts)
        options = {"show_progress": False, **orientation_of(fitted, areas=None)}
        traces = read_texts(loaded, texts, [fitted.neuron], **options).oriented()
        return map(partial(letters, limit=traces.ranges()[0]), traces.traces)

    def _set_apart(self) -> str:
        columns = []
        for outcome, rows in self._apart.items():
            count = self._summary.total[outcome]
            quotes = "".join(
                f"<blockquote>{_cell(row.text)}<footer>row {row.place + 1:,}"
                f"{row.reason and f': {row.reason}'}</footer></blockquote>"
                for row in rows
            )
            more = (
                f'<p class="hint">and {count - len(rows):,} more</p>' if count > len(rows) else ""
            )
            body = f'<p class="hint">{ABOUT[outcome]}</p>{quotes or "<p>None.</p>"}{more}'
            columns.append(_panel(f"{outcome.capitalize()}: {count:,}", body))
        return f'<div class="pair">{"".join(columns)}</div>'

    def _all_rows(self) -> str:
        rows = [
            (
                f"{row.place + 1:,}",
                _cell(row.text),
                f"{_safe(row.outcome)}{row.reason and f' ({row.reason})'}",
                "" if row.outcome == NO_ANSWER else f"{2 * row.probability - 1:+.2f}",
            )
            for row in self._rows
        ]
        table = _table(("#row", "text", "answer", "#sentiment"), rows, text=1)
        cut = f" (the first {ROWS:,} of {self._count:,})" if self._count > ROWS else ""
        search = (
            '<label class="hidden" for="search">Search the rows</label>'
            '<input type="search" id="search" autocomplete="off" '
            'placeholder="Search: battery positive">'
            '<p class="hint" id="found" aria-live="polite"></p>'
        )
        title = f"Rows{cut}"
        return f'<section class="panel" id="rows"><h2>{title}</h2>{search}{table}</section>'

    def _footer(self) -> str:
        from ..version import installed_version

        tagged = self._summary.tagged
        tags = f" HTML tags were left out in {tagged:,} texts." if tagged else ""
        model = _safe(as_utf8(self._classifier.loaded.folder.name))
        return (
            f"<p>Made by mlstm-sentiment {html.escape(installed_version())} with the "
            f"model {model}. Shares are of the texts that got an answer; intervals are "
            "95&nbsp;% (Wilson) and say nothing about the model's own mistakes. The colours "
            "show one unit of the model after each letter; the answer uses all units and the "
            f"words.{tags}</p>"
        )


def _listed(parts: Sequence[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)}, and {last}" if first else f"and {last}"


def share_of(tally: Tally, outcome: str, name: str = "") -> Share:
    """Return an outcome's share of the answered rows."""
    return Share(name, tally.share(outcome), *tally.interval(outcome), tally.answered)


def _percent(value: float) -> str:
    return f"{value:.0%}".replace("%", "&nbsp;%")


def _safe(text: str) -> str:
    return html.escape(visible(text))


def _cell(text: str) -> str:
    return html.escape(_cut(text, LONGEST_CELL))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}\u2026"


def _panel(title: str, body: str) -> str:
    return f'<section class="panel"><h2>{title}</h2>{body}</section>'


def _table(
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    last: str = "number",
    text: int | None = None,
) -> str:
    """Return a table of HTML. A name with # before it heads numbers; text: the column of texts."""
    kinds = ["number" if name.startswith("#") else "" for name in names]
    if last != "number":
        kinds[-1] = last
    if text is not None:
        kinds[text] = "text"
    head = "".join(
        f'<th scope="col" class="{kind}">{name.lstrip("#")}</th>'
        for name, kind in zip(names, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{k}">{cell}</td>' for cell, k in zip(row, kinds, strict=True))
        + "</tr>\n"
        for row in rows
    )
    head, body = f"<thead><tr>{head}</tr></thead>", f"<tbody>\n{body}</tbody>"
    return f'<div class="wide" tabindex="0"><table>{head}{body}</table></div>'
