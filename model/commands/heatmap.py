"""Colour texts by what a unit holds after every character: in the terminal or on a page.

Units are shown so that high is positive, whatever their sign in the model, where that is known: of
the sentiment unit, and of units that separate the two classes alone. JSON has the model's own
values; its poles say what low and high values of the first unit mean, and its polarities are -1 for
units whose low values mean positive, 0 where that is not known. Below each text is the answer of
the model's classifier, which uses all units and, in some models, the words.

mlstm-sentiment heatmap --text "I loved it at first, then it broke. Terrible."
mlstm-sentiment heatmap --input texts.csv --top 5 --output heatmap.html
mlstm-sentiment heatmap --neuron 7 --neuron 3 --text "I loved it." \\
    --output heatmap.html --output heatmap.json
"""

import logging
import os
import sys
from argparse import BooleanOptionalAction, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..pages.outputs import check_outputs
from ..reading.inputs import TableOptions
from ..reading.texts import read_plain_texts
from .command_line import Parser, add_classifier, add_input, add_model, add_reading, refuse_reading
from .program import check_apart, prepare_output

if TYPE_CHECKING:
    from ..text.profiles import TextProfile
    from ..units.unit_traces import UnitTraces


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_model(parser)
    add_classifier(parser)
    parser.add_argument(
        "--text",
        action="append",
        default=[],
        help="a text; may be given several times; write one that begins with a dash as --text=-meh",
    )
    add_input(parser, more="; rows whose text is missing, or empty once cleaned, are left out")
    add_reading(parser)
    parser.add_argument(
        "--neuron",
        type=int,
        action="append",
        default=[],
        help="a unit; may be repeated (default: the sentiment unit, the one that the model's "
        "classifier relies on most)",
    )
    parser.add_argument(
        "--top",
        type=int,
        default=0,
        help="also show this many more units: the sentiment unit first, then the best single-unit "
        "classifiers; without a classifier, the units that vary most",
    )
    parser.add_argument(
        "--state", choices=("cell", "hidden"), default="cell", help="which half of the unit's state"
    )
    parser.add_argument(
        "--layer", type=int, default=-1, help="the layer of the unit, from 0; -1 is the last"
    )
    parser.add_argument(
        "--output",
        type=Path,
        action="append",
        default=[],
        help="file to write, .html or .json; may be repeated (default: colours in the "
        "terminal; without a terminal, or with NO_COLOR set, the value after each word)",
    )
    parser.add_argument(
        "--palette",
        choices=("green-red", "blue-orange"),
        default="green-red",
        help="colours of high and low; the second for people who cannot tell green from red",
    )
    parser.add_argument(
        "--ansi",
        action=BooleanOptionalAction,
        help="always write colours to standard output, also with --output; --no-ansi: never",
    )


def run(options: Namespace) -> None:
    """Read the texts and show the units' values."""
    if not options.text and options.input is None:
        raise InputError("give a --text or an --input")
    rows: list[str] = []
    if options.input is None:
        refuse_reading(options, "is for the rows of an --input")
    else:
        rows = read_plain_texts(options.input, options.text_key, TableOptions.from_options(options))

    check_apart([Path(options.input or "-")], options.output)
    check_outputs(options.output, [*options.text, *filter(str.strip, rows)])
    prepare_output(*options.output)

    import torch

    from ..files.weights import load_model
    from ..units.sentiment_traces import sentiment_traces

    loaded = load_model(options.model, compute_dtype=torch.float32, device=options.device)
    traces = sentiment_traces(
        loaded,
        [*options.text, *shown_of(rows, loaded.profile, options.input)],
        options.neuron,
        top=options.top,
        state=options.state,
        layer=options.layer,
        classifier=options.classifier,
    )
    show(traces, options)


def show(traces: "UnitTraces", options: Namespace) -> None:
    """Write the requested files; print the texts if there are none, or if asked to."""
    from ..pages.heatmap import as_ansi, as_plain, write

    texts = "1 text" if len(traces.traces) == 1 else f"{len(traces.traces):,} texts"
    units = "unit" if len(traces.units) == 1 else "units"
    for path in options.output:
        write(traces, path, options.palette)
    for path in options.output:  # after all are written: the reader of stdout may leave
        print(f"{path}: {texts}, {units} {', '.join(map(str, traces.units))}")
    if options.ansi or not options.output:
        coloured = in_colours(options.ansi)
        print(as_ansi(traces, options.palette) if coloured else as_plain(traces), end="")


def in_colours(asked: bool | None) -> bool:
    """Return whether to colour stdout: as asked, else on a terminal, unless NO_COLOR is set."""
    if asked is not None:
        return asked
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def shown_of(rows: Sequence[str], profile: "TextProfile", file: str | None) -> list[str]:
    """Return a file's texts that are not empty once cleaned; log the number of others."""
    shown = [text for text in rows if text.strip() and profile.clean(text)]
    if len(shown) < len(rows):
        logging.info("%s: %d rows without text left out", file, len(rows) - len(shown))
    return shown
