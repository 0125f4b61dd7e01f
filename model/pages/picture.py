"""Traces as a picture: letters on the colours of the page, a curve under every line."""

import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from ..files.storage import write_atomically
from ..text.glyphs import glyph
from ..units.unit_traces import UnitTrace, UnitTraces
from .page import CARD, INK, QUIET, Palette, tint

MOST_LINES = 400  # of all texts and units: they take 130 MB while drawn
COLUMNS = 84  # of a line
WIDTH, HEIGHT = 0.105, 0.24  # inches of a character
UNDER = 0.9  # room for the curve under a line of text, in lines
DOWN, UP = 0.5, 0.42  # lines from the foot of the letters to the curve's zero, and its height
STEPS = 20  # of the scale's colours to either side


class Character(NamedTuple):
    """A character in a line."""

    column: int
    width: int  # columns
    shown: str
    share: float | None  # on the colour scale, -1 to 1; None outside of texts and scales


def write_picture(traces: UnitTraces, path: Path, palette: Palette) -> None:
    """Draw every text once per unit, under the unit's legend; write the file whole or not at all.

    Raises InputError for more lines than a picture can show.
    """
    rows = list(islice(_rows(traces.oriented()), MOST_LINES + 1))
    if len(rows) > MOST_LINES:
        raise InputError(
            f"{path}: more than {MOST_LINES} lines do not fit into a picture; give fewer texts or "
            "units, or a name that ends in .html"
        )
    figure = _draw(rows, palette)
    kind = path.suffix.lower().removeprefix(".")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a character without a font becomes a box
        write_atomically(path, lambda partial: figure.savefig(partial, format=kind, dpi=200))


def _rows(traces: UnitTraces) -> Iterator[list[Character]]:
    """Yield the lines of the picture, each as its cells."""
    for index, limit in enumerate(traces.ranges()):
        low, high = traces.legend(index)
        scale = [(" ", step / STEPS) for step in range(-STEPS, STEPS + 1, STEPS // 5)]
        yield from _lines([*_plain(f"{low} "), *scale, *_plain(f" {high}")])
        yield []
        for trace in traces.traces:
            yield from _lines(_painted(trace, trace.values[:, index].tolist(), limit))
            if trace.verdict and index == 0:
                yield from _lines(_plain(trace.verdict))
            yield []


def _plain(words: str) -> Iterator[tuple[str, None]]:
    return ((letter, None) for letter in words)


def _painted(trace: UnitTrace, values: list[float], limit: float) -> Iterator[tuple[str, float]]:
    for character, value in zip(trace.text, values, strict=True):
        yield character, max(-1.0, min(value / limit, 1.0))


def _lines(characters: Iterable[tuple[str, float | None]]) -> Iterator[list[Character]]:
    """Yield lines of at most COLUMNS columns; letters of East Asian scripts take two."""
    row: list[Character] = []
    column = 0
    for character, value in characters:
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if character == "\n" or column + width > COLUMNS:
            yield row
            row, column = [], 0
        if character != "\n":
            row.append(Character(column, width, glyph(character), value))
            column += width
    yield row


def _draw(rows: list[list[Character]], palette: Palette) -> Any:
    """Return a figure: letters on their colours, and curves."""
    from matplotlib.collections import PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    places, y = [], 0.5
    for cells in rows:
        places.append(y)
        y += 1 + UNDER * _is_text(cells)
    figure = Figure(figsize=((COLUMNS + 4) * WIDTH, (y + 0.5) * HEIGHT), facecolor=CARD)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-2, COLUMNS + 2), ylim=(y + 0.3, -0.2))
    axes.axis("off")
    style: dict[str, Any] = {"va": "center", "parse_math": False, "size": 11}
    grounds, colors = [], []
    for place, cells in zip(places, rows, strict=True):
        is_text = _is_text(cells)
        for column, width, shown, value in cells:
            if value is not None:
                grounds.append(Rectangle((column, place - 0.5), width, 1.0))
                colors.append(tint(value, palette))
            if not shown.isspace():
                own: Any = {
                    "color": INK if is_text else QUIET,
                    "family": "monospace",
                    "ha": "center",
                }
                axes.text(column + width / 2, place, shown, **style, **own)
        if is_text:
            zero = place + 0.5 + DOWN
            xs = [cell.column + cell.width / 2 for cell in cells]
            ys = [zero - UP * (cell.share or 0.0) for cell in cells]
            axes.hlines(zero, xs[0], xs[-1], color=QUIET, linewidth=0.5, linestyle=(0, (2, 3)))
            axes.text(-0.4, zero, "0", **style | {"size": 7}, color=QUIET, ha="right")
            axes.fill_between(xs, zero, ys, color=QUIET, alpha=0.15, linewidth=0)
            axes.plot(xs, ys, color=INK, linewidth=0.9, solid_joinstyle="round")
    axes.add_collection(PatchCollection(grounds, facecolors=colors, linewidths=0, zorder=0))
    return figure


def _is_text(cells: list[Character]) -> bool:
    """Whether a line belongs to a text, and not to the words and the scale around it."""
    return bool(cells) and all(cell.share is not None for cell in cells)
