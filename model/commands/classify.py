"""Classify the sentiment of texts: rows in, the same rows out, with label and probability.

mlstm-sentiment classify --text "I like it."
mlstm-sentiment classify --text "I like it." --text "It broke at once."
mlstm-sentiment classify --input texts.csv --output labelled.csv
tail -n 5 texts.jsonl | mlstm-sentiment classify --input -
"""

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ..classifiers.rows import (
    InputRow,
    IsKnown,
    OwnNames,
    added_names,
    classify_batches,
    in_batches,
    rows_of,
    tokens_in,
)
from ..errors import InputError
from ..files.storage import is_stream, open_stream, path_in_oserrors
from ..reading.inputs import JSON_KINDS, Position, as_input
from ..reading.kept_rows import KeptRows, growing_file
from ..reading.progress import ProgressBar
from ..reading.records import Record, read_records
from ..reading.row_files import RowFormat, RowWriter
from ..reading.stdin import PLACE, ArrivingLines, kind_of, read_arriving
from ..reading.texts import TEXT_KEYS, KeyChooser, text_of
from .command_line import (
    Parser,
    add_classifier,
    add_input,
    add_model,
    add_precision,
    add_text_key,
)
from .program import STDOUT, check_apart, prepare_output

if TYPE_CHECKING:
    from ..classifiers.sentiment_classifier import SentimentClassifier

ADDED = """
Each row gains `label`; `probability`, of the positive class if there are two classes, else of the
label (then also `probability_CLASS` for each class); with two classes `unsure`; `stars`, 1 to 5, if
the classifier predicts them; `neuron`, the value of the unit that the classifier relies on most;
`bits_per_character`, how well the model predicts the text; `unfamiliar`, whether it is too short or
unlike what the model has read (null if the classifier cannot tell). If a text may have several
labels: `labels`, a list, and `probability_CLASS` for each class. An input column with one of these
names becomes `input_NAME`, or `input_input_NAME` if there is an `input_NAME` already. A row without
text, or with nothing but white space in its place, stays where it is, with empty results.

An error or an interruption leaves the rows so far in OUTPUT.partial. The same command continues
after them. If the input has changed, the old rows are kept under another name."""
CHECK_SECONDS = 2.0  # of reading a file through, before a terminal shows it
FORMATS: dict[str, RowFormat] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.description = f"{parser.description}\n{ADDED}"
    add_model(parser)
    add_classifier(parser)
    parser.add_argument(
        "--text",
        action="append",
        default=[],
        help="a text; may be given several times; write one that begins with a dash as --text=-meh",
    )
    add_input(parser, more="; - reads standard input and answers each line as it comes")
    parser.add_argument(
        "--input-format",
        choices=("txt", "jsonl", "csv", "tsv"),
        help="format of standard input (default: jsonl if its first line that is not blank begins "
        "with {, else txt; "
        "input that begins like a table is refused)",
    )
    add_text_key(parser)
    parser.add_argument(
        "--output",
        type=Path,
        help="the .jsonl or .csv file to write, complete or not at all (default: standard output)",
    )
    parser.add_argument(
        "--format",
        choices=get_args(RowFormat),
        help="format of the output (default: by the suffix of --output; jsonl on standard output)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        help="probability above which a text is positive (default: the classifier's own, or 0.5)",
    )
    parser.add_argument(
        "--unsure",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="a text is unsure if its probability of the positive class lies between these two "
        "(default: the classifier's own, or 0.1 to either side of its threshold; these move with "
        "--threshold)",
    )
    add_precision(parser)
    parser.add_argument("--batch-size", type=int, default=128, help="texts read together")


def run(options: Namespace) -> None:
    """Classify everything that was given."""
    if bool(options.text) == (options.input is not None):
        raise InputError("give either --text or --input")
    if options.input_format and options.input != "-":
        raise InputError("--input-format is only for standard input; a file's name says its format")
    row_format = options.format or format_of(options.output)
    prepare_output(options.output)
    check_apart([Path(options.input or "-")], [options.output])
    key = KeyChooser(options.text_key, TEXT_KEYS, "--text-key")
    position = Position()
    batches, first = looked_at(read_batches(options, key, position), options)
    keys = keys_of(options, first, key)
    classifier = load(options)
    names = OwnNames(added_names(classifier), keys)
    columns = [*names.of(keys), *names.added] if keys else []
    with opened(options, row_format, columns, classifier) as (writer, is_known):
        # On a terminal, rows and a bar would write over each other.
        shown = options.output is not None or sys.stdout is None or not sys.stdout.isatty()
        with ProgressBar("classify", shown=shown) as progress:
            classifier.advance = progress.advance
            batches = counted(batches, classifier, position, progress)
            rows = classify_batches(classifier, batches, names, is_known)
            write_rows(rows, writer, progress)


def format_of(output: Path | None) -> RowFormat:
    """Return the format that the name of a file asks for."""
    suffix = ".jsonl" if output is None else output.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(
            f"--output {output}: the name must end in {', '.join(FORMATS)}; or give --format"
        )
    return FORMATS[suffix]


def keys_of(options: Namespace, first: list[InputRow], key: KeyChooser) -> list[str]:
    """Return all keys of the rows; [] for standard input, where they are not known yet.

    A file is read through, row by row: a late fault is told before hours of work, and records of
    JSON may have different keys. A pipe cannot be read twice, and an address is not. Raises
    InputError for a faulty row, and if none has a text.
    """
    path = Path(options.input or "")
    if options.input == "-" or not path.is_file():
        return list(first[0].record) if first else []
    position, keys = Position(), dict[str, None]()
    records = read_records(path, strict=True, position=position)
    with ProgressBar("check", unit=" rows", delay=CHECK_SECONDS) as progress:
        for number, record in enumerate(records, start=1):
            text_of(key.value(record), record.place)  # finds the key; refuses what is no text
            keys |= dict.fromkeys(record)
            if fraction := position.fraction:  # unknown of Parquet
                progress.expect(round(number / fraction))
            progress.advance(1)
    key.conclude(path)
    return list(keys)


@contextmanager
def opened(
    options: Namespace, row_format: RowFormat, columns: list[str], classifier: "SentimentClassifier"
) -> Iterator[tuple[RowWriter, IsKnown | None]]:
    """Open the output. Yield the writer and a function: was this row already answered?

    columns: of CSV; []: those of the first row.
    """
    output = options.output
    if output is None:
        if sys.stdout is None:
            raise InputError("standard output is closed; name a file with --output")
        with path_in_oserrors(Path(STDOUT)):
            yield RowWriter(sys.stdout.buffer, row_format, columns), None
    elif is_stream(output):
        with path_in_oserrors(output), open_stream(output) as file:
            yield RowWriter(file, row_format, columns), None
    else:
        with growing_file(output, request(options, row_format, classifier)) as file:
            kept = KeptRows(file, row_format, added_names(classifier), columns)
            writer = RowWriter(file, row_format, columns, kept_header=lambda: kept.header)
            yield writer, kept.begins_next
            kept.finish()


def request(
    options: Namespace, row_format: RowFormat, classifier: "SentimentClassifier"
) -> dict[str, Any]:
    """Return all that the answers depend on, except the texts."""
    from ..classifiers.fitted import fitted_digest
    from ..version import installed_version

    names = ("text_key", "threshold", "unsure", "precision")
    return {
        "version": installed_version(),
        "format": row_format,
        "model": fitted_digest(classifier.loaded, options.classifier),
        **{name: getattr(options, name) for name in names},
    }


def write_rows(batches: Iterable[list[Record]], writer: RowWriter, progress: ProgressBar) -> None:
    """Write classified rows, flushed batch by batch."""
    count = 0
    for rows in batches:
        count += len(rows)
        progress.note(f"{count / max(progress.seconds, 1e-3):.1f} rows/s")
        for row in rows:
            writer.write(row, row.place)
        writer.flush()


def looked_at(
    batches: Iterator[list[InputRow]], options: Namespace
) -> tuple[Iterator[list[InputRow]], list[InputRow]]:
    """Return the batches and, except for standard input, the first one.

    This much of a file is read before a model is loaded, so that its faults are reported at once.
    Standard input is not waited for.
    """
    if options.input == "-":
        return batches, []
    first = next(batches)
    return chain([first], batches), first


def load(options: Namespace) -> "SentimentClassifier":
    """Load the model and its classifier."""
    from ..classifiers.sentiment_classifier import SentimentClassifier

    return SentimentClassifier.from_pretrained(
        options.model,
        options.classifier,
        threshold=options.threshold,
        unsure=options.unsure and tuple(options.unsure),
        batch_size=options.batch_size,
        precision=options.precision,
        device=options.device,
    )


def read_batches(
    options: Namespace, key: KeyChooser, position: Position
) -> Iterator[list[InputRow]]:
    """Yield the rows to classify, in batches; InputError if there are none."""
    if options.text:
        texts = [Record({options.text_key or "text": text}) for text in options.text]
        yield list(rows_of(texts, key, "--text", are_alike=True))
    elif options.input == "-":
        yield from read_stream(options.input_format, key)
    else:
        given = as_input(options.input)
        records = read_records(given, strict=True, position=position)
        are_alike = given.kind not in JSON_KINDS
        yield from in_batches(rows_of(records, key, given.location, are_alike=are_alike))


def read_stream(input_format: str | None, key: KeyChooser) -> Iterator[list[InputRow]]:
    """Yield the rows of standard input, in batches of what has arrived."""
    if sys.stdin is None:
        raise InputError("standard input is closed; name a file with --input")
    lines = ArrivingLines(sys.stdin.fileno())
    kind = f".{input_format}" if input_format else kind_of(lines.first())
    rows = rows_of(read_arriving(lines, kind), key, PLACE, are_alike=kind not in JSON_KINDS)
    yield from in_batches(rows, lambda: lines.holds_record(kind))


def counted(
    batches: Iterator[list[InputRow]],
    classifier: "SentimentClassifier",
    position: Position,
    progress: ProgressBar,
) -> Iterator[list[InputRow]]:
    """Yield the batches; before each, report how much there is to read, by the file's size."""
    tokens = 0
    for batch in batches:
        if fraction := position.fraction:  # of a file
            tokens += tokens_in(batch, classifier)
            progress.expect(tokens / fraction)
        yield batch
