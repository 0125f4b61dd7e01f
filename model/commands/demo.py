"""Write the model itself into one web page, which colours and continues what you type.

mlstm-sentiment demo --output page.html
mlstm-sentiment demo --model runs/tour --neuron 7 --output page.html
"""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from .command_line import Parser, add_classifier, add_model
from .program import prepare_output

if TYPE_CHECKING:
    from ..classifiers.head import Head
    from ..files.weights import LoadedModel


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_page(parser)
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        help="the page, one file that needs neither a network nor a server",
    )


def add_page(parser: Parser) -> None:
    """Add the options of the page."""
    add_model(parser, device=False)
    add_classifier(parser)
    parser.add_argument(
        "--neuron",
        type=int,
        help="the unit that the page shows first (default: the one that the model's "
        "classifier relies on most, or without a classifier the one that varies most)",
    )
    parser.add_argument("--title", default="The sentiment neuron", help="the page's heading")


def run(options: Namespace) -> None:
    """Write the page."""
    from ..demo import write_demo

    prepare_output(options.output)
    loaded, classifier = load_shown(options)
    write_demo(loaded, classifier, options.output, options.title, unit=options.neuron)
    print(f"{options.output}: {options.output.stat().st_size / 1e6:.1f} MB; open it in a browser")


def load_shown(options: Namespace) -> "tuple[LoadedModel, Head | None]":
    """Return the model that the options name, and its classifier, if any."""
    import torch

    from ..classifiers.fitted import HOW_TO_FIT, load_fitted, shown_classifier
    from ..files.weights import load_model

    loaded = load_model(options.model, compute_dtype=torch.float32, device="cpu")
    folder = shown_classifier(loaded, options.classifier)
    fix = f"fit it again. {HOW_TO_FIT}"
    return loaded, None if folder is None else load_fitted(loaded, folder, fix)
