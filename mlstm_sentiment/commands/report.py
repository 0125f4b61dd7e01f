"""Write the page that `classify --report` writes, from what classify wrote or from a table.

mlstm-sentiment report labelled.csv --output report.html
mlstm-sentiment report comments.xlsx --by product --output report.html
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..bounds import Argument
from ..errors import InputError
from ..head.answers import (
    NEUTRAL,
    NO_ANSWER,
    UNFAMILIAR,
    UNSURE,
    added_names,
    named_by,
    unknown_answer,
)
from ..reading.inputs import TableOptions
from ..reading.progress import ProgressBar
from ..reading.rows import InputRow, Rows, own_name
from ..reading.source import STREAM, Source
from ..reading.tables import Record
from .options import KINDS_HELP, By, ClassifierFolder, ModelOptions, Table, TextKey
from .program import prepare_output

if TYPE_CHECKING:
    from ..head.head import Head
    from ..rows.summary import Summary

_ANSWERS = ("label", "probability", "unsure", "unfamiliar")  # these columns are classify's


@dataclass(frozen=True, kw_only=True)
class Options(ModelOptions):
    """Write the page that `classify --report` writes, from what classify wrote or from a table.

    A file with the columns that classify adds is not classified again: the answers on the page are
    those in the file. The texts of any other file are classified first. To keep the answers of a
    large table, classify it with --output, then report on that file.
    """

    input: Annotated[
        str,
        Argument(
            positional=True, metavar="FILE", help=f"Texts, or what classify wrote: {KINDS_HELP}."
        ),
    ]
    output: Path = Path("report.html")
    """The .html page to write."""
    text_key: TextKey = ()
    by: By = None
    table: Table = field(default_factory=TableOptions)
    classifier: ClassifierFolder = None


def run(options: Options) -> None:
    if options.input == STREAM:
        raise InputError("report needs a file; for a pipe: classify --input - --report report.html")
    source = Source(options.input, options.text_key, options.table, by=options.by)
    prepare_output(options.output, kind="a report")
    rows = Rows(source, show_progress=True)

    from ..head.sentiment_classifier import SentimentClassifier
    from ..pages.report import write_report
    from ..rows.classified_rows import classify

    classifier = SentimentClassifier(options.load_model(), options.classifier).fit()
    if set(_ANSWERS) <= set(rows.keys):
        # classify renames a column that has an answer's name, whichever answers it was asked for.
        added = added_names(classifier.fitted, neuron=True, sides=True, bits=True)
        own = options.by and own_name(options.by, added)
        if own != options.by and own in rows.keys:
            rows = Rows(replace(source, by=own))
        answers, summary = _answers_in(rows, classifier.fitted)
        write_report(options.output, answers, rows, classifier, summary)
    else:
        answered = classify(rows, classifier, progress=ProgressBar("classify"))
        write_report(options.output, answered, rows, classifier, answered.summary, answered.added)


def _answers_in(rows: Rows, head: "Head") -> "tuple[Iterator[Record], Summary]":
    """Return rows that have their answers, with their values, and what counts them meanwhile."""
    from ..rows.summary import Summary

    batches = rows.batches()
    first = next(batches)
    # A column of the input may be named sides, too.
    sides = any(str(row.record.get("sides")).lower() == "true" for row in first)
    summary = Summary(head, rows.model, rows.source.by, sides=sides)

    def answers() -> Iterator[Record]:
        for row in chain(first, chain.from_iterable(batches)):
            values = Record(_answered(row, head), row.record.place)
            summary.add(values)
            yield values

    return answers(), summary


def _answered(row: InputRow, head: "Head") -> dict[str, Any]:
    """Return a row of classify's output with its values; InputError for one it never writes.

    The label is the answer: a person may have corrected it.
    """
    values, place = dict(row.record), row.record.place
    for name, kind in (("label", str), ("probability", float)):
        cell = values.get(name)
        if cell == "" or cell != cell:  # NaN, of an empty cell
            values[name] = None
        elif isinstance(cell, str):
            try:
                values[name] = kind(cell)
            except ValueError as error:
                raise _never_written(place, name, cell) from error
    neutral = (NEUTRAL,) if head.has_neutral else ()
    names = (*head.classes, *neutral, UNSURE, UNFAMILIAR, NO_ANSWER)
    label = NO_ANSWER if values["label"] is None else named_by(str(values["label"]), names)
    if label == NO_ANSWER:
        return {**values, "label": NO_ANSWER}
    if label is None:
        hint = "; if another model gave it, name that with --model"
        raise unknown_answer(place, str(values["label"]), names, hint)
    probability = values["probability"]
    if not isinstance(probability, float | int):
        raise InputError(f"{place}: has a label but no probability; classify the file again")
    if isinstance(probability, bool) or not 0 <= probability <= 1:
        raise _never_written(place, "probability", probability)
    return {**values, "label": label}


def _never_written(place: str, name: str, value: object) -> InputError:
    return InputError(
        f"{place}: {name} is {value!r}, which classify never writes; classify the texts again"
    )
