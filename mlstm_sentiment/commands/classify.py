"""Classify the sentiment of texts: rows in, the same rows out, with label and probability.

mlstm-sentiment classify --text "I like it."
mlstm-sentiment classify --text "I like it." --text "It broke at once."
mlstm-sentiment classify --input texts.csv --output labelled.csv --report report.html
tail -n 5 texts.jsonl | mlstm-sentiment classify --input -
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from ..bounds import Argument
from ..errors import InputError
from ..reading.progress import ProgressBar
from ..reading.row_files import RowFormat
from ..reading.rows import Rows
from ..reading.source import Shard, Source
from ..rows.sink import Sink
from .options import By, ShardOption, TextOptions
from .program import prepare_output

_ANSWER, _OUTPUT = Argument(group="answer"), Argument(group="output")


@dataclass(frozen=True, kw_only=True)
class Options(TextOptions):
    """Classify the sentiment of texts: rows in, the same rows out, with label and probability.

    Each row gains:
      label               positive, negative, neutral (the text takes no side, if the classifier
                          predicts that), unsure (the probability is near the threshold),
                          unfamiliar (the text is too short, or unlike what the model was
                          trained on) or no answer; or another class
      probability         of the positive class; of the likeliest, unless there are two classes
      probability_CLASS   for each class, unless there are two
      labels              in place of label, a list, if a text may have several
      neutral             the probability that the text takes no side, if the classifier
                          predicts it; probability then counts for texts that take one
      sentiment           from -1 to 1, high is positive; with two classes
      unsure, unfamiliar  whether this holds; unfamiliar is null if the classifier cannot tell
      stars               1 to 5, if the classifier predicts them
      bits_per_character  how well the model predicts the text, with --bits
      sides               true, with --sides

    A row without text, or with a placeholder such as N/A, is no answer: it stays where it is, and
    its other results are empty. HTML tags (<br />, <p>) are not classified. An input column with
    one of these names becomes input_NAME. The last lines on stderr count the rows by their label.

    An error or an interruption leaves the rows so far in OUTPUT.partial. The same command
    continues after them. If the input has changed, the old rows are kept under another name.
    """

    by: By = None
    shard: ShardOption = field(default_factory=Shard)
    threshold: Annotated[float | None, _ANSWER] = None
    """Probability above which a text is positive. Default: the classifier's own."""
    unsure: Annotated[
        tuple[float, float] | None, Argument(group="answer", metavar=("LOW", "HIGH"))
    ] = None
    """A text is unsure if its probability lies between these. Default: the classifier's own, or 0.4
    to 0.6; their log-odds move with the threshold, and --threshold 0.9 makes 0.86 to 0.93 of
    these."""
    sides: Annotated[bool, _ANSWER] = False
    """Two sides only: label every text as positive or negative, also one that is neutral, unsure or
    unfamiliar."""
    neuron: Annotated[bool, _ANSWER] = False
    """Also write `neuron`, the value of the unit that the classifier relies on most."""
    bits: Annotated[bool, _ANSWER] = False
    """Also write `bits_per_character`, how well the model predicts the text; takes about half as
    long again."""
    output: Annotated[Path | None, _OUTPUT] = None
    """A .jsonl, .csv, .tsv or .xlsx file, complete or not at all. Default: standard output."""
    format: Annotated[RowFormat | None, _OUTPUT] = None
    """Default: by the suffix of --output, with the delimiter and the encoding of the input; jsonl
    on standard output."""
    safe_cells: Annotated[bool, _OUTPUT] = False
    """Put an apostrophe before cells of CSV that a spreadsheet would compute, such as =1+1."""
    report: Annotated[Path | None, _OUTPUT] = None
    """An .html page to write as well: what negative texts say, shares, groups, all texts."""

    def __post_init__(self) -> None:
        paths = [path.resolve() for path in (self.report, self.output) if path is not None]
        if len(paths) > len(set(paths)):
            raise InputError(f"--report {self.report}: is the --output, too; name another file")


def run(options: Options) -> None:
    sink = Sink(options.output, options.format, options.safe_cells)
    page, shard, table = options.report, options.shard, options.table
    source = Source(options.input, options.text_key, table, shard, options.by, options.text)
    if options.output is not None:
        shard.check_name(options.output)
    prepare_output(options.output, kind="rows")
    prepare_output(page, kind="a report")
    rows = Rows(source, show_progress=True)

    from ..head.sentiment_classifier import SentimentClassifier
    from ..rows.classified_rows import classify

    # On a terminal, rows and a bar would write over each other.
    shown = options.output is not None or sys.stdout is None or not sys.stdout.isatty()
    model = options.load_model()
    classifier = SentimentClassifier(
        model,
        options.classifier,
        threshold=options.threshold,
        unsure=options.unsure,
        sides=options.sides,
        bits=options.bits,
    ).fit()
    classified = classify(
        rows,
        classifier,
        sink,
        neuron=options.neuron,
        progress=ProgressBar("classify", shown=shown),
    )
    if page is None:
        for _ in classified:
            pass
        classified.summary.log()
    else:
        from ..pages.report import write_report

        write_report(page, classified, rows, classifier, classified.summary, classified.added)
