"""Colour texts by a unit's value after every character: in the terminal or on a page.

mlstm-sentiment heatmap --text "I loved it at first, then it broke. Terrible."
mlstm-sentiment heatmap --input texts.csv --top 5 --output heatmap.html
mlstm-sentiment heatmap --neuron 7 --neuron 3 --text "I loved it." \\
    --output heatmap.html --output heatmap.json
"""

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ..bounds import Argument, check_unset
from ..errors import InputError
from ..pages.page import Palette, check_outputs
from ..reading.rows import Rows
from ..reading.source import Source
from .options import TextOptions
from .program import prepare_output, say

if TYPE_CHECKING:
    from ..units.unit_traces import UnitTraces

log = logging.getLogger(__name__)

_UNIT, _OUTPUT = Argument(group="unit"), Argument(group="output")


@dataclass(frozen=True, kw_only=True)
class Options(TextOptions):
    """Colour texts by a unit's value after every character: in the terminal or on a page.

    Units are shown so that high is positive, whatever their sign in the model, where that is known:
    of the sentiment unit, and of units that separate the two classes alone. JSON has the model's
    own values; its poles say what low and high values of the first unit mean, and its polarities
    are -1 for units whose low values mean positive, 0 where that is not known. Below each text is
    the answer of the model's classifier, which uses all units and, in some models, the words. Rows
    of a file that are no answer, such as N/A, or empty once cleaned, are left out.
    """

    neuron: Annotated[tuple[int, ...], Argument(group="unit", repeated=True)] = ()
    """A unit; may be repeated. Default: the sentiment unit, the one that the model's classifier
    relies on most."""
    top: Annotated[int, _UNIT] = 0
    """Also show N more units: the sentiment unit first, then the best single-unit classifiers;
    without a classifier, the units that vary most."""
    state: Annotated[Literal["cell", "hidden"], _UNIT] = "cell"
    """Which half of the unit's state."""
    layer: Annotated[int, _UNIT] = -1
    """The layer of the unit, from 0; -1 is the last."""
    output: Annotated[tuple[Path, ...], Argument(group="output", repeated=True)] = ()
    """File to write, .html or .json; may be repeated. Default: colours in the terminal;
    without a terminal, or with NO_COLOR set, the value after each word."""
    palette: Annotated[Palette, _OUTPUT] = "green-red"
    """Colours of high and low; the second for people who cannot tell green from red."""
    ansi: Annotated[bool | None, _OUTPUT] = None
    """Always write colours to standard output, also with --output; --no-ansi: never."""


def run(options: Options) -> None:
    if not options.text and options.input is None:
        raise InputError("give a --text or an --input")
    rows: list[str] = []
    if options.input is None:
        check_unset(options, ("text_key", "table"), "is for the rows of an --input")
    else:
        source = Source(options.input, options.text_key, options.table)
        batches = Rows(source, show_progress=True).batches()
        rows = [row.text or "" for batch in batches for row in batch]
    check_outputs(options.output, [*options.text, *filter(str.strip, rows)])
    prepare_output(*options.output, kind="a heatmap")

    from ..units.unit_traces import sentiment_traces

    loaded = options.load_model()
    answers = [text for text in rows if text.strip() and loaded.profile.clean(text)]
    if left_out := len(rows) - len(answers):
        log.info("%s: %d rows without an answer left out", options.input, left_out)
    traces = sentiment_traces(
        loaded,
        [*options.text, *answers],
        options.neuron,
        top=options.top,
        state=options.state,
        layer=options.layer,
        classifier=options.classifier,
        show_progress=True,
    )
    _show(traces, options.output, options.palette, ansi=options.ansi)


def _show(
    traces: "UnitTraces", outputs: Sequence[Path], palette: Palette, *, ansi: bool | None
) -> None:
    """Write the requested files; print the texts if there are none, or if asked to."""
    from ..pages.heatmap import as_ansi, as_plain, write

    texts = "1 text" if len(traces.traces) == 1 else f"{len(traces.traces):,} texts"
    units = "unit" if len(traces.units) == 1 else "units"
    for path in outputs:
        write(traces, path, palette)
    for path in outputs:  # after all are written: the reader of stdout may leave
        say(f"{path}: {texts}, {units} {', '.join(map(str, traces.units))}")
    if ansi or not outputs:
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        coloured = is_terminal and not os.environ.get("NO_COLOR") if ansi is None else ansi
        print(as_ansi(traces, palette) if coloured else as_plain(traces), end="")
