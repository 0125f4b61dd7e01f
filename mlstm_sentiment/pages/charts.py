"""Charts as inline SVG, in percentages: they fit any width, and have the colours of the page."""

import html
from collections.abc import Sequence
from typing import NamedTuple

_LABELS = 4  # along the axis of time, at most


class Share(NamedTuple):
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


def stacked_bar(parts: Sequence[tuple[str, str, float]]) -> str:
    """Return a bar of parts side by side: (CSS class, name, fraction) each."""
    drawn, left = [], 0.0
    for kind, _, size in parts:
        drawn.append(f'<rect class="{kind}" x="{_percent(left)}" width="{_percent(size)}" y="0" />')
        left += size
    label = ", ".join(f"{name} {size:.0%}" for _, name, size in parts).replace("%", " %")
    return _svg("stack", label, drawn)


def share_bar(share: Share, kind: str) -> str:
    """Return a bar as long as a share, with a whisker over its interval."""
    drawn = [
        f'<rect class="{kind}" x="0" y="15%" width="{_percent(share.value)}" />',
        _line("whisker", _percent(share.low), "50%", _percent(share.high), "50%"),
    ]
    return _svg("share", share.in_words, drawn)


def interval_chart(value: float, low: float, high: float, largest: float, kind: str) -> str:
    """Return a value as a dot, with a whisker over its interval, on a scale from 0 to `largest`."""
    x, *ends = (_percent(min(max(part / largest, 0), 1)) for part in (value, low, high))
    drawn = [
        _line("grid", "0", "50%", "100%", "50%"),
        _line("grid", "0", "0", "0", "100%"),
        _line("whisker", ends[0], "50%", ends[1], "50%"),
        f'<circle class="{kind}" cx="{x}" cy="50%" r="5" />',
    ]
    return _svg("interval", f"{value:.2f}, from {low:.2f} to {high:.2f}", drawn)


def time_chart(points: Sequence[Share], times: Sequence[int], description: str) -> str:
    """Return shares over time: a line, a dot for each, whiskers over their intervals.

    times: when each point is, in any unit, in ascending order; at least two.
    """
    drawn = []
    for level in (0.0, 0.5, 1.0):
        y = _height(level)
        drawn.append(_line("grid", "11%", y, "100%", y))
        drawn.append(f'<text class="left" x="10%" y="{y}" dy=".35em">{level:.0%}</text>')
    span = times[-1] - times[0]
    places = [_percent(0.16 + 0.79 * (time - times[0]) / span) for time in times]
    for (x, one), (after, other) in zip(
        zip(places, points, strict=True), zip(places[1:], points[1:], strict=True), strict=False
    ):
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
    return _percent(0.06 + 0.76 * (1 - value))


def _percent(value: float) -> str:
    return f"{100 * value:.2f}%"


def _svg(kind: str, description: str, drawn: Sequence[str]) -> str:
    label = html.escape(description)
    return f'<svg class="{kind}" role="img" aria-label="{label}">{"".join(drawn)}</svg>'
