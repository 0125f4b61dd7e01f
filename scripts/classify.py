"""Tell the sentiment of texts: rows in, the same rows out, with label and probability.

python scripts/classify.py --model runs/tour --text "I like it."
python scripts/classify.py --model runs/tour --input texts.csv --output labelled.csv
python scripts/classify.py --model runs/tour --classifier stars --input texts.csv
tail -n 5 texts.jsonl | python scripts/classify.py --model runs/tour --input -
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import command

from data_utils.reading.row_files import RowFormat, RowWriter
from model.errors import InputError

FORMATS: dict[str, RowFormat] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Tell the sentiment of texts: rows in, the same rows out, with label and probability.

    To each row are added `label`; `probability`, of the positive one of two classes, of the label
    where there are more (then also `probability_CLASS` each); of two classes `unsure`; `stars`, 1
    to 5, where the classifier expects some; `neuron`, the value of the unit of largest weight,
    unless the classifier is fine-tuned heads; `bits_per_character`, how well the model predicts the
    text; `unfamiliar`, whether it is too short or unlike what the model has read. Where a text may
    have several labels: `labels`, a list, and `probability_CLASS` each. A column of the input under
    such a name becomes `input_NAME`. A row without text keeps its place, with nothing found; an
    empty text is a text.
    """

    model: str = "default"
    """A model directory, a run directory, or the name of a shipped model."""
    classifier: Path | None = None
    """The folder that scripts/transfer.py wrote; absent, the one that travels with the model, or a
    run's own transfer/."""
    text: str | None = None
    """One text."""
    input: str | None = None
    """Texts: CSV, TSV, JSON lines, Parquet or text (one a line), also compressed; - reads standard
    input and answers each line as it comes."""
    input_format: Literal["txt", "jsonl", "csv", "tsv"] | None = None
    """Of standard input; absent, jsonl where its first line begins with {, else txt."""
    text_key: str | None = None
    """Key of the text; absent, the first present of text, sentence, reviewText, review."""
    output: Path | None = None
    """File to write, .jsonl or .csv, whole or not at all; absent, standard output."""
    format: RowFormat | None = None
    """Of the output; absent, by the end of its name, on standard output jsonl."""
    threshold: float | None = None
    """Probability above which a text is positive; absent, the classifier's own, or 0.5."""
    unsure: tuple[float, float] | None = None
    """A text whose probability of the positive class lies between these two is unsure; absent, the
    classifier's own, or 0.4 0.6."""
    batch_size: int = 128
    """Texts read together."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the model runs."""


def main() -> None:
    options = command.parse(Options, __doc__)
    if (options.text is None) == (options.input is None):
        raise InputError("give either --text or --input")
    row_format = options.format or format_of(options.output)
    command.prepare_output(options.output)

    from model.files.storage import write_atomically

    if options.output is None:
        write_rows(options, row_format, sys.stdout.buffer)
    else:
        write_atomically(options.output, lambda path: write_file(options, row_format, path))


def format_of(output: Path | None) -> RowFormat:
    """Return the format that the name of a file asks for."""
    suffix = ".jsonl" if output is None else output.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(
            f"--output {output}: the name must end in {', '.join(FORMATS)}; or say --format"
        )
    return FORMATS[suffix]


def write_file(options: Options, row_format: RowFormat, path: Path) -> None:
    with open(path, "wb") as file:
        write_rows(options, row_format, file)


def write_rows(options: Options, row_format: RowFormat, file: IO[bytes]) -> None:
    """Classify everything and write it, flushed batch by batch."""
    from tqdm import tqdm

    from model.classifiers.sentiment_classifier import SentimentClassifier
    from transfer.classification import classify_batches

    # On a terminal, rows and a bar would write over each other.
    quiet = True if options.output is None and sys.stdout.isatty() else None
    writer = RowWriter(file, row_format)
    count = 0
    with tqdm(unit="B", unit_scale=True, desc="read", disable=quiet) as bar:
        classifier = SentimentClassifier.from_pretrained(
            options.model,
            options.classifier,
            threshold=options.threshold,
            unsure=options.unsure,
            batch_size=options.batch_size,
            device=options.device,
            advance=bar.update,
        )
        for rows in classify_batches(classifier, read_batches(options), options.text_key):
            count += len(rows)
            for row in rows:
                writer.write(row, row.place)
            writer.flush()
    if count == 0:
        raise InputError(f"{options.input}: no records in it")


def read_batches(options: Options) -> Iterator[list]:
    """Yield the records to classify, in batches."""
    from data_utils.reading.records import Record, read_records
    from data_utils.reading.stdin import ArrivingLines, kind_of, read_arriving
    from transfer.classification import in_batches

    if options.text is not None:
        yield [Record({options.text_key or "text": options.text})]
    elif options.input == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; name a file with --input")
        lines = ArrivingLines(sys.stdin.fileno())
        first = lines.first()
        kind = f".{options.input_format}" if options.input_format else kind_of(first)
        yield from in_batches(read_arriving(lines, kind), lambda: lines.waiting)
    else:
        yield from in_batches(read_records(Path(str(options.input)), strict=True))


if __name__ == "__main__":
    command.run(main)
