"""Traces as a picture: every character on its colour, for slides and other pages."""

import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..files.storage import write_atomically
from ..text.glyphs import glyph
from ..units.unit_traces import UnitTrace, UnitTraces
from .page import Color, Palette, background

MOST_LINES = 400  # of all texts and units: they take 130 MB while drawn
COLUMNS = 84  # of a line
WIDTH, HEIGHT = 0.105, 0.24  # inches of a character
PAPER, INK, PALE = (255, 255, 255), "#222222", "white"


class Character(NamedTuple):
    """A character in a line."""

    column: int
    width: int  # columns
    shown: str
    color: Color


def write_picture(traces: UnitTraces, path: Path, palette: Palette) -> None:
    """Draw every text once per unit, under the unit's legend; write the file whole or not at all.

    Raises InputError for more lines than a picture can show.
    """
    rows = list(islice(_rows(traces.oriented(), palette), MOST_LINES + 1))
    if len(rows) > MOST_LINES:
        raise InputError(
            f"{path}: more than {MOST_LINES} lines do not fit into a picture; give fewer texts or "
            "units, or a name that ends in .html"
        )
    figure = _draw(rows)
    kind = path.suffix.lower().removeprefix(".")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a character without a font becomes a box
        write_atomically(path, lambda partial: figure.savefig(partial, format=kind, dpi=200))


def _rows(traces: UnitTraces, palette: Palette) -> Iterator[list[Character]]:
    """Yield the lines of the picture, each as its cells."""
    for index, limit in enumerate(traces.ranges()):
        low, high = traces.legend(index)
        scale = [background(step / 5, 1.0, palette) for step in range(-5, 6)]
        words = [*_plain(f"{low} "), *((" ", color) for color in scale), *_plain(f" {high}")]
        yield from _lines(words)
        for trace in traces.traces:
            yield from _lines(_painted(trace, trace.values[:, index].tolist(), limit, palette))
            if trace.verdict and index == 0:
                yield from _lines(_plain(trace.verdict))
            yield []


def _plain(words: str) -> Iterator[tuple[str, Color]]:
    return ((letter, PAPER) for letter in words)


def _painted(
    trace: UnitTrace, values: list[float], limit: float, palette: Palette
) -> Iterator[tuple[str, Color]]:
    for character, value in zip(trace.text, values, strict=True):
        yield character, background(value, limit, palette)


def _lines(characters: Iterable[tuple[str, Color]]) -> Iterator[list[Character]]:
    """Yield lines of at most COLUMNS columns; letters of East Asian scripts take two."""
    row: list[Character] = []
    column = 0
    for character, color in characters:
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if character == "\n" or column + width > COLUMNS:
            yield row
            row, column = [], 0
        if character != "\n":
            row.append(Character(column, width, glyph(character), color))
            column += width
    yield row


def _draw(rows: list[list[Character]]) -> Any:
    """Return a figure: the colours as an image of one pixel a column, letters above it."""
    from matplotlib.figure import Figure

    colors = np.full((len(rows), COLUMNS, 3), PAPER, np.uint8)
    figure = Figure(figsize=((COLUMNS + 2) * WIDTH, (len(rows) + 1) * HEIGHT))
    axes = figure.add_axes((WIDTH / figure.get_figwidth(), 0, 1, 1))
    for line, cells in enumerate(rows):
        for column, width, shown, color in cells:
            colors[line, column : column + width] = color
            ink = INK if color == PAPER else PALE
            style: dict[str, Any] = {
                "color": ink,
                "ha": "center",
                "va": "center",
                "family": "monospace",
                "size": 11,
            }
            if not shown.isspace():
                axes.text(column + width / 2, line, shown, parse_math=False, **style)
    axes.imshow(
        colors,
        extent=(0, COLUMNS, len(rows) - 0.5, -0.5),
        aspect="auto",
        interpolation="nearest",
    )
    axes.set(xlim=(0, COLUMNS + 2), ylim=(len(rows), -1))
    axes.axis("off")
    return figure
