"""Fit the classifier again to answers that you have corrected.

mlstm-sentiment learn corrected.csv --output my_head
mlstm-sentiment learn more.csv --classifier my_head --output my_second_head
"""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from ..bounds import Argument
from ..files.writer import check_folder, check_output
from ..reading.inputs import TableOptions
from ..reading.labels import label_of, log_set
from ..reading.no_answer import answered_text
from ..reading.source import Source
from ..reading.texts import KeyChooser, unicode_text
from ..version import installed_version
from .options import KINDS_HELP, ClassifierFolder, LabelKey, ModelOptions, Table, TextKey

_FEW = 1 / 3  # of the rows right before: perhaps those that were right are missing

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options(ModelOptions):
    """Fit the classifier again to answers that you have corrected.

    The file is what classify wrote, with the right answer in the column label: 30 rows or more,
    those that were right, too. Rows labelled unsure, unfamiliar or no answer are left out. The
    model stays as it is. Cross-validation compares the new classifier with the old one; it is
    written only if more rows are right, beyond the 95 % interval. Else the exit code is 3.
    """

    input: Annotated[
        str,
        Argument(positional=True, metavar="FILE", help=f"Texts with labels: {KINDS_HELP}."),
    ]
    output: Path
    """The folder to write, for --classifier of every command."""
    text_key: TextKey = ()
    label_key: LabelKey = None
    table: Table = field(default_factory=TableOptions)
    classifier: ClassifierFolder = None


def run(options: Options) -> None:
    from ..head.head_files import CONFIG_FILE, WEIGHTS_FILE, save_head
    from ..head.learning import NotBetter
    from ..head.sentiment_classifier import SentimentClassifier

    check_folder(options.output)
    for name in (WEIGHTS_FILE, CONFIG_FILE):
        check_output(options.output / name, "part of a folder")
    rows = list(_rows(options))
    model = options.load_model()
    classifier = SentimentClassifier(model, options.classifier, show_progress=True).fit()
    learned = classifier.learn_rows(rows)
    if learned.left_out:
        left_out = (f"{count:,} {why}" for why, count in learned.left_out.items())
        log.info("left out: %s", ", ".join(left_out))
    if learned.before.mean() < _FEW:
        log.warning(
            "only %.0f %% of the rows were right before; a file of errors alone teaches the "
            "opposite: give the rows that were right, too",
            100 * learned.before.mean(),
        )
    log.info("%s", "\n".join(learned.lines()))
    if not learned.is_better:
        raise NotBetter(
            f"not shown to be better, so {options.output} is not written; correct more rows"
        )
    origin = {"learned_from": learned.summary(), "version": installed_version()}
    save_head(options.output, learned.head, origin)
    log.info("%s: written; use it with --classifier %s", options.output, options.output)


def _rows(options: Options) -> Iterator[tuple[str, str | None, str]]:
    """Yield the place, the text and the label of each row; say what was read."""
    source = Source(options.input, options.text_key, options.table)
    key, labels = KeyChooser(options.text_key), KeyChooser(options.label_key, is_label=True)
    texts, counts = list[str](), Counter[str]()
    for record in source.records():
        text = unicode_text(key.value(record), record.place)
        label = label_of(record, labels)
        texts.append(text or "")
        counts[label] += 1
        yield record.place, answered_text(text, key.header_in(record)), label
    key.require(source.name)
    log_set(Path(source.name), texts, counts, key, {"label": (labels.key, labels.option)})
