"""Write the page that `classify --report` writes, from what classify wrote or from a table.

A file with the columns that classify adds is not classified again: the answers on the page are
those in the file. The texts of any other file are classified first. To keep the answers of a large
table, classify it with --output, then report on that file.

mlstm-sentiment report labelled.csv --output report.html
mlstm-sentiment report comments.xlsx --by product --output report.html
"""

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..classifiers.answers import NEUTRAL, UNFAMILIAR, UNSURE, word_of
from ..classifiers.classified_rows import classify_batches
from ..classifiers.rows import InputRow, OwnNames
from ..errors import InputError
from ..pages.outputs import PAGES
from ..reading.inputs import Position
from ..reading.progress import ProgressBar
from ..reading.row_files import value_of
from ..reading.texts import TEXT_KEYS, KeyChooser
from .classify import Counts, batches_and_keys, load, progress_updater
from .command_line import (
    KINDS_HELP,
    Parser,
    Shard,
    add_by,
    add_classifier,
    add_model,
    add_precision,
    add_reading,
)
from .program import check_apart, prepare_output

if TYPE_CHECKING:
    from ..classifiers.head import Head

# The columns that identify the output of classify; the page needs all but the last.
ANSWERS = ("label", "probability", "unsure", "unfamiliar", "bits_per_character")


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "input", metavar="FILE", help=f"texts, or what classify wrote: {KINDS_HELP}"
    )
    parser.add_argument(
        "--output",
        dest="report",
        type=Path,
        default=Path("report.html"),
        help="the .html page to write",
    )
    add_by(parser)
    add_model(parser)
    add_classifier(parser)
    add_reading(parser)
    add_precision(parser)
    parser.set_defaults(
        text=[],
        threshold=None,
        unsure=None,
        sides=False,
        neuron=False,
        batch_size=128,
        shard=Shard(),
    )


def run(options: Namespace) -> None:
    """Write the page."""
    if options.report.suffix.lower() not in PAGES:
        raise InputError(f"--output {options.report}: the name must end in .html")
    if options.input == "-":
        raise InputError("report needs a file; for a pipe: classify --input - --report report.html")
    check_apart([Path(options.input)], [options.report])
    prepare_output(options.report)
    key, position = KeyChooser(options.text_key, TEXT_KEYS, "--text-key"), Position()
    batches, keys = batches_and_keys(options, key, position)
    classifier = load(options)

    from ..classifiers.answers import added_names

    added = added_names(classifier.fitted)
    is_answered = set(ANSWERS) <= set(keys)
    options.sides = is_answered and "sides" in keys
    names = OwnNames([] if is_answered else added, keys)
    counts = Counts(classifier, options, names, key, added)
    with ProgressBar("classify", shown=not is_answered) as progress:
        classifier.advance = progress.advance
        tagged = counts.counting_tags(batches)
        rows: Iterable[Sequence[Mapping[str, Any]]]
        if is_answered:
            rows = ([answered(row, classifier.fitted) for row in batch] for batch in tagged)
        else:
            on_size = progress_updater(position, progress)
            rows = classify_batches(classifier, tagged, names, on_size=on_size)
        for batch in rows:
            for row in batch:
                counts.add(row)
    counts.conclude(options.input)


def answered(row: InputRow, head: "Head") -> dict[str, Any]:
    """Return a row of classify's output with its values; InputError for one it never writes.

    The label of an earlier version was the likelier side, whatever else held.
    """
    values, place = dict(row.record), row.record.place
    for name in ANSWERS[:-1]:
        cell = values.get(name)
        if isinstance(cell, str):
            is_text = name == "label"
            try:  # a spreadsheet writes TRUE
                values[name] = value_of(cell if is_text else cell.lower(), is_text=is_text)
            except ValueError as error:
                raise _never_written(place, name, cell) from error
        elif cell != cell:  # NaN, of an empty cell
            values[name] = None
    label = values["label"]
    if label is None:
        return values
    if label not in (*head.classes, NEUTRAL, UNSURE, UNFAMILIAR):
        raise InputError(
            f"{place}: label is {label!r}, but the classifier's classes are "
            f"{', '.join(head.classes)}; name the model of these answers with --model"
        )
    probability = values["probability"]
    if not isinstance(probability, float | int):
        raise InputError(f"{place}: has a label but no probability; classify the file again")
    if isinstance(probability, bool) or not 0 <= probability <= 1:
        raise _never_written(place, "probability", probability)
    if str(values.get("sides")).lower() != "true":
        is_neutral = head.has_neutral and label == NEUTRAL
        flags = {name: values[name] for name in (UNSURE, UNFAMILIAR)}
        values["label"] = word_of(label, is_neutral=is_neutral, **flags)
    return values


def _never_written(place: str, name: str, value: object) -> InputError:
    """Return the error for a value that cannot be from classify."""
    return InputError(
        f"{place}: {name} is {value!r}, which classify never writes; classify the texts again"
    )
