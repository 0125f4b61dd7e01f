"""Score models on text: bits per character (byte of text, whatever the tokenizer).

mlstm-sentiment evaluate --data reviews.jsonl
mlstm-sentiment evaluate --model amazon_1024 amazon_subword_1024 --data reviews.jsonl
mlstm-sentiment evaluate --model amazon_1024 --data reviews.csv --reset review --output score.json
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..bounds import Argument
from ..errors import InputError
from ..files.shipped import SHIPPED_MODELS
from ..reading.inputs import TableOptions
from ..reading.progress import ProgressBar
from ..reading.source import Source
from ..reading.texts import ReadingReport, read_texts
from ..text.glyphs import aligned
from ..version import installed_version
from .options import KINDS_HELP, MODEL, TEXT, JsonOutput, ModelOptions, Table, TextKey
from .program import prepare_output, print_and_write, report

if TYPE_CHECKING:
    from ..engine.interface import TextModel
    from ..text.split import Split

log = logging.getLogger(__name__)

Models = Annotated[
    tuple[str, ...],
    Argument(
        group=MODEL,
        metavar="MODEL",
        help="Model directories, run directories, or names of shipped models.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Options(ModelOptions):
    """Score models on text: bits per character (byte of text, whatever the tokenizer).

    Several models get a row each, on the same texts.
    """

    data: Annotated[Path, Argument(group=TEXT, help=f"A file of texts: {KINDS_HELP}.")]
    text_key: TextKey = ()
    table: Table = field(default_factory=TableOptions)
    model: Models = ("default",)  # type: ignore[assignment]  # any number of them
    reset: Literal["strip", "review"] = "strip"
    """strip: texts in file order, the state carried over from one to the next; review: each text
    from the zero state."""
    lanes: int | None = None
    """Streams into which the text is cut, processed in parallel, each from the zero state; 1
    processes the whole text in file order. Default: up to 64; short streams first process the end
    of the preceding text, unscored."""
    output: JsonOutput = None


def run(options: Options, origin: Mapping[str, Any] | None = None) -> None:
    """Score a file of texts; origin: what made the result, None: the version of this package."""
    if options.data.is_dir():
        raise InputError(
            f"{options.data}: is a folder; name a file in it. Only evaluate.py of the "
            "repository scores a prepared corpus"
        )
    from ..text.split import encode_split

    source, counts = Source(options.data, options.text_key, options.table), ReadingReport()
    texts = list(read_texts([source.file], options.text_key, counts, strict=False))
    log.info(counts.summary())
    if not texts:
        raise InputError(f"{options.data}: no reviews to score")
    score(
        options,
        lambda loaded: encode_split(texts, loaded.profile, loaded.tokenizer),
        origin or {"version": installed_version()},
    )


def score(
    options: Options, split_for: Callable[["TextModel"], "Split"], origin: Mapping[str, Any]
) -> None:
    """Load each model, score it on the split that is made for it, and report.

    The report of a single model is its row, without a table.
    """
    prepare_output(options.output, kind="an evaluation")
    if not options.model:
        raise InputError("--model: name at least one")
    results = {_name_of(model): _scored(model, options, split_for) for model in options.model}
    if len(results) == 1:
        result = {**next(iter(results.values())), "origin": origin}
        report(result, options.output, "an evaluation")
        return
    cells = [["model", "bits per character", "standard error", "characters", "seconds"]]
    for name, row in results.items():
        bits, error = row["bits_per_character"], row["standard_error"]
        shown = f"{bits:.4f}", "-" if error is None else f"{error:.4f}"
        cells.append([name, *shown, f"{row['characters']:,}", f"{row['seconds']:.2f}"])
    rows = [{"model": name, **row} for name, row in results.items()]
    result = {"models": rows, "origin": origin}
    print_and_write(aligned(cells), result, options.output, "an evaluation")


def _name_of(model: str) -> str:
    """Return the name of a shipped model for its folder, and another folder as it is."""
    folder = Path(model)
    return folder.name if folder.parent == SHIPPED_MODELS else model


def _scored(
    name: str, options: Options, split_for: Callable[["TextModel"], "Split"]
) -> dict[str, Any]:
    from ..engine.scoring import score_split

    loaded = options.load_model(name)
    split = split_for(loaded)
    started = perf_counter()
    with ProgressBar("evaluate", len(split.tokens)) as progress:
        scored = score_split(
            loaded, split, lanes=options.lanes, reset=options.reset, advance=progress.advance
        )
    return {
        "bits_per_character": scored.bits_per_character,
        "standard_error": scored.standard_error,
        "characters": scored.characters,
        "reviews": split.reviews,
        "seconds": round(perf_counter() - started, 2),
        "reset": options.reset,
        "cold_starts": scored.cold_starts,
    }
