"""Colour texts by what a unit holds after every character: in the terminal, a page, a picture.

The sentiment unit is shown so that high is positive, whatever its sign in the model; JSON has the
model's own values, and poles, which say what its low and its high ones mean.

mlstm-sentiment heatmap --text "I loved it, until it broke."
mlstm-sentiment heatmap --text "I loved it, until it broke." --output heatmap.png
mlstm-sentiment heatmap --input texts.csv --top 5 --output heatmap.html
mlstm-sentiment heatmap --neuron 7 --neuron 3 --text "I loved it." \\
    --output heatmap.html --output heatmap.json
"""

import logging
from argparse import BooleanOptionalAction, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..reading.texts import read_plain_texts
from .command_line import Parser, add_input, add_model, add_text_key
from .program import prepare_output

if TYPE_CHECKING:
    from ..classifiers.fitted import Fitted
    from ..files.weights import LoadedModel


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_model(parser)
    parser.add_argument(
        "--text",
        action="append",
        default=[],
        help="a text; may be given several times; write one that begins with a dash as --text=-5",
    )
    add_input(parser, more="; rows without text are left out")
    add_text_key(parser)
    parser.add_argument(
        "--neuron",
        type=int,
        action="append",
        default=[],
        help="a unit; may be repeated (default: the sentiment unit, the one that the model's "
        "classifier leans on most)",
    )
    parser.add_argument(
        "--top",
        type=int,
        default=0,
        help="number of further units to show: the sentiment unit, unless it is shown already, "
        "then those that influence the model's classifier most; without a classifier, those that "
        "vary most over the texts",
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
        help="file to write, .html, .json, .svg or .png; may be repeated (default: colours in the "
        "terminal)",
    )
    parser.add_argument(
        "--palette",
        choices=("green-red", "blue-orange"),
        default="green-red",
        help="colours of high and low; the second for eyes that do not tell green from red",
    )
    parser.add_argument(
        "--ansi",
        action=BooleanOptionalAction,
        default=False,
        help="colours in the terminal as well as the files",
    )


def run(options: Namespace) -> None:
    """Read the texts and show what the units hold."""
    if not options.text and options.input is None:
        raise InputError("give a --text or an --input")
    texts = [*options.text, *texts_of(options.input, options.text_key)]

    from ..classifiers.influence import ranked_units
    from ..pages.heatmap import as_ansi, check_outputs, write
    from ..units.unit_traces import poles_of, read_texts

    check_outputs(options.output, texts)
    prepare_output(*options.output)

    import torch

    from ..files.weights import load_model

    loaded = load_model(options.model, compute_dtype=torch.float32, device=options.device)
    own = classifier_of(loaded, options)
    units = options.neuron or ([] if own is None else [own.neuron])
    first = own if own is not None and units[0] == own.neuron else None
    traces = read_texts(
        loaded,
        texts,
        units,
        top=options.top,
        ranking=[] if own is None else [own.neuron, *ranked_units(own.influence)],
        state=options.state,
        layer=options.layer,
        poles=None if first is None else poles_of(first),
        polarity=1 if first is None else first.polarity,
    )
    for path in options.output:
        write(traces, path, options.palette)
        print(f"{path}: {len(texts)} texts, units {', '.join(map(str, traces.units))}")
    if options.ansi or not options.output:
        print(as_ansi(traces, options.palette), end="")


def classifier_of(loaded: "LoadedModel", options: Namespace) -> "Fitted | None":
    """Return the model's classifier, which knows the units; None where there is none to ask.

    InputError where no unit was named and there is no classifier to name one.
    """
    from ..classifiers.fitted import own_classifier

    try:
        return own_classifier(loaded, options.layer)
    except InputError:
        if options.neuron or options.top:
            return None
        raise


def texts_of(file: str | None, text_key: str | None) -> list[str]:
    """Return the texts of a file but for the blank ones, whose number is said."""
    if file is None:
        return []
    texts = read_plain_texts(Path(file), text_key)
    shown = [text for text in texts if text.strip()]
    if len(shown) < len(texts):
        logging.info("%s: %d rows without text left out", file, len(texts) - len(shown))
    return shown
