"""Score a model on text: bits per character (byte of text, whatever the tokenizer).

mlstm-sentiment evaluate --data reviews.jsonl
mlstm-sentiment evaluate --model amazon_1024 --data reviews.csv --reset review --output score.json
"""

import logging
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..reading.inputs import TableOptions, as_input
from ..reading.progress import ProgressBar
from ..reading.texts import ReadingReport, read_texts
from ..version import installed_version
from .command_line import KINDS_HELP, Parser, add_json_output, add_model, add_precision, add_reading
from .program import check_apart, prepare_output, report

if TYPE_CHECKING:
    from ..files.weights import LoadedModel
    from ..text.split import Split

log = logging.getLogger(__name__)


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_model(parser)
    parser.add_argument("--data", type=Path, required=True, help=f"texts: {KINDS_HELP}")
    add_reading(parser)
    add_protocol(parser)
    add_precision(parser)
    add_json_output(parser)


def add_protocol(parser: Parser) -> None:
    """Add the options of the scoring."""
    parser.add_argument(
        "--reset",
        choices=("strip", "review"),
        default="strip",
        help="strip: texts in file order, the state carried over from one to the next; review: "
        "each text from the zero state",
    )
    parser.add_argument(
        "--lanes",
        type=int,
        help="streams into which the text is cut, processed in parallel, each from the zero state; "
        "1 processes the whole text in file order (default: up to 64; short streams first process "
        "the end of the preceding text, unscored)",
    )


def run(options: Namespace, origin: Mapping[str, Any] | None = None) -> None:
    """Score a file of texts; origin: what made the result, None: the version of this package."""
    if options.data.is_dir():
        raise InputError(
            f"{options.data}: is a folder; name a file in it. Only evaluate.py of the "
            "repository scores a prepared corpus"
        )
    check_apart([options.data], [options.output])
    texts = texts_of(options.data, options.text_key, TableOptions.from_options(options))
    score(options, lambda loaded: encode(texts, loaded), origin or {"version": installed_version()})


def texts_of(path: Path, text_key: str | None, table: TableOptions) -> list[str]:
    """Return the texts of a file; InputError if there are none."""
    report = ReadingReport()
    texts = list(read_texts([as_input(path, table)], text_key, report, strict=False))
    log.info(report.summary())
    if not texts:
        raise InputError(f"{path}: no reviews to score")
    return texts


def encode(texts: list[str], loaded: "LoadedModel") -> "Split":
    """Return texts as the tokens of a model."""
    from ..text.split import encode_split

    return encode_split(texts, loaded.profile, loaded.tokenizer)


def score(
    options: Namespace, split_for: Callable[["LoadedModel"], "Split"], origin: Mapping[str, Any]
) -> None:
    """Load the model, score it on the split that is made for it, and report."""
    prepare_output(options.output)

    from ..files.weights import load_model
    from ..inference.scoring import score_split

    loaded = load_model(options.model, device=options.device)
    loaded.model.set_precision(options.precision)
    split = split_for(loaded)
    started = perf_counter()
    with ProgressBar("evaluate", len(split.tokens)) as progress:
        scored = score_split(
            loaded.model, split, lanes=options.lanes, reset=options.reset, advance=progress.advance
        )
    result = {
        "bits_per_character": scored.bits_per_character,
        "standard_error": scored.standard_error,
        "characters": scored.characters,
        "reviews": split.reviews,
        "seconds": round(perf_counter() - started, 2),
        "reset": options.reset,
        "cold_starts": scored.cold_starts,
        "origin": origin,
    }
    report(result, options.output)
