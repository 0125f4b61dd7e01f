"""The labels of a labelled set: how they are written, and which class is the positive one."""

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from .tables import Record, TableReport
from .texts import KeyChooser, describe_table, text_of

_SIGNS = {"-": "negative", "+": "positive"}  # which have no alphabetical order
_MOST_CLASSES = 100  # a column with more values is probably an identifier or a measurement
SHOWN = 10  # classes in a message
_WHOLE = re.compile(r"[+-]?\d+")

log = logging.getLogger(__name__)


def label_of(record: Record, key: KeyChooser) -> str:
    label = text_of(key.value(record), record.place) or ""
    number = number_in(label)
    if not label.strip() or number != number:  # NaN alone differs from itself
        name = key.name_in(record)
        raise InputError(f"{record.place}: no label under {name!r}; remove the row or label it")
    return label.strip() if number is None else _written(number)


def _written(number: float) -> str:
    """Write equal numbers the same way, so that 1, 1.0 and 1e0 are one class."""
    is_whole = isinstance(number, int) or number.is_integer()
    return str(int(number)) if is_whole else repr(number)


def number_in(label: str) -> float | None:
    """Return a label as a number, or None for a word.

    Digits alone become an int, since float() would round identifiers beyond 2^53. More digits than
    Python converts (4,300) count as a word.
    """
    try:
        if _WHOLE.fullmatch(label.strip()):
            return int(label)
        return None if "_" in label else float(label)  # Python reads 2020_01 as 202001
    except ValueError:
        return None


def ordered_classes(labels: Iterable[str], location: object) -> tuple[str, ...]:
    """Return the classes: numbers in their order, words by the alphabet.

    Of two, the second is the positive one. Raises InputError if there are fewer than 2 or more than
    _MOST_CLASSES.
    """
    counts = Counter(labels)
    if not 2 <= len(counts) <= _MOST_CLASSES:
        shown = ", ".join(f"{name} ({count})" for name, count in counts.most_common(SHOWN // 2))
        raise InputError(
            f"{location}: 2 to {_MOST_CLASSES} classes are needed; found {len(counts):,}: {shown}; "
            "name another key of labels with --label-key"
        )
    numbers = {name: number for name in counts if (number := number_in(name)) is not None}
    if counts.keys() == _SIGNS.keys():
        return tuple(_SIGNS)
    if len(numbers) == len(counts):
        return tuple(sorted(counts, key=numbers.__getitem__))
    return tuple(sorted(counts, key=in_alphabet))


def in_alphabet(word: str) -> tuple[str, str]:
    """Return a word's sort key: "negative" comes before "Positive", unlike in ASCII."""
    return word.casefold(), word


def labelled_digest(texts: Sequence[str], labels: Sequence[Any], classes: Sequence[str]) -> str:
    """Identify a labelled set: the SHA-256 of its texts and the indices of their classes."""
    lines = (json.dumps(list(pair)) for pair in zip(texts, labels, strict=True))
    return hashlib.sha256("\n".join([json.dumps(list(classes)), *lines]).encode()).hexdigest()


def log_set(
    path: Path,
    texts: Sequence[str],
    counts: Counter[str],
    text: KeyChooser,
    labels: Mapping[str, tuple[str | None, str]],
) -> None:
    """Log what was read: rows, classes with their counts, columns, rows without text.

    labels: by what a column of labels holds, its name and the option that names another.
    """
    keys = {"text": (text.key, text.option), **labels}
    blank = sum(not each.strip() for each in texts)
    shown = [f"{name!r} {count:,}" for name, count in counts.most_common(SHOWN)]
    if len(counts) > SHOWN:
        shown.append(f"{len(counts) - SHOWN:,} more classes")
    table = text.table or TableReport(str(path), rows=len(texts))
    without = f"; {blank:,} without text" if blank else ""
    log.info("%s: %s%s", describe_table(table, keys), ", ".join(shown) or "no labels", without)


def log_order(classes: Sequence[str]) -> None:
    if len(classes) == 2 and number_in(classes[1]) is None:
        log.info("of the classes %r and %r, the second is the positive one", *classes)
