"""Score several models on the same texts, in one table.

mlstm-sentiment compare default default_small --data reviews.csv
mlstm-sentiment compare amazon_1024 runs/mine --data reviews.jsonl --output compared.json
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..bounds import Argument
from ..classifiers.rows import InputRow
from ..errors import InputError
from ..files.shipped import SHIPPED_MODELS, SOURCES_FILE, find_model
from ..files.storage import check_apart
from ..reading.inputs import TableOptions
from ..reading.labels import label_of, labelled_digest, log_order, log_set, ordered_classes
from ..reading.progress import ProgressBar
from ..reading.source import Source
from ..reading.texts import LABEL_KEYS, KeyChooser, read_text
from ..text.markup import without_tags
from ..version import installed_version
from .options import KINDS_HELP, TEXT, Device, JsonOutput, LabelKey, Precision, Table, TextKey
from .program import prepare_output, print_and_write

if TYPE_CHECKING:
    from ..classifiers.comparison import Compared, ComparedTexts

NOTHING = "-"  # in a cell that has no number

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Score several models on the same texts, in one table.

    For each model: bits per character, each text read from the zero state; with labels of two
    classes also the accuracy of its own classifier (all units) and of its best single unit, found
    and scored by cross-validation on these texts; and how often two models give the same label.
    Intervals are 95 %.
    """

    models: Annotated[
        tuple[str, ...],
        Argument(
            positional=True,
            metavar="MODEL",
            help="A model directory, a run directory, or the name of a shipped model.",
        ),
    ]
    data: Annotated[Path, Argument(group=TEXT, help=f"A file of texts: {KINDS_HELP}.")]
    text_key: TextKey = None
    label_key: LabelKey = None
    table: Table = field(default_factory=TableOptions)
    device: Device = "auto"
    precision: Precision = "fp32"
    output: JsonOutput = None


def run(options: Options) -> None:
    """Read the texts once, score every model, print the table."""
    folders = list(map(find_model, options.models))
    check_apart([options.data], [options.output])
    prepare_output(options.output)
    data = read_test_texts(options)

    import torch

    from ..classifiers.comparison import agreement, compare_model, reading_warnings
    from ..files.weights import load_model

    comparisons: list[Compared] = []
    for name, folder in zip(options.models, folders, strict=True):
        loaded = load_model(folder, compute_dtype=torch.float32, device=options.device)
        said = reading_warnings(name, loaded, data, options.data)
        for line in said:
            log.warning("warning: %s", line)
        size = sum(map(len, map(loaded.tokens, data.texts)))
        with ProgressBar(name, size) as progress:
            compared = compare_model(
                name,
                loaded,
                data,
                precision=options.precision,
                device=options.device,
                advance=progress.advance,
            )
        compared.result["warnings"] = said
        comparisons.append(compared)
    agreements = agreement(comparisons)
    result: dict[str, Any] = {
        "texts": len(data.texts),
        "labelled": data.labels is not None,
        "models": [each.result for each in comparisons],
        "agreement": agreements,
        "origin": {"version": installed_version()},
    }
    print_and_write(table(result["models"], agreements), result, options.output)
    forced = [each.result["model"] for each in comparisons if each.result["never_neutral"]]
    if forced:
        log.info(
            "%s: neutral answers count here as the likelier of the two classes",
            ", ".join(forced),
        )
    shipped = [
        n for n, f in zip(options.models, folders, strict=True) if f.parent == SHIPPED_MODELS
    ]
    if shipped:
        log.info(
            "%s in the folder of %s lists the texts that it was trained on. The texts are not part "
            "of the package: compare cannot look for yours among them",
            SOURCES_FILE,
            ", ".join(shipped),
        )


def read_test_texts(options: Options) -> "ComparedTexts":
    """Read the texts, as `classify` takes them, and any labels; say what was found."""
    import numpy as np

    source = Source(options.data, options.text_key, options.table)
    text_key = source.key()
    label_key = KeyChooser(options.label_key, LABEL_KEYS, "--label-key")
    texts, labels, cleaned = [], [], []
    for record in source.records():
        text = read_text(record, text_key)
        label_key.value(record)
        if options.label_key is not None or label_key.key is not None:
            labels.append(label_of(record, label_key))
        texts.append(text)
        row = InputRow.of(record, text)
        cleaned.append(row.text and without_tags(row.text))
    text_key.require(options.data)
    if 0 < len(labels) < len(texts):
        raise InputError(
            f"{options.data}: its first records have no {label_key.key!r}, later ones have; give "
            "all rows a label, or none"
        )
    counts = Counter(labels)
    keys = {"label": (label_key.key, label_key.option)} if labels else {}
    log_set(options.data, texts, counts, text_key, keys)
    present = [row for row, text in enumerate(cleaned) if text is not None]
    if not present:
        raise InputError(f"{options.data}: no text to compare models on")

    from ..classifiers.comparison import ComparedTexts

    plain = [text for text in cleaned if text is not None]
    if len(counts) != 2:
        if options.label_key is not None:
            raise InputError(
                f"--label-key {options.label_key}: has {len(counts):,} classes; compare needs two"
            )
        if labels:
            log.info("accuracy needs two classes, so it is not shown; name them with --label-key")
        return ComparedTexts(plain)
    classes = ordered_classes(labels, options.data)
    log_order(classes)
    indices = list(map(classes.index, labels))
    digest = labelled_digest(texts, indices, classes)
    return ComparedTexts(plain, np.array(indices, dtype=np.int64)[present], digest)


def table(
    results: Sequence[dict[str, Any]], agreements: Sequence[Sequence[float | None]]
) -> list[str]:
    """Return the lines of the table for people."""
    labelled = "accuracy" in results[0]
    columns: dict[str, list[str]] = {
        "": [str(number) for number in range(1, len(results) + 1)],
        "model": [result["model"] for result in results],
        "bits": [f"{result['bits_per_character']:.3f}" for result in results],
    }
    if labelled:
        columns["all units"] = list(map(with_interval, results))
        columns["best unit"] = [with_interval(r["best_unit"] or {}) for r in results]
        columns["unit"] = [unit_of(result["best_unit"]) for result in results]
    for place, agreed in enumerate(agreements if len(results) > 1 else []):
        shown = [NOTHING if value is None else f"{value:.3f}" for value in agreed]
        shown[place] = ""
        columns[f"same as {place + 1}"] = shown
    widths = {name: max(map(len, [name, *cells])) for name, cells in columns.items()}
    lines = ["  ".join(placed(name, name, widths) for name in columns)]
    for row in range(len(results)):
        lines.append("  ".join(placed(name, cells[row], widths) for name, cells in columns.items()))
    return [line.rstrip() for line in lines]


def placed(column: str, cell: str, widths: dict[str, int]) -> str:
    """Return a cell as wide as its column: words to the left, numbers to the right."""
    is_word = column in ("model", "unit")
    return cell.ljust(widths[column]) if is_word else cell.rjust(widths[column])


def with_interval(result: dict[str, Any]) -> str:
    """Return an accuracy and its interval."""
    if result.get("accuracy") is None:
        return NOTHING
    low, high = result["accuracy_interval"]
    return f"{result['accuracy']:.3f} ({low:.3f} to {high:.3f})"


def unit_of(result: dict[str, Any] | None) -> str:
    """Return a unit's name, and whether a high value means positive (+) or negative (-)."""
    if result is None:
        return NOTHING
    return f"{result['unit']} ({'+' if result['polarity'] > 0 else '-'})"
