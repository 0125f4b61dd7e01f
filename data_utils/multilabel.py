"""Labelled sets in which a text may have any number of the classes.

There are two formats: a column of 0 and 1 for every class, or one column that lists the classes
of a text.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from model.errors import InputError, utf8_argument
from model.reading.inputs import TableOptions
from model.reading.labels import MOST_CLASSES, in_alphabet, log_set
from model.reading.records import Record
from model.reading.texts import LABEL_KEYS, TEXT_KEYS, KeyChooser, read_text, text_of

from .labelled import (
    LabelledSet,
    labelled_records,
    warn_of_classes,
    warn_of_shared_texts,
)

NO, YES = ("0", "0.0", "false"), ("1", "1.0", "true")


def read_label_columns(
    paths: Sequence[Path],
    text_key: str | None,
    label_keys: Sequence[str],
    table: TableOptions | None = None,
) -> list[LabelledSet]:
    """Read sets with a column of 0 and 1 for each class; the column's name is the class.

    Raises InputError if a column or a text is missing, or if a value is neither 0 nor 1.
    """
    classes = tuple(utf8_argument(name, "--label-keys") for name in label_keys)
    if len(set(classes)) < len(classes):
        raise InputError(f"label keys {', '.join(classes)}: name each once")
    if len(classes) < 2:
        raise InputError(
            f"label keys {', '.join(classes)}: a single column of 0 and 1 means two exclusive "
            "classes; give it as --label-key"
        )

    def row_of(record: Record) -> list[str]:
        return [key for key in classes if _zero_or_one(record, key)]

    parts = [_read(path, text_key, row_of, table) for path in paths]
    return _sets_of(parts, classes, paths)


def read_label_lists(
    paths: Sequence[Path],
    text_key: str | None,
    label_key: str | None,
    delimiter: str,
    table: TableOptions | None = None,
) -> list[LabelledSet]:
    """Read sets with one column of labels: a list, or text with a delimiter between the labels.

    An empty list or text means none of the classes. The first set, train, defines the classes, in
    alphabetical order. Raises InputError if a text or its labels are missing, or if a class does
    not occur in train.
    """
    if not delimiter:
        raise InputError("the label delimiter is empty; name the separator of labels")
    key = KeyChooser(label_key, LABEL_KEYS, "--label-key")

    def row_of(record: Record) -> list[str]:
        return _listed(record, key, delimiter)

    parts = [_read(path, text_key, row_of, table, key) for path in paths]
    classes = tuple(sorted({name for row in parts[0][1] for name in row}, key=in_alphabet))
    if not 2 <= len(classes) <= MOST_CLASSES:
        raise InputError(
            f"{paths[0]}: 2 to {MOST_CLASSES} classes are needed; found {len(classes):,}: "
            f"{', '.join(map(repr, classes[:5]))}; is {delimiter!r} the separator of labels?"
        )
    return _sets_of(parts, classes, paths)


def _sets_of(
    parts: Sequence[tuple[list[str], list[list[str]]]],
    classes: tuple[str, ...],
    paths: Sequence[Path],
) -> list[LabelledSet]:
    places = list(map(str, paths))
    counts = [Counter(name for row in rows for name in row) for _, rows in parts]
    warn_of_classes(list(zip(places, counts, strict=True)))
    sets = [
        LabelledSet(texts, _indicators(rows, classes, path), classes)
        for path, (texts, rows) in zip(paths, parts, strict=True)
    ]
    warn_of_shared_texts(sets, places)
    return sets


def _read(
    path: Path,
    text_key: str | None,
    row_of: Callable[[Record], list[str]],
    table: TableOptions | None,
    label: KeyChooser | None = None,
) -> tuple[list[str], list[list[str]]]:
    key = KeyChooser(text_key, TEXT_KEYS, "--text-key")
    texts, rows = [], []
    for record in labelled_records(path, table):
        texts.append(read_text(record, key, blank=False))
        rows.append(row_of(record))
    key.require(path)
    labels = {} if label is None else {"label": (label.key, label.option)}
    log_set(path, texts, Counter(name for row in rows for name in row), key, labels)
    return texts, rows


def _zero_or_one(record: Record, key: str) -> bool:
    if key not in record:
        present = ", ".join(map(repr, record)) or "none"
        raise InputError(f"{record.place}: no key {key!r}; present: {present} (--label-keys)")
    value = text_of(record[key], record.place)
    word = "" if value is None else value.strip().lower()
    if word not in (*NO, *YES):
        shown = "nothing" if not word else repr(value)
        raise InputError(f"{record.place}: {key!r} is {shown}; a label is 0 or 1")
    return word in YES


def _listed(record: Record, key: KeyChooser, delimiter: str) -> list[str]:
    value = key.value(record)
    if isinstance(value, list):
        names = [_name(item, record, key) for item in value]
    else:
        text = text_of(value, record.place)
        if text is None:
            raise InputError(
                f"{record.place}: no labels under {key.name_in(record)!r}; use an empty list or "
                "text for none"
            )
        names = [name.strip() for name in text.split(delimiter)]
    return [name for name in names if name]


def _name(item: object, record: Record, key: KeyChooser) -> str:
    name = text_of(item, record.place)
    if name is None:
        raise InputError(
            f"{record.place}: the list under {key.name_in(record)!r} holds null; remove it"
        )
    return name.strip()


def _indicators(rows: list[list[str]], classes: tuple[str, ...], path: Path) -> np.ndarray:
    """Return int64 [N, C]."""
    places = {name: place for place, name in enumerate(classes)}
    labels = np.zeros((len(rows), len(classes)), dtype=np.int64)
    for number, row in enumerate(rows):
        for name in row:
            if name not in places:
                raise InputError(
                    f"{path}: class {name!r} does not occur in the training set, which has "
                    f"{', '.join(map(repr, classes))}"
                )
            labels[number, places[name]] = 1
    return labels
