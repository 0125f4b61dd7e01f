"""Describe a corpus or files of reviews: counts, lengths, bytes, stars, duplicates.

python scripts/describe_corpus.py data/reviews --figure reviews.png
python scripts/describe_corpus.py reviews.jsonl.gz --output reviews.json
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import command

import tyro

from data_utils.options import TextKey
from data_utils.statistics.counts import describe_corpus, describe_reviews
from data_utils.statistics.table import statistics_table
from model.errors import InputError
from model.files.storage import write_json

FIGURE_KINDS = (".png", ".pdf", ".svg")


@dataclass(frozen=True)
class Options:
    """Describe a corpus or files of reviews: counts, lengths, bytes, stars, duplicates."""

    inputs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="INPUT ...")]
    """A prepared corpus, or files of reviews in any format that prepare_corpus reads."""
    text_key: TextKey = None
    stars_key: str | None = None
    """Key of the stars. Default: the first present of overall, rating."""
    strict: bool = False
    """Refuse bytes that are not UTF-8, lone surrogates and HTML references that cannot be read,
    instead of replacing or keeping and counting them."""
    output: Path | None = None
    """JSON file for the statistics."""
    figure: Path | None = None
    """Figure: .png, .pdf or .svg."""


def main() -> None:
    options = command.parse(Options, __doc__)

    if options.figure is not None and options.figure.suffix not in FIGURE_KINDS:
        raise InputError(f"--figure {options.figure}: expected {', '.join(FIGURE_KINDS)}")
    command.prepare_output(options.output, options.figure)
    command.check_apart(options.inputs, [options.output, options.figure])
    started = perf_counter()
    statistics = describe(options.inputs, options)
    print(statistics_table(statistics))
    if options.output is not None:
        seconds = round(perf_counter() - started, 2)
        write_json(options.output, {**statistics, "seconds": seconds})
    if options.figure is not None:
        from data_utils.pictures import drawing

        with drawing(options.figure):
            from data_utils.statistics.figure import draw_statistics  # matplotlib takes a second

            draw_statistics(statistics, options.figure)


def describe(inputs: Sequence[Path], options: Options) -> dict[str, Any]:
    """Describe one corpus, or several files together."""
    folders = [path for path in inputs if path.is_dir()]
    if folders and len(inputs) == 1:
        of_files = ("text_key", "stars_key", "strict")
        command.refuse_given(options, of_files, "is for files of reviews, not for a corpus")
        return describe_corpus(inputs[0])
    if folders or not inputs:
        raise InputError("expected one prepared corpus, or one or more files of reviews")
    return describe_reviews(
        inputs,
        text_key=options.text_key,
        stars_key=options.stars_key,
        strict=options.strict,
    )


if __name__ == "__main__":
    command.run(main)
