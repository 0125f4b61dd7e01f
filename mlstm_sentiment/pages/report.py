"""The report of `classify`: what the negative texts say, the shares, every text to search."""

import html
import json
import logging
import zlib
from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ..errors import InputError
from ..files.shipped import model_name
from ..files.writer import write_content
from ..head.answers import NEUTRAL, NO_ANSWER, UNFAMILIAR, UNSURE
from ..head.sentiment_classifier import SentimentClassifier
from ..reading.no_answer import NO_TEXT, reason_of_no_answer
from ..reading.rows import Rows, own_name
from ..reading.table_model import GroupKey
from ..reading.tables import Record
from ..rows.phrases import LEAST_TEXTS, Comparison, Phrase, Phrases, pattern_of
from ..rows.summary import DOUBTED, SHOWN_GROUPS, Summary, Tally
from ..text.glyphs import visible
from ..text.markup import without_tags
from ..units.unit_traces import orientation_of, read_texts
from ..version import installed_version
from .heatmap import letters
from .page import fill, page_style, script_digest

_log = logging.getLogger(__name__)
_LABELS = 4  # along the axis of time, at most
TEMPLATE = Path(__file__).with_name("report.html")
PAGE_BYTES = 2_000_000  # at most; the rows get what the rest leaves
KEPT_CHARACTERS = 20_000_000  # of the texts that are kept for phrases, quotes and rows
CLEAREST = 5  # texts of each class
SET_APART = 10  # texts of each kind
QUOTES = 3  # of a phrase
OPEN = 4  # phrases whose quotes are open from the start
FEW = 20  # a group or month with fewer answered texts is said to have few
GROUP_PHRASES = 3  # of a group or month
WIDEST_GAP = 6  # months; a longer one, as after a wrong date, is drawn as wide
LONGEST = 300  # characters of a text that are shown
LONGEST_QUOTE = 240
_PANEL_BYTES = 4000  # of the list of all texts, without the texts
SIDES_ONLY = " Two sides only, as asked: also for texts that are neutral or unsure"
KINDS = {UNSURE: "middle", NEUTRAL: "neutral"}  # CSS classes; positive has high, negative low
ABOUT = {
    NEUTRAL: "Neither praise nor blame, such as a plain fact.",
    UNSURE: "The probability is near the threshold: neutral, mixed, or hard to tell.",
    UNFAMILIAR: "Too short, or unlike the texts that the model knows. Not in the shares.",
    NO_ANSWER: "No text, or a placeholder in its place. Not in the shares.",
}
LIMITS = (
    "The model often takes sarcasm for praise, such as “Great, another update that breaks "
    "everything.” It misses some negations, too. Read the quotes before you act on a number. It "
    "knows one language. "
)
LANGUAGES = {  # whether other languages are noticed
    True: "Texts in another one are unfamiliar to it, but short ones are often not found.",
    False: "Texts in another one were not looked for.",
}


class _Share(NamedTuple):
    """A fraction of some rows, with its 95 % interval."""

    name: str
    value: float
    low: float
    high: float
    rows: int

    @property
    def in_words(self) -> str:
        low, high = f"{self.low:.0%}", f"{self.high:.0%}"
        return f"{self.value:.0%} ({low} to {high})".replace("%", " %")


@dataclass(slots=True)
class _Entry:
    """Equal texts with the same outcome: shown once, with their number."""

    text: str
    outcome: str
    probability: float
    place: str  # in the file, of the first row
    reason: str  # why it is no answer
    count: int = 0  # rows
    groups: dict[GroupKey, None] = field(default_factory=dict)
    months: dict[tuple[str | None, ...], None] = field(default_factory=dict)


class _Report:
    """Collects what the page shows, in bounded memory, while rows are classified.

    summary: counts the same rows. added: the names of the results in a row.
    """

    def __init__(
        self,
        classifier: SentimentClassifier,
        summary: Summary,
        rows: Rows,
        added: Collection[str],
    ):
        self._classifier, self._summary, self._input = classifier, summary, rows
        self._negative, self._positive = classifier.fitted.classes
        self._own = partial(own_name, added=added)
        self._months: dict[tuple[str | None, ...], Tally] = {}  # by their names in each order
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._room = KEPT_CHARACTERS
        self._count = self._kept = 0  # rows

    def add(self, row: Record) -> None:
        model, month, outcome = self._summary.model, None, str(row["label"])
        if (dates := model.dates) is not None:
            month = dates.months(row.get(dates.name))
            self._months.setdefault(month, Tally())[outcome] += 1
        text, self._count = self._input.key.text_in(row, self._own), self._count + 1
        text = "" if text is None else str(text)
        plain = visible(" ".join(without_tags(text).split()))
        entry = self._entries.get((plain, outcome))
        if entry is None:
            if len(plain) > self._room:
                return
            self._room -= len(plain)
            column = self._own(self._input.key.key or "text")
            reason = reason_of_no_answer(text, column) if outcome == NO_ANSWER else None
            probability = row["probability"] or 0.0
            place = row.place.removeprefix(f"{self._input.source.name}, ") or f"row {self._count:,}"
            entry = _Entry(plain, outcome, probability, place, reason or "")
            self._entries[plain, outcome] = entry
        entry.count += 1
        self._kept += 1
        if self._summary.by is not None:
            entry.groups[model.group_key(row.get(self._summary.by))] = None
        if month is not None:
            entry.months[month] = None

    @cached_property
    def entries(self) -> list[_Entry]:
        """The texts in the order of their first rows; read it when all rows are added."""
        return list(self._entries.values())

    @cached_property
    def _phrases(self) -> Phrases:
        return Phrases(entry.text for entry in self.entries)

    @cached_property
    def comparisons(self) -> tuple[Comparison, Comparison]:
        """What the negative texts have that the others have not, and what the positive ones."""
        sides = {self._negative: 0, self._positive: 1, **dict.fromkeys(self._summary.middle, 2)}
        groups = np.array([sides.get(entry.outcome, -1) for entry in self.entries], np.int64)
        found = self._phrases.compare(groups)
        nothing = Comparison(0, 0, 0, 0, [])
        negative, positive, *_ = [*found, nothing, nothing]
        return negative, positive

    @property
    def _numbered(self) -> list[Phrase]:
        return [phrase for comparison in self.comparisons for phrase in comparison.phrases]

    def lines(self) -> list[str]:
        """Return the phrases for people: short tables, or that there are none."""
        sides = list(map(visible, (self._negative, self._positive)))
        lines = list(chain.from_iterable(map(Comparison.lines, self.comparisons, sides)))
        none = f"no word or phrase is more frequent in {' or '.join(sides)} texts than by chance"
        return lines or [f"{none} ({self.comparisons[0].tried:,} tried)"]

    def page(self, source: str) -> str:
        """Return the page. source: where the rows are from."""
        template = TEMPLATE.read_text(encoding="utf-8")
        name = _safe(source.rpartition("/")[2] or source)
        (negative, positive), tagged = self.comparisons, self._summary.tagged
        panels = [
            self._phrase_panel(negative, self._negative, 0),
            self._phrase_panel(positive, self._positive, len(negative.phrases)),
            self._by_group(),
            self._over_time(),
            self._overall(),
            _panel(
                "What this page cannot see", f"<p>{LIMITS}{LANGUAGES[self._summary.is_tested]}</p>"
            ),
            self._clearest_texts(),
            self._set_apart(),
        ]
        content = {
            "style": page_style(),
            "script_digest": script_digest(template),
            "title": f"What the texts in {name} say",
            "lead": self._lead(),
            "about": f"{name}: {_safe(self._input.about)}",
            "panels": "\n".join(filter(None, panels)),
            "version": html.escape(installed_version()),
            "model": _safe(model_name(self._classifier.loaded.folder)),
            "tags": f" HTML tags were left out in {tagged:,} texts." if tagged else "",
        }
        size = len(template) + sum(len(part.encode(errors="replace")) for part in content.values())
        return fill(template, content | self._rows(PAGE_BYTES - size))

    def _lead(self) -> str:
        total = self._summary.total
        positive, *middle, negative = self._summary.outcomes
        if not total.answered:
            return "No text got an answer."
        low, high = map(_percent, total.interval(negative))
        others = [
            f"{_percent(total.share(outcome))} {_safe(outcome)}" for outcome in (*middle, positive)
        ]
        others[-1] = f"and {others[-1]}"
        sides = f"{SIDES_ONLY}, and the {self._summary.unfamiliar:,} unfamiliar ones."
        return (
            f"Of {total.answered:,} texts, <b>{_percent(total.share(negative))} are "
            f"{_safe(negative)}</b> (95&nbsp;% interval {low} to {high}), "
            f"{', '.join(others)}.{sides if self._summary.sides else ''}"
            f"{f' {DOUBTED}' if self._summary.answers_doubted else ''}"
        )

    def _phrase_panel(self, comparison: Comparison, side: str, first: int) -> str:
        shown: set[int] = set()
        items = [
            self._phrase(phrase, comparison, side, first + n, shown)
            for n, phrase in enumerate(comparison.phrases)
        ]
        rule = (
            f"{comparison.tried:,} words and phrases were tried, those in at least {LEAST_TEXTS} "
            f"of {comparison.chosen + comparison.others:,} different texts. "
        )
        if comparison.differing:
            rule += (
                f"{comparison.differing:,} are more frequent here: their intervals exclude zero. "
                "Those in mostly the same texts are shown as one. If the answers were chance, "
                "nothing would be listed in 19 of 20 tables."
            )
        else:
            rule += "None is more frequent here by more than chance: no interval excludes zero."
        title = f"What the {_safe(side)} texts have that the others have not"
        cut = self._count - self._kept
        kept = f" {cut:,} further rows were not looked at, to save memory." if cut else ""
        kind = "high" if side == self._positive else "low"
        body = f'<div class="phrases {kind}">{"".join(items)}</div>' if items else ""
        return _panel(title, f'{body}<p class="hint">{rule}{kept}</p>')

    def _phrase(
        self,
        phrase: Phrase,
        sizes: Comparison,
        side: str,
        number: int,
        shown: set[int],
    ) -> str:
        """Return a phrase with its counts, interval and quotes.

        sizes: of the texts compared. number: of the phrase on the page. shown: what is quoted.
        """
        is_positive = side == self._positive
        kind = "high" if is_positive else "low"
        limit = max(phrase.high for phrase in self._numbered)
        chart = _interval_chart(phrase.log_odds, phrase.low, phrase.high, limit, kind)
        folded = ", ".join(f"{_safe(name)} ({count:,})" for name, count in phrase.folded)
        also = f"<br>With it: {folded}" if folded else ""
        texts = [n for n in phrase.texts.tolist() if self.entries[n].outcome == side]
        clear = sorted(texts, key=lambda n: self.entries[n].probability, reverse=is_positive)
        quoted = sorted(clear, key=shown.__contains__)[:QUOTES]
        shown.update(quoted)
        quotes = "".join(self._quote(self.entries[n], phrase.name) for n in quoted)
        return (
            f"<details{' open' if len(shown) <= OPEN * QUOTES else ''}>"
            f"<summary><b>{_safe(phrase.name)}</b> <span>{phrase.chosen:,} of {sizes.chosen:,} "
            f"{_safe(side)} texts, {phrase.others:,} of {sizes.others:,} others</span>{chart}"
            f'</summary><p class="hint">Log-odds {phrase.in_words}{also}</p>{quotes}'
            f'<button type="button" data-phrase="{number}" data-answer="{_safe(side)}">'
            f"Show all {len(texts):,} in the table</button></details>"
        )

    def _quote(self, entry: _Entry, phrase: str) -> str:
        """Return a quote with the phrase marked; of a long text the part around the phrase."""
        match = pattern_of(phrase).search(entry.text)
        start, end = match.span() if match else (0, 0)
        begin = max(0, min(start - LONGEST_QUOTE // 3, len(entry.text) - LONGEST_QUOTE))
        begin = begin if len(entry.text) > LONGEST_QUOTE else 0
        stop = max(begin + LONGEST_QUOTE, end)
        parts = [entry.text[begin:start], entry.text[start:end], entry.text[end:stop]]
        before, own, after = map(html.escape, parts)
        marked = f"{before}<mark>{own}</mark>{after}" if match else before + own + after
        cut = "\u2026" * (begin > 0), "\u2026" * (stop < len(entry.text))
        return f"<blockquote>{cut[0]}{marked}{cut[1]}<footer>{_place(entry)}</footer></blockquote>"

    def _by_group(self) -> str:
        groups = self._summary.groups
        if not groups or self._summary.model.group_dates is not None:
            return ""
        name_of = self._summary.model.group_name
        order = sorted(groups, key=lambda name: self._rank(groups[name]))
        shown = [_share_of(groups[name], self._negative, name) for name in order[:SHOWN_GROUPS]]
        own = [next(map(name_of, entry.groups), "") for entry in self.entries]
        title = f"by {_safe(str(self._summary.by))}, worst first"
        rest = [groups[name] for name in order[SHOWN_GROUPS:]]
        more = (
            f"{len(rest):,} more groups, {sum(t.answered for t in rest):,} texts." if rest else ""
        )
        return self._breakdown("group", title, shown, own, [more, self._summary.limit_note])

    def _rank(self, tally: Tally) -> tuple[bool, float]:
        """Return what sorts the worst group first; those with few texts come last, by size."""
        is_few = tally.answered < FEW
        return is_few, -(tally.answered if is_few else tally.share(self._negative))

    def _over_time(self) -> str:
        if (dates := self._summary.model.dates) is None:
            return ""
        months: dict[str | None, Tally] = {}
        for key, tally in self._months.items():
            months.setdefault(dates.settled(key), Tally()).update(tally)
        undated = months.pop(None, Tally()).answered
        points = [_share_of(months[m], self._negative, m) for m in sorted(filter(None, months))]
        points = [point for point in points if point.rows]
        if len(points) < 2:
            return ""
        months_of_points = [12 * int(p.name[:4]) + int(p.name[5:]) for p in points]
        gaps = (min(after - month, WIDEST_GAP) for month, after in pairwise(months_of_points))
        times = list(accumulate(gaps, initial=0))
        chart = _time_chart(points, times, f"share of {_safe(self._negative)} texts by month")
        settled = cache(dates.settled)
        own = [next(map(settled, entry.months), None) or "" for entry in self.entries]
        notes = [] if dates.is_order_known else [dates.order_note]
        notes += [f"Without a date, and left out: {undated:,}."] if undated else []
        title = f"by month (column {_safe(dates.name)})"
        return self._breakdown("month", title, points, own, notes, chart)

    def _breakdown(
        self,
        kind: Literal["group", "month"],
        title: str,
        shares: Sequence[_Share],
        own: Sequence[str],
        notes: Sequence[str],
        chart: str = "",
    ) -> str:
        """Return a panel with a row for each share, of a group or a month.

        A row has what its negative texts say more often than those of all others. own: the group
        of each entry, or nothing.
        """
        numbers = {share.name: number for number, share in enumerate(shares)}
        groups = np.array(
            [
                numbers.get(group, len(shares)) if entry.outcome == self._negative else -1
                for entry, group in zip(self.entries, own, strict=True)
            ],
            np.int64,
        )
        found = self._phrases.compare(groups, GROUP_PHRASES)
        phrases = dict[str, str]()
        for share, comparison in zip(shares, found, strict=False):  # the others have no texts
            listed = (f"{_safe(p.name)} ({p.chosen:,})" for p in comparison.phrases)
            phrases[share.name] = ", ".join(listed)
        negative, has_bars, rows = _safe(self._negative), not chart, []
        for share in shares:
            button = (
                f'<button type="button" class="quiet" data-{kind}="{_safe(share.name)}">'
                f"{_cell(visible(share.name))}</button>"
            )
            value, bar = (share.in_words, _share_bar(share)) if share.rows else ("", "")
            number = f"{share.rows:,}{' (few)' * (share.rows < FEW)}"
            rows.append([button, number, value, *[bar] * has_bars])
            rows[-1].append(phrases.get(share.name, ""))
        names = [kind, "#texts", f"#{negative}", *["|"] * has_bars]
        table = _table([*names, f"more often in its {negative} texts"], rows)
        few = any(share.rows < FEW for share in shares)
        notes = [f"Few: fewer than {FEW} texts, so that the share says little." * few, *notes]
        hint = f'<p class="hint">{said}</p>' if (said := " ".join(filter(None, notes))) else ""
        folded = f"<details open><summary>As a table</summary>{table}</details>"
        body = f"{chart}{hint}{folded}" if chart else table + hint
        return _panel(f"Share of {negative} texts {title}", body)

    def _overall(self) -> str:
        total = self._summary.total
        positive, *middle, negative = self._summary.outcomes
        kinds = [("low", negative), *((KINDS[o], o) for o in middle[::-1]), ("high", positive)]
        bar = _stacked_bar([(k, o, total.share(o)) for k, o in kinds]) if total.answered else ""
        rows = []
        for kind, outcome in kinds:
            share = _share_of(total, outcome)
            key = f'<span class="key {kind}"></span> {_safe(outcome)}'
            rows.append((key, f"{total[outcome]:,}", share.in_words if total.answered else ""))
        for outcome in self._summary.apart:
            rows.append((f"{outcome} (set apart)", f"{total[outcome]:,}", ""))
        rows.append(("all rows", f"{total.total():,}", ""))
        return _panel("Overall", bar + _table(("answer", "#rows", "#share"), rows))

    def _clearest_texts(self) -> str:
        fitted = self._classifier.fitted
        chosen = []
        for side, is_positive in ((self._negative, False), (self._positive, True)):
            # A label that was corrected, or is by another threshold, is not clear.
            entries = [
                entry
                for entry in self.entries
                if entry.outcome == side and (entry.probability > fitted.threshold) == is_positive
            ]
            entries.sort(key=attrgetter("probability"), reverse=is_positive)
            chosen.append(entries[:CLEAREST])
        shown = [_cut(entry.text) for entries in chosen for entry in entries]
        coloured = iter(self._coloured(shown))
        columns = []
        for outcome, entries in zip(fitted.classes, chosen, strict=True):
            quotes = "".join(
                f'<blockquote class="mirror">{next(coloured)}<footer>{_place(entry)}, '
                f"probability of {_safe(self._positive)} {entry.probability:.3f}"
                "</footer></blockquote>"
                for entry in entries
            )
            columns.append(_panel(f"Clearest {_safe(outcome)} texts", quotes or "<p>None.</p>"))
        return f'<div class="pair">{"".join(columns)}</div>'

    def _coloured(self, texts: Sequence[str]) -> Iterable[str]:
        loaded, fitted = self._classifier.loaded, self._classifier.fitted
        if not texts or not all(map(loaded.profile.clean, texts)):
            return map(html.escape, texts)
        traces = read_texts(loaded, texts, [fitted.neuron])
        traces = replace(traces, **orientation_of(fitted, areas=None)).oriented()
        return map(partial(letters, limit=traces.ranges()[0]), traces.traces)

    def _set_apart(self) -> str:
        columns = []
        for outcome in ABOUT:
            if outcome not in [*self._summary.middle, *self._summary.apart]:
                continue
            count = self._summary.total[outcome]
            own = (e for e in self.entries if e.outcome == outcome and e.reason != NO_TEXT)
            quotes = "".join(
                f"<blockquote>{_cell(entry.text)}<footer>{_place(entry)}"
                f"{entry.reason and f': {entry.reason}'}</footer></blockquote>"
                for entry, _ in zip(own, range(SET_APART), strict=False)
            )
            button = (
                f'<button type="button" data-answer="{_safe(outcome)}">'
                "Show all in the table</button>"
            )
            about = ABOUT[outcome]
            if outcome == UNFAMILIAR and not self._summary.is_tested:
                about = f"Too short. {LANGUAGES[False]}"
            body = f'<p class="hint">{about}</p>{quotes}{button if count else "None."}'
            columns.append(_panel(f"{outcome.capitalize()}: {count:,}", body))
        return f'<div class="pair">{"".join(columns)}</div>'

    def _rows(self, room: int) -> dict[str, str]:
        """Return what the panel of all texts shows, in at most `room` bytes together."""
        columns = self._label_columns()
        shown, data = len(self.entries), self._packed(len(self.entries), columns)
        while len(data) > room - _PANEL_BYTES and shown:
            shown = int(0.95 * shown * max(room - _PANEL_BYTES, 0) / len(data))
            data = self._packed(shown, columns)
        cut = f" (the first {shown:,} of {len(self.entries):,})" * (shown < len(self.entries))
        selects = "".join(
            f'<label>{self._named(name)} <select id="{name}"><option value="">all</option>'
            "</select></label>"
            for name in ("answer", *columns)
        )
        head = "".join(
            f'<th scope="col" class="{name}" aria-sort="none">'
            f'<button type="button" class="quiet">{self._named(name)}</button></th>'
            for name in ("place", "text", "times", "answer", "sentiment", *columns)
        )
        return {"cut": cut, "selects": selects, "head": head, "data": data}

    def _named(self, column: str) -> str:
        return _safe(str(self._summary.by)) if column == "group" else column

    def _packed(self, count: int, columns: Mapping[str, list[list[str]]]) -> str:
        """Return the data of the first texts: JSON, compressed, in letters that HTML allows."""
        shown = self.entries[:count]
        data = {
            "texts": [_cut(entry.text) for entry in shown],
            "places": [visible(entry.place) for entry in shown],
            "times": [entry.count for entry in shown],
            "reasons": [entry.reason for entry in shown],
            "sentiment": [
                None if e.outcome == NO_ANSWER else round(200 * e.probability - 100) for e in shown
            ],
            "labels": {
                "answer": _coded([[entry.outcome] for entry in shown]),
                **{name: _coded(labels[:count]) for name, labels in columns.items()},
            },
            "phrases": [[p.name, p.texts[p.texts < count].tolist()] for p in self._numbered],
        }
        return b64encode(zlib.compress(json.dumps(data).encode())).decode()

    def _label_columns(self) -> dict[str, list[list[str]]]:
        model, columns = self._summary.model, {}
        if self._summary.by is not None and model.group_dates is None:
            columns["group"] = [list(map(model.group_name, entry.groups)) for entry in self.entries]
        if (dates := model.dates) is not None:
            settled = cache(dates.settled)
            months = [map(settled, entry.months) for entry in self.entries]
            columns["month"] = [list(filter(None, dict.fromkeys(own))) for own in months]
        return columns


def write_report(
    page: Path,
    answered: Iterable[Record],
    rows: Rows,
    classifier: SentimentClassifier,
    summary: Summary,
    added: Collection[str] = (),
) -> None:
    """Write the report of rows with their answers, and print the counts and the phrases.

    summary: counts the rows while they come. added: the names of the results that a row gains.
    Raises InputError, before it asks for a row, unless there are two classes.
    """
    if not classifier.fitted.is_binary:
        count = len(classifier.fitted.classes)
        several = ", and a text may have both" * classifier.fitted.several_labels
        raise InputError(
            f"a report shows two classes; this classifier has {count}{several}: leave the report "
            "out, and count the labels of the output"
        )

    report = _Report(classifier, summary, rows, added)
    for row in answered:
        report.add(row)
    summary.tagged = rows.tagged
    summary.log()
    _log.info("%s", "\n".join(report.lines()))
    content = report.page(rows.source.title).encode("utf-8", errors="replace")
    write_content(page, content, "a report")
    _log.info("%s: open it in a browser", page)


def _share_of(tally: Tally, outcome: str, name: str = "") -> _Share:
    return _Share(name, tally.share(outcome), *tally.interval(outcome), tally.answered)


def _coded(labels: Sequence[Sequence[str]]) -> dict[str, Any]:
    names = {name: n for n, name in enumerate(dict.fromkeys(chain.from_iterable(labels)))}
    codes = [[names[name] for name in own] for own in labels]
    return {
        "names": list(map(visible, names)),
        "codes": [own[0] if len(own) == 1 else own for own in codes],
    }


def _percent(value: float) -> str:
    return f"{value:.0%}".replace("%", "&nbsp;%")


def _safe(text: str) -> str:
    return html.escape(visible(text))


def _cell(text: str) -> str:
    return html.escape(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\u2026"


def _place(entry: _Entry) -> str:
    return _safe(entry.place) + (f", {entry.count:,} times" if entry.count > 1 else "")


def _panel(title: str, body: str) -> str:
    return f'<section class="panel"><h2>{title}</h2>{body}</section>'


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of HTML. A name with # before it heads numbers; | heads bars."""
    kinds = [{"#": "number", "|": "bar-cell"}.get(name[0], "") for name in names]
    head = "".join(
        f'<th scope="col" class="{kind}">{name.strip("#|")}</th>'
        for name, kind in zip(names, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{k}">{cell}</td>' for cell, k in zip(row, kinds, strict=True))
        + "</tr>\n"
        for row in rows
    )
    head, body = f"<thead><tr>{head}</tr></thead>", f"<tbody>\n{body}</tbody>"
    label = html.escape(names[0].strip("#"))
    region = f'<div class="wide" role="region" aria-label="by {label}" tabindex="0">'
    return f"{region}<table>{head}{body}</table></div>"


def _stacked_bar(parts: Sequence[tuple[str, str, float]]) -> str:
    """Return a bar of parts side by side: (CSS class, name, fraction) each."""
    drawn, left = [], 0.0
    for kind, _, size in parts:
        drawn.append(f'<rect class="{kind}" x="{_length(left)}" width="{_length(size)}" y="0" />')
        left += size
    label = ", ".join(f"{name} {size:.0%}" for _, name, size in parts).replace("%", " %")
    return _svg("stack", label, drawn)


def _share_bar(share: _Share) -> str:
    """Return a bar as long as a share, with a whisker over its interval."""
    drawn = [
        f'<rect class="low" x="0" y="15%" width="{_length(share.value)}" />',
        _line("whisker", _length(share.low), "50%", _length(share.high), "50%"),
    ]
    return _svg("share", share.in_words, drawn)


def _interval_chart(value: float, low: float, high: float, largest: float, kind: str) -> str:
    """Return a value as a dot, with a whisker over its interval, on a scale from 0 to `largest`."""
    x, *ends = (_length(min(max(part / largest, 0), 1)) for part in (value, low, high))
    drawn = [
        _line("grid", "0", "50%", "100%", "50%"),
        _line("grid", "0", "0", "0", "100%"),
        _line("whisker", ends[0], "50%", ends[1], "50%"),
        f'<circle class="{kind}" cx="{x}" cy="50%" r="5" />',
    ]
    return _svg("interval", f"{value:.2f}, from {low:.2f} to {high:.2f}", drawn)


def _time_chart(points: Sequence[_Share], times: Sequence[int], description: str) -> str:
    """Return shares over time: a line, a dot for each, whiskers over their intervals.

    times: when each point is, in any unit, in ascending order; at least two.
    """
    drawn = []
    for level in (0.0, 0.5, 1.0):
        y = _height(level)
        drawn.append(_line("grid", "11%", y, "100%", y))
        drawn.append(f'<text class="left" x="10%" y="{y}" dy=".35em">{level:.0%}</text>')
    span = times[-1] - times[0]
    places = [_length(0.16 + 0.79 * (time - times[0]) / span) for time in times]
    for (x, one), (after, other) in pairwise(zip(places, points, strict=True)):
        drawn.append(_line("trend", x, _height(one.value), after, _height(other.value)))
    step, next_label = -(-(span + 1) // _LABELS), times[0]
    for time, x, point in zip(times, places, points, strict=True):
        name = html.escape(point.name)
        drawn.append(_line("whisker", x, _height(point.low), x, _height(point.high)))
        title = f"<title>{name}: {point.in_words} of {point.rows:,}</title>"
        drawn.append(f'<circle cx="{x}" cy="{_height(point.value)}" r="4">{title}</circle>')
        if time >= next_label:
            next_label = time + step
            drawn.append(f'<text class="under" x="{x}" y="98%">{name}</text>')
    return _svg("time", description, drawn)


def _line(kind: str, x1: str, y1: str, x2: str, y2: str) -> str:
    return f'<line class="{kind}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}" />'


def _height(value: float) -> str:
    """Return the vertical position of a value from 0 to 1, above the labels of the axis."""
    return _length(0.06 + 0.76 * (1 - value))


def _length(value: float) -> str:
    return f"{100 * value:.2f}%"


def _svg(kind: str, description: str, drawn: Sequence[str]) -> str:
    label = html.escape(description)
    return f'<svg class="{kind}" role="img" aria-label="{label}">{"".join(drawn)}</svg>'
