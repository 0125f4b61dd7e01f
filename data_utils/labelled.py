"""Labelled sets: texts with a binary label."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model.errors import InputError

from .records import Record, read_records
from .texts import LABEL_KEYS, TEXT_KEYS, choose_key


@dataclass(frozen=True)
class LabelledSet:
    """Texts and their classes, as indices into `classes`."""

    texts: list[str]
    labels: np.ndarray  # int64 [N]
    classes: tuple[str, str]  # the negative one, the positive one


@dataclass(frozen=True)
class _Rows:
    texts: list[str]
    labels: list[str]
    path: Path


def read_labelled_sets(
    paths: Sequence[Path], text_key: str | None = None, label_key: str | None = None
) -> list[LabelledSet]:
    """Read sets that share their classes; the first one, train, defines them.

    The two classes are ordered as numbers where they are numbers, else as words; the second is
    the positive one. Raises InputError where a label is missing or there are not two classes.
    """
    rows = [_read_rows(path, text_key, label_key) for path in paths]
    classes = _binary_classes(rows[0])
    return [_with_classes(part, classes) for part in rows]


def read_plain_texts(path: Path, text_key: str | None = None) -> list[str]:
    """Read the texts of a file, one per record; a missing text is the empty one."""
    texts: list[str] = []
    key = None
    for record in read_records(path, strict=True):
        key = key or choose_key(record, text_key, TEXT_KEYS, "--text-key")
        texts.append(_text(record, key))
    if not texts:
        raise InputError(f"{path}: no records in it")
    return texts


def _read_rows(path: Path, text_key: str | None, label_key: str | None) -> _Rows:
    rows = _Rows([], [], path)
    keys = None
    for record in read_records(path, strict=True):
        if keys is None:
            keys = (
                choose_key(record, text_key, TEXT_KEYS, "--text-key"),
                choose_key(record, label_key, LABEL_KEYS, "--label-key"),
            )
        rows.texts.append(_text(record, keys[0]))
        rows.labels.append(_label(record, keys[1]))
    if not rows.texts:
        raise InputError(f"{path}: no records in it")
    return rows


def _text(record: Record, key: str) -> str:
    text = record.get(key)
    return "" if text is None else str(text)


def _label(record: Record, key: str) -> str:
    label = record.get(key)
    if label is None or not str(label).strip():
        raise InputError(f"{record.place}: no label under {key!r}; remove the row or label it")
    number = _number(str(label))
    return str(label).strip() if number is None else f"{number:g}"


def _number(label: str) -> float | None:
    try:
        return float(label)
    except ValueError:
        return None


def _binary_classes(rows: _Rows) -> tuple[str, str]:
    counts = Counter(rows.labels)
    if len(counts) != 2:
        found = ", ".join(f"{name} ({count})" for name, count in counts.most_common(5))
        raise InputError(f"{rows.path}: two classes are needed; found {len(counts)}: {found}")
    numbers = {name: _number(name) for name in counts}
    if None in numbers.values():
        negative, positive = sorted(counts)
    else:
        negative, positive = sorted(counts, key=float)
    return negative, positive


def _with_classes(rows: _Rows, classes: tuple[str, str]) -> LabelledSet:
    unknown = set(rows.labels) - set(classes)
    if unknown:
        raise InputError(
            f"{rows.path}: class {sorted(unknown)[0]!r} does not occur in the training set, "
            f"which has {classes[0]!r} and {classes[1]!r}"
        )
    labels = np.array([classes.index(label) for label in rows.labels], dtype=np.int64)
    return LabelledSet(rows.texts, labels, classes)
