"""Heatmaps for people and programs: an HTML page, JSON, colours for the terminal."""

import base64
import html
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.engine import as_model
from ..engine.interface import TextModel
from ..errors import check_choice
from ..files.writer import write_content, write_json
from ..text.glyphs import visible
from ..text.profiles import checked_texts
from ..units.unit_traces import UnitTrace, UnitTraces, sentiment_traces
from .page import (
    PALETTES,
    Palette,
    background,
    check_outputs,
    fill,
    page_style,
    script_digest,
    script_safe,
    shade,
)

FORMAT_VERSION = 1
_TEMPLATE = Path(__file__).with_name("heatmap.html")
_PARTS = 32767  # of a unit's largest value: int16's largest number
_DIGITS = 6  # significant ones: what fp32 has
_RESET = "\x1b[0m"
_KNOWN_SCALE = "where its 5th or 95th percentile is after labelled texts"
_OWN_SCALE = "at its largest absolute value over all texts here"


@dataclass(frozen=True)
class Heatmap:
    """Texts coloured by a unit's value after every character; a notebook shows them."""

    traces: UnitTraces = field(repr=False)
    palette: Palette = "green-red"

    def save(self, path: str | Path) -> None:
        """Write a page or JSON, by the suffix: .html or .json."""
        write(self.traces, Path(path), self.palette)

    def _repr_html_(self) -> str:
        traces = self.traces.oriented()
        limit = traces.ranges()[0]
        return "".join(_block(trace, limit, self.palette) for trace in traces.traces)


def heatmap(
    texts: str | Iterable[str],
    model: str | Path | TextModel = "default",
    *,
    neuron: int | None = None,
    classifier: str | Path | None = None,
    palette: Palette = "green-red",
) -> Heatmap:
    """Return one text, or several, coloured by a unit's value after every character.

    model: a model directory, a run directory, the name of a shipped model, or a model.
    neuron: the unit; default: the one that the model's classifier relies on most.

    >>> heatmap("I loved it at first, then it broke.").save("heatmap.html")  # doctest: +SKIP
    """
    check_choice("palette", palette, PALETTES)
    texts = [texts] if isinstance(texts, str) else checked_texts(texts)
    units = [] if neuron is None else [neuron]
    traces = sentiment_traces(as_model(model), texts, units, classifier=classifier)
    return Heatmap(traces, palette)


def letters(
    trace: UnitTrace, limit: float, attributes: Callable[[float, float], str] = shade
) -> str:
    """Return a text as HTML: each character coloured by its value in the first unit.

    attributes: of the element of a character, by its value and the limit.
    """
    return "".join(
        f"<span {attributes(value, limit)}>{html.escape(visible(character))}</span>"
        for character, value in zip(trace.text, trace.values[:, 0].tolist(), strict=True)
    )


def _block(trace: UnitTrace, limit: float, palette: Palette) -> str:
    """Return a text as HTML that needs no style sheet."""

    def colours(value: float, limit: float) -> str:
        return f'style="color:#fff;background:rgb{background(value, limit, palette)}"'

    style = "white-space:pre-wrap;overflow-wrap:anywhere;font-family:monospace;line-height:1.7"
    spans = letters(trace, limit, colours)
    return f'<div style="{style}" dir="auto">{spans}</div><p>{html.escape(trace.verdict)}</p>'


def _as_json(traces: UnitTraces) -> dict[str, Any]:
    """Return all data: each character with its bytes and its value in every unit."""
    texts = []
    for trace in traces.traces:
        each = zip(trace.text, pairwise(trace.offsets.tolist()), trace.values, strict=True)
        characters = [
            {"character": character, "start": start, "end": end, "values": _rounded(values)}
            for character, (start, end), values in each
        ]
        texts.append({"text": trace.text, "characters": characters})
    return {
        "format_version": FORMAT_VERSION,
        "model": traces.model,
        "state": traces.state,
        "layer": traces.layer,
        "units": traces.units,
        "ranges": _rounded(traces.ranges()),
        "poles": traces.meanings()[0],
        "polarities": traces.signs(),
        "texts": texts,
    }


def _rounded(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]


def _as_html(traces: UnitTraces, palette: Palette = "green-red") -> str:
    traces = traces.oriented()
    template = _TEMPLATE.read_text(encoding="utf-8")
    ranges = _rounded(traces.ranges())
    low, high = traces.meanings()[0] or ("", "")
    content = {
        "style": page_style(),
        "palette": palette,
        "other": next(name for name in PALETTES if name != palette),
        "script_digest": script_digest(template),
        "about": html.escape(_about(traces)),
        "units": "".join(
            f'<option value="{index}">unit {unit}</option>'
            for index, unit in enumerate(traces.units)
        ),
        "low": html.escape(low),
        "high": html.escape(high),
        "limit": f"{ranges[0]:.3g}",
        "scale": _KNOWN_SCALE if traces.limits else _OWN_SCALE,
        "texts": "\n".join(
            _text(trace, number) for number, trace in enumerate(traces.traces, start=1)
        ),
        "data": script_safe(_page_data(traces)),
    }
    return fill(template, content)


def _about(traces: UnitTraces) -> str:
    model = traces.model
    layer = f", layer {traces.layer}" if traces.layer else ""
    digest = str(model.get("digest", ""))[:12]
    units, whose = ("unit", "its") if len(traces.turned) == 1 else ("units", "their")
    names = ", ".join(map(str, traces.turned))
    turned = f"; {units} {names} with {whose} sign turned" if names else ""
    return (
        f"{traces.state} state{layer} of {model.get('name', 'a model')} ({digest}), "
        f"text profile {model.get('text_profile', 'unknown')}{turned}"
    )


def _text(trace: UnitTrace, number: int) -> str:
    verdict = f'\n<p class="hint">{html.escape(trace.verdict)}</p>' if trace.verdict else ""
    return (
        f'<section class="panel">\n<h2 id="text{number}">Text {number}</h2>\n'
        f'<div class="text" role="listbox" dir="auto" aria-labelledby="text{number}" '
        f'aria-orientation="horizontal">{html.escape(visible(trace.text), quote=False)}</div>'
        f"{verdict}\n</section>"
    )


def _character_name(character: str) -> str:
    """Return a character's name and code point, in ASCII."""
    name = unicodedata.name(character, "control" if ord(character) < 0xA0 else "unnamed")
    return f"{name} U+{ord(character):04X}"


def _page_data(traces: UnitTraces) -> dict[str, Any]:
    """Return the data of the page's script, and the model's description.

    names: of the characters, by what is shown; those that are shown as another one have their names
    with the text, by their place. values: of each unit, int16, parts of its largest, in base64.
    sizes: the bytes of each character, a digit. largest: what the parts are of; ranges: where the
    colours end.
    """
    largest = np.array(traces.largest())
    characters = sorted(set().union(*(trace.text for trace in traces.traces)))
    return {
        "model": traces.model,
        "units": traces.units,
        "largest": _rounded(largest),
        "ranges": _rounded(traces.ranges()),
        "poles": traces.meanings(),
        "names": {c: _character_name(c) for c in characters if visible(c) == c},
        "texts": [
            {
                "sizes": "".join(map(str, np.diff(trace.offsets).tolist())),
                "names": {
                    at: _character_name(c) for at, c in enumerate(trace.text) if visible(c) != c
                },
                "values": [
                    base64.b64encode(np.rint(values * (_PARTS / limit)).astype("<i2")).decode()
                    for values, limit in zip(trace.values.T, largest, strict=True)
                ],
            }
            for trace in traces.traces
        ],
    }


def as_ansi(traces: UnitTraces, palette: Palette = "green-red") -> str:
    traces = traces.oriented()
    blocks = []
    for index, limit in enumerate(traces.ranges()):
        bar = "".join(_painted(" ", step / 10, 1.0, palette) for step in range(-10, 11))
        low, high = traces.legend(index)
        blocks.append(f"{low} {bar}{_RESET} {high}")
        for trace in traces.traces:
            pairs = zip(trace.text, trace.values[:, index].tolist(), strict=True)
            painted = (
                # A colour still on at the end of a line would fill the rest of it.
                f"{_RESET}\n" if c == "\n" else _painted(visible(c), value, limit, palette)
                for c, value in pairs
            )
            blocks.append("".join(painted) + _RESET)
            blocks += [trace.verdict] if trace.verdict and index == 0 else []
    return "\n".join(blocks) + "\n"


def as_plain(traces: UnitTraces) -> str:
    """Return every text without colours: one word per line, with the unit's value after it."""
    traces = traces.oriented()
    lines = []
    for index in range(len(traces.units)):
        lines.append(" to ".join(traces.legend(index)))
        for trace in traces.traces:
            for word in re.finditer(r"\S+", trace.text):
                lines.append(f"{trace.values[word.end() - 1, index]:+9.3f} {visible(word[0])}")
            lines += [trace.verdict] if trace.verdict and index == 0 else []
    return "\n".join(lines) + "\n"


def _painted(shown: str, value: float, limit: float, palette: Palette) -> str:
    red, green, blue = background(value, limit, palette)
    return f"\x1b[38;2;255;255;255;48;2;{red};{green};{blue}m{shown}"


def write(traces: UnitTraces, path: Path, palette: Palette = "green-red") -> None:
    """Write a page or JSON, by the suffix; whole or not at all."""
    check_outputs([path], [trace.text for trace in traces.traces])
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".json":
        return write_json(path, _as_json(traces), "a heatmap")
    content = _as_html(traces, palette).encode(errors="replace")  # as a folder's name may need
    write_content(path, content, "a heatmap")
