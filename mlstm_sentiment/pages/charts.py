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
        """The share and its interval."""
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
        *_whisker("50%", share, is_upright=False),
    ]
    return _svg("share", share.in_words, drawn)


def interval_chart(value: float, low: float, high: float, largest: float, kind: str) -> str:
    """Return a value as a dot, with a whisker over its interval, on a scale from 0 to `largest`."""
    x, *ends = (_percent(min(max(part / largest, 0), 1)) for part in (value, low, high))
    drawn = [
        '<line class="grid" x1="0" x2="100%" y1="50%" y2="50%" />',
        '<line class="grid" x1="0" x2="0" y1="0" y2="100%" />',
        f'<line class="whisker" x1="{ends[0]}" x2="{ends[1]}" y1="50%" y2="50%" />',
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
        drawn.append(f'<line class="grid" x1="11%" x2="100%" y1="{y}" y2="{y}" />')
        drawn.append(f'<text class="left" x="10%" y="{y}" dy=".35em">{level:.0%}</text>')
    span = times[-1] - times[0]
    places = [_percent(0.16 + 0.79 * (time - times[0]) / span) for time in times]
    for (x, one), (after, other) in zip(
        zip(places, points, strict=True), zip(places[1:], points[1:], strict=True), strict=False
    ):
        ends = f'x1="{x}" y1="{_height(one.value)}" x2="{after}" y2="{_height(other.value)}"'
        drawn.append(f'<line class="trend" {ends} />')
    step, next_label = -(-(span + 1) // _LABELS), times[0]
    for time, x, point in zip(times, places, points, strict=True):
        name = html.escape(point.name)
        drawn += _whisker(x, point, is_upright=True)
        title = f"<title>{name}: {point.in_words} of {point.rows:,}</title>"
        drawn.append(f'<circle cx="{x}" cy="{_height(point.value)}" r="4">{title}</circle>')
        if time >= next_label:
            next_label = time + step
            drawn.append(f'<text class="under" x="{x}" y="98%">{name}</text>')
    return _svg("time", description, drawn)


def _whisker(at: str, share: Share, *, is_upright: bool) -> list[str]:
    if is_upright:
        low, high = _height(share.low), _height(share.high)
        return [f'<line class="whisker" x1="{at}" x2="{at}" y1="{low}" y2="{high}" />']
    low, high = _percent(share.low), _percent(share.high)
    return [f'<line class="whisker" x1="{low}" x2="{high}" y1="{at}" y2="{at}" />']


def _height(value: float) -> str:
    """Return the vertical position of a value from 0 to 1, above the labels of the axis."""
    return _percent(0.06 + 0.76 * (1 - value))


def _percent(value: float) -> str:
    return f"{100 * value:.2f}%"


def _svg(kind: str, description: str, drawn: Sequence[str]) -> str:
    label = html.escape(description)
    return f'<svg class="{kind}" role="img" aria-label="{label}">{"".join(drawn)}</svg>'
