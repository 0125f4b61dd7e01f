"""Colour texts by what a unit holds after every character: a page, JSON, or in the terminal.

mlstm-sentiment heatmap --text "I loved it, until it broke."
mlstm-sentiment heatmap --input texts.csv --top 5 --output heatmap.html
mlstm-sentiment heatmap --neuron 7 --neuron 3 --text "I loved it." \\
    --output heatmap.html --output heatmap.json
"""

import logging
from argparse import BooleanOptionalAction, Namespace
from pathlib import Path

from ..errors import InputError
from ..reading.texts import read_plain_texts
from .command_line import Parser
from .options import add_input, add_model, add_text_key
from .program import prepare_output


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_model(parser)
    parser.add_argument(
        "--text",
        action="append",
        default=[],
        help="a text; also several times. One that begins with a dash: --text=-5",
    )
    add_input(parser, more="; rows without text are left out")
    add_text_key(parser)
    parser.add_argument(
        "--neuron",
        type=int,
        action="append",
        default=[],
        help="a unit; also several times. Absent, unless there is --top, the unit with the largest "
        "weight in the model's classifier",
    )
    parser.add_argument(
        "--top", type=int, default=0, help="so many units more: those that vary most over the texts"
    )
    parser.add_argument(
        "--state", choices=("cell", "hidden"), default="cell", help="which half of the unit's state"
    )
    parser.add_argument(
        "--layer", type=int, default=-1, help="of the stack, from 0; -1 is the last"
    )
    parser.add_argument(
        "--output",
        type=Path,
        action="append",
        default=[],
        help="a file to write, .html or .json; also several times. Absent, colours in the terminal",
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

    from ..pages.heatmap import as_ansi, check_outputs, write
    from ..units.unit_traces import poles_of, read_texts

    check_outputs(options.output, texts)
    prepare_output(*options.output)

    import torch

    from ..classifiers.fitted import own_classifier
    from ..files.weights import load_model

    loaded = load_model(options.model, compute_dtype=torch.float32, device=options.device)
    named = options.neuron or options.top
    classifier = None if named else own_classifier(loaded, options.layer)
    traces = read_texts(
        loaded,
        texts,
        options.neuron if classifier is None else [classifier.neuron],
        top=options.top,
        state=options.state,
        layer=options.layer,
        poles=None if classifier is None else poles_of(classifier),
    )
    for path in options.output:
        write(traces, path)
        print(f"{path}: {len(texts)} texts, units {', '.join(map(str, traces.units))}")
    if options.ansi or not options.output:
        print(as_ansi(traces), end="")


def texts_of(file: str | None, text_key: str | None) -> list[str]:
    """Return the texts of a file but for the blank ones, whose number is said."""
    if file is None:
        return []
    texts = read_plain_texts(Path(file), text_key)
    shown = [text for text in texts if text.strip()]
    if len(shown) < len(texts):
        logging.info("%s: %d rows without text left out", file, len(texts) - len(shown))
    return shown
