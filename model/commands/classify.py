"""Classify the sentiment of texts: rows in, the same rows out, with label and probability.

mlstm-sentiment classify --text "I like it."
mlstm-sentiment classify --text "I like it." --text "It broke at once."
mlstm-sentiment classify --input texts.csv --output labelled.csv --report report.html
tail -n 5 texts.jsonl | mlstm-sentiment classify --input -
"""

import logging
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ..classifiers.classified_rows import IsAnswered, classify_batches
from ..classifiers.rows import InputRow, OwnNames, in_batches, rows_of
from ..classifiers.summary import Summary
from ..errors import InputError
from ..files.storage import is_stream, open_stream, path_in_oserrors
from ..pages.outputs import PAGES
from ..reading.inputs import JSON_KINDS, Position, TableOptions, as_input
from ..reading.progress import ProgressBar
from ..reading.records import Record, read_records
from ..reading.resumable_rows import WrittenRows, resumable_output
from ..reading.row_files import RowFormat, RowWriter
from ..reading.stdin import PLACE, ArrivingLines, ArrivingRecords, kind_of
from ..reading.texts import TEXT_KEYS, KeyChooser, unicode_text
from .command_line import (
    Parser,
    add_by,
    add_classifier,
    add_input,
    add_model,
    add_precision,
    add_reading,
    add_shard,
)
from .program import STDOUT, check_apart, prepare_output

if TYPE_CHECKING:
    from ..classifiers.sentiment_classifier import SentimentClassifier
    from ..pages.report import Report

ADDED = """
Each row gains `label`, one word: positive, neutral (if the classifier predicts it: the text takes
no side), negative, unsure (the probability is near the threshold) or unfamiliar (the text is too
short, or unlike what the model was trained on); `probability`, of the positive class if there are
two classes, else of the likeliest (then also `probability_CLASS` for each class); `neutral`, if the
classifier predicts it, the probability that the text takes no side; `probability` counts for the
case that it takes one; with two classes `sentiment`, from -1 to 1, high is positive, and `unsure`;
`stars`, 1 to 5, if the classifier predicts stars; `bits_per_character`, how well the model predicts
the text; `unfamiliar` (null if the classifier cannot tell). If a text may have several labels:
`labels`, a list, and `probability_CLASS` for each class. With --sides: `sides`, true, and `label`
is one of the two classes. An input column with one of these names becomes `input_NAME`, or
`input_input_NAME` if there is an `input_NAME` already. A row without text, or with nothing but
white space in its place, stays where it is, with empty results. HTML tags of a text that is marked
up (<br />, <p>) are not classified. The last lines on stderr count the rows by their label.

An error or an interruption leaves the rows so far in OUTPUT.partial. The same command continues
after them. If the input has changed, the old rows are kept under another name."""
CHECK_SECONDS = 2.0  # of checking a file before a terminal shows the progress
FORMATS: dict[str, RowFormat] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}

log = logging.getLogger(__name__)


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
    add_reading(parser)
    add_shard(parser)
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
    parser.add_argument(
        "--sides",
        action="store_true",
        help="two sides only: label every text as positive or negative, also one that is neutral, "
        "unsure or unfamiliar; the rows then have `sides`, true",
    )
    parser.add_argument(
        "--neuron",
        action="store_true",
        help="also write `neuron`, the value of the unit that the classifier relies on most, with "
        "the model's own sign",
    )
    add_by(parser)
    parser.add_argument(
        "--report",
        type=Path,
        help="the .html page to write as well: shares, over time and by group, the clearest "
        "texts coloured letter by letter, and all rows to search",
    )
    add_precision(parser)
    parser.add_argument("--batch-size", type=int, default=128, help="texts processed together")


def run(options: Namespace) -> None:
    """Classify everything that was given."""
    if bool(options.text) == (options.input is not None):
        raise InputError("give either --text or --input")
    if options.input_format and options.input != "-":
        raise InputError("--input-format is only for standard input; a file's name says its format")
    if options.shard.count > 1 and options.input in (None, "-"):
        raise InputError("--shard is for the rows of an --input file; leave it out")
    if options.by and options.input is None:
        raise InputError("--by is for the rows of an --input; leave it out")
    if options.report and options.report.suffix.lower() not in PAGES:
        raise InputError(f"--report {options.report}: the name must end in .html")
    if options.report and options.output and options.report.resolve() == options.output.resolve():
        raise InputError(f"--report {options.report}: is the --output, too; name another file")
    row_format = options.format or format_of(options.output)
    prepare_output(options.output, options.report)
    check_apart([Path(options.input or "-")], [options.output, options.report])
    key, position = KeyChooser(options.text_key, TEXT_KEYS, "--text-key"), Position()
    batches, keys = batches_and_keys(options, key, position)
    classifier = load(options)

    from ..classifiers.answers import added_names

    added = added_names(classifier.fitted, neuron=options.neuron, sides=options.sides)
    names = OwnNames(added, keys)
    columns = [*names.of(keys), *names.added] if keys else []
    counts = Counts(classifier, options, names, key, names.added)
    with open_output(options, row_format, columns, names, classifier, key.key) as (writer, written):
        # On a terminal, rows and a bar would write over each other.
        shown = options.output is not None or sys.stdout is None or not sys.stdout.isatty()
        with ProgressBar("classify", shown=shown) as progress:
            classifier.advance = progress.advance
            rows = classify_batches(
                classifier,
                counts.counting_tags(batches),
                names,
                None if written is None else answered_in(written, counts.add),
                progress_updater(position, progress),
                sides=options.sides,
            )
            write_rows(rows, writer, progress, counts.add)
    source = PLACE if options.input == "-" else options.input or "--text"
    shard = options.shard
    part = f" (shard {shard.number} of {shard.count})" if shard.count > 1 else ""
    counts.conclude(f"{source}{part}")


def batches_and_keys(
    options: Namespace, key: KeyChooser, position: Position
) -> tuple[Iterator[list[InputRow]], list[str]]:
    """Return the batches of the input and the keys of its rows, as far as they are known.

    The first batch is read here, before a model is loaded, so that its faults are reported early.
    Standard input is not waited for. Raises InputError if the column of groups is not a key; at
    the end of standard input this is a warning, since its rows have been answered.
    """
    batches, first = read_batches(options, key, position), list[InputRow]()
    if options.input != "-":
        first = next(batches)
        batches = chain([first], batches)
    keys = keys_of(options, first, key)
    if options.by and keys and options.by not in keys:
        present = ", ".join(map(repr, keys))
        raise InputError(f"--by {options.by}: no such column; the input has {present}")
    return batches if keys or not options.by else looking_for(options.by, batches), keys


def looking_for(by: str, batches: Iterable[list[InputRow]]) -> Iterator[list[InputRow]]:
    """Yield the batches; warn at their end if no row has the column of groups."""
    is_found = False
    for batch in batches:
        is_found = is_found or any(by in row.record for row in batch)
        yield batch
    if not is_found:
        log.warning("--by %s: no row has such a column; name one that the rows have", by)


class Counts:
    """Collects the summary of classified rows and, if the options name a page, their report.

    options: by and report. names: the output names of the rows' own keys. key: that of the texts.
    added: the names of the results. Raises InputError for a report unless there are two classes.
    """

    def __init__(
        self,
        classifier: "SentimentClassifier",
        options: Namespace,
        names: OwnNames,
        key: KeyChooser,
        added: Sequence[str],
    ):
        (by,) = names.of([options.by]) if options.by else (None,)
        self.summary = Summary(classifier.fitted, by, sides=options.sides)
        self._page: Path | None = options.report
        self._report: Report | None = None
        if self._page is not None:
            from ..pages import report

            if not classifier.fitted.is_binary:
                count = len(classifier.fitted.classes)
                raise InputError(f"a report shows two classes; this classifier has {count}")
            self._report = report.Report(
                classifier, self.summary, lambda: names.of([key.key or "text"])[0], added
            )

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a classified row."""
        outcome = self.summary.add(row)
        if self._report is not None:
            self._report.add(row, outcome)

    def counting_tags(self, batches: Iterable[list[InputRow]]) -> Iterator[list[InputRow]]:
        """Yield the batches; count the texts that had HTML tags."""
        for batch in batches:
            self.summary.tagged += sum(row.had_tags for row in batch)
            yield batch

    def conclude(self, source: str) -> None:
        """Print the summary and write the report. source: where the rows are from."""
        if self.summary.total.total() > 1:
            log.info("%s", "\n".join(self.summary.lines()))
        if self._report is not None and self._page is not None:
            self._report.write(self._page, source)
            log.info("%s: open it in a browser", self._page)


def answered_in(written: WrittenRows, count: Callable[[Mapping[str, Any]], None]) -> IsAnswered:
    """Return a function that says whether a row was answered before, and counts such a row."""

    def is_answered(values: Mapping[str, Any]) -> bool:
        is_next = written.begins_next(values)
        if is_next:
            count({**values, **written.last_results()})
        return is_next

    return is_answered


def progress_updater(position: Position, progress: ProgressBar) -> Callable[[int], None]:
    """Return a function that estimates the total work from the position in the file."""
    tokens = 0

    def expect(size: int) -> None:
        nonlocal tokens
        if fraction := position.fraction:  # of a file
            tokens += size
            progress.expect(tokens / fraction)

    return expect


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

    A file is read through, row by row, so that a late fault is reported before hours of work, and
    since records of JSON may have different keys. Pipes are read only once. Raises InputError for a
    faulty row, and if none has a text.
    """
    path = Path(options.input or "")
    if options.input == "-" or not path.is_file():
        return list(first[0].record) if first else []
    position, keys = Position(), dict[str, None]()
    source = as_input(path, TableOptions.from_options(options))
    records = read_records(source, strict=True, position=position)
    with ProgressBar("check", unit=" rows", delay=CHECK_SECONDS) as progress:
        for number, record in enumerate(records, start=1):
            unicode_text(key.value(record), record.place)  # chooses the key; refuses other values
            keys |= dict.fromkeys(record)
            if fraction := position.fraction:  # unknown for Parquet
                progress.expect(round(number / fraction))
            progress.advance(1)
    key.conclude(path)
    return list(keys)


@contextmanager
def open_output(
    options: Namespace,
    row_format: RowFormat,
    columns: list[str],
    names: OwnNames,
    classifier: "SentimentClassifier",
    key: str | None,
) -> Iterator[tuple[RowWriter, WrittenRows | None]]:
    """Open the output. Yield the writer and the rows that an interrupted command left there.

    columns: of the CSV; [] takes those of the first row. key: that of the texts, if known.
    """
    output = options.output
    mark = (
        options.input not in (None, "-")
        and as_input(options.input, TableOptions.from_options(options)).is_for_excel
    )
    make = partial(RowWriter, row_format=row_format, columns=columns, mark=mark)
    if output is None:
        if sys.stdout is None:
            raise InputError("standard output is closed; name a file with --output")
        with path_in_oserrors(Path(STDOUT)):
            yield make(sys.stdout.buffer), None
    elif is_stream(output):
        with path_in_oserrors(output), open_stream(output) as file:
            yield make(file), None
    else:
        with resumable_output(output, request(options, row_format, classifier, key)) as file:
            written = WrittenRows(file, row_format, names.added, columns)
            yield make(file, written_header=lambda: written.header), written
            written.finish()


def request(
    options: Namespace, row_format: RowFormat, classifier: "SentimentClassifier", key: str | None
) -> dict[str, Any]:
    """Return all that the answers depend on, except the texts."""
    from ..classifiers.fitted import fitted_digest
    from ..version import installed_version

    names = ("threshold", "unsure", "precision", "neuron", "sides")
    shard = options.shard
    return {
        "version": installed_version(),
        "format": row_format,
        "text_key": options.text_key or key,
        "model": fitted_digest(classifier.loaded, options.classifier),
        **{name: getattr(options, name) for name in names},
        **({"shard": [shard.number, shard.count]} if shard.count > 1 else {}),
    }


def write_rows(
    batches: Iterable[list[Record]],
    writer: RowWriter,
    progress: ProgressBar,
    count: Callable[[Record], None],
) -> None:
    """Write and count classified rows, flushed batch by batch."""
    done = 0
    for rows in batches:
        done += len(rows)
        progress.note(f"{done / max(progress.seconds, 1e-3):.1f} rows/s")
        for row in rows:
            writer.write(row, row.place)
            count(row)
        writer.flush()


def load(options: Namespace) -> "SentimentClassifier":
    """Load the model and its classifier."""
    from ..classifiers.sentiment_classifier import SentimentClassifier

    return SentimentClassifier.from_pretrained(
        options.model,
        options.classifier,
        threshold=options.threshold,
        unsure=options.unsure and tuple(options.unsure),
        sides=options.sides,
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
        yield from read_stream(options, key)
    else:
        source = as_input(options.input, TableOptions.from_options(options))
        records = read_records(source, strict=True, position=position)
        are_alike = source.kind not in JSON_KINDS
        records = options.shard.of(records)
        yield from in_batches(rows_of(records, key, source.location, are_alike=are_alike))


def read_stream(options: Namespace, key: KeyChooser) -> Iterator[list[InputRow]]:
    """Yield the rows of standard input, in batches of what has arrived."""
    if sys.stdin is None:
        raise InputError("standard input is closed; name a file with --input")
    lines = ArrivingLines(sys.stdin.fileno())
    kind = f".{options.input_format}" if options.input_format else kind_of(lines.first())
    records = ArrivingRecords(lines, kind, TableOptions.from_options(options))
    rows = rows_of(records, key, PLACE, are_alike=kind not in JSON_KINDS)
    yield from in_batches(rows, lambda: records.waiting)
