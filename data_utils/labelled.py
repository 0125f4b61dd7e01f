"""Labelled sets: texts that each have one of two or more classes, or any number of them."""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from mlstm_sentiment.errors import InputError, utf8_argument
from mlstm_sentiment.files.storage import listed
from mlstm_sentiment.reading.inputs import TableOptions, as_input, check_used
from mlstm_sentiment.reading.labels import (
    SHOWN,
    in_alphabet,
    label_of,
    labelled_digest,
    log_order,
    log_set,
    ordered_classes,
)
from mlstm_sentiment.reading.records import read_records
from mlstm_sentiment.reading.tables import Record
from mlstm_sentiment.reading.texts import KeyChooser, read_text, text_of

# Files that need no warning: hidden ones, lists next to pos/ and neg/, texts without a class.
_USUAL = re.compile(r"(.*/)?\..*|[^/]*|unsup/.*")
_CLASS_FOLDERS = ("neg", "pos")
NO, YES = ("0", "0.0", "false"), ("1", "1.0", "true")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabelledSet:
    """Texts and their classes."""

    texts: list[str]
    labels: np.ndarray  # int64 [N], indices into classes; multilabel: [N, C] of 0 and 1
    classes: tuple[str, ...]  # if two: the negative one, the positive one

    @property
    def is_multilabel(self) -> bool:
        """Whether a text may have any number of the classes."""
        return self.labels.ndim == 2

    @property
    def digest(self) -> str:
        """Identifies the set in a result: the SHA-256 of the texts with their classes."""
        return labelled_digest(self.texts, self.labels.tolist(), self.classes)

    def subset(self, rows: np.ndarray) -> "LabelledSet":
        return LabelledSet([self.texts[row] for row in rows], self.labels[rows], self.classes)

    def drawn(self, most: int, seed: int) -> "LabelledSet":
        """Return a random sample of at most this many examples, in their original order."""
        if len(self.texts) <= most:
            return self
        rows = np.random.default_rng(seed).choice(len(self.texts), most, replace=False)
        return self.subset(np.sort(rows))


def read_labelled_sets(
    paths: Sequence[Path],
    text_key: str | Sequence[str] | None = None,
    label_key: str | None = None,
    *,
    blank: bool = True,
    table: TableOptions | None = None,
) -> list[LabelledSet]:
    """Read sets that share their classes; the first one, train, defines them.

        train, test = read_labelled_sets([Path("train.csv"), Path("test.csv")])
        print(train.classes, train.texts[0], train.labels[0])

    A path is a file, or a folder that has the files of each class in its folders pos/ and neg/.

    Classes are sorted as numbers if all are numbers, else as words; of two classes, the second
    is the positive one. Raises InputError if a label is missing, if there are fewer than two
    classes or more than 100, and, unless `blank`, if a text is missing or empty.
    """
    table, places = _checked_table(table, paths), list(map(str, paths))
    rows = [_read_rows(path, text_key, label_key, blank, table) for path in paths]
    classes = ordered_classes(rows[0][1], places[0])
    _warn_of_classes(places, [Counter(labels) for _, labels in rows])
    log_order(classes)
    sets, indices = [], {name: index for index, name in enumerate(classes)}
    for place, (texts, labels) in zip(places, rows, strict=True):
        if unknown := set(labels) - set(classes):
            raise InputError(
                f"{place}: class {min(unknown)!r} does not occur in the training set, which has "
                f"{', '.join(map(repr, classes))}"
            )
        numbers = np.array([indices[label] for label in labels], dtype=np.int64)
        sets.append(LabelledSet(texts, numbers, classes))
    warn_of_shared_texts(sets, places)
    return sets


def read_label_columns(
    paths: Sequence[Path],
    text_key: str | Sequence[str] | None,
    label_keys: Sequence[str],
    table: TableOptions | None = None,
) -> list[LabelledSet]:
    """Read sets with a column of 0 and 1 for each class; the column's name is the class.

    A text may have any number of the classes. Raises InputError if a column or a text is missing,
    or if a value is neither 0 nor 1.
    """
    classes = tuple(utf8_argument(name, "--label-keys") for name in label_keys)
    if len(set(classes)) < len(classes):
        raise InputError(f"label keys {', '.join(classes)}: one is repeated; name each once")
    if len(classes) < 2:
        raise InputError(
            f"label keys {', '.join(classes)}: a single column of 0 and 1 means two exclusive "
            "classes; give it as --label-key"
        )
    table, places = _checked_table(table, paths), list(map(str, paths))
    sets, counts = list[LabelledSet](), list[Counter[str]]()
    for path in paths:
        key, texts, rows = KeyChooser(text_key), list[str](), list[list[bool]]()
        for record in _labelled_records(path, table):
            texts.append(read_text(record, key, blank=False))
            rows.append([_zero_or_one(record, name) for name in classes])
        key.require(path)
        sets.append(LabelledSet(texts, np.array(rows, dtype=np.int64), classes))
        of_each = dict(zip(classes, sets[-1].labels.sum(0).tolist(), strict=True))
        counts.append(Counter({name: count for name, count in of_each.items() if count}))
        log_set(path, texts, counts[-1], key, {})
    _warn_of_classes(places, counts)
    warn_of_shared_texts(sets, places)
    return sets


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


def warn_of_shared_texts(sets: Sequence[LabelledSet], names: Sequence[str]) -> None:
    """Warn of texts that a set shares with an earlier one.

    Results on these texts do not hold for new ones. Blank ones, and white space around a text, do
    not count.
    """
    stripped = [[text.strip() for text in part.texts] for part in sets]
    for later, earlier in combinations(reversed(range(len(sets))), 2):
        earlier_texts = set(stripped[earlier]) - {""}
        shared = sum(text in earlier_texts for text in stripped[later])
        if shared:
            log.warning(
                "%s: %s of its %s texts are in %s, too; results on these do not hold for new "
                "texts",
                names[later], f"{shared:,}", f"{len(stripped[later]):,}", names[earlier],
            )  # fmt: skip


def _checked_table(table: TableOptions | None, paths: Sequence[Path]) -> TableOptions:
    """Return the options, if given; InputError for one that does nothing for any of the sets."""
    table = table or TableOptions()
    check_used(table, [".txt" if path.is_dir() else as_input(path).kind for path in paths])
    return table


def _read_rows(
    path: Path,
    text_key: str | Sequence[str] | None,
    label_key: str | None,
    blank: bool,
    table: TableOptions,
) -> tuple[list[str], list[str]]:
    text, label = KeyChooser(text_key or None), KeyChooser(label_key, is_label=True)
    texts, labels = list[str](), list[str]()
    for record in _labelled_records(path, table):
        texts.append(read_text(record, text, blank=blank))
        labels.append(label_of(record, label))
    text.require(path)
    log_set(path, texts, Counter(labels), text, {"label": (label.key, label.option)})
    return texts, labels


def _labelled_records(path: Path, table: TableOptions) -> Iterator[Record]:
    """Yield the records of a file, or of a folder's pos/ and neg/."""
    if path.is_dir() and (path / "pos").is_dir() and (path / "neg").is_dir():
        _warn_of_left_out(path)
        for name in _CLASS_FOLDERS:
            for file in sorted((path / name).glob("*.txt")):
                for record in read_records(as_input(file, table), strict=True, whole=True):
                    record["label"] = name
                    yield record
        return
    yield from read_records(as_input(path, table), strict=True)


def _warn_of_left_out(folder: Path) -> None:
    """Warn of texts of other classes or other suffixes; those in unsup/ have no class."""
    read = {path for name in _CLASS_FOLDERS for path in (folder / name).glob("*.txt")}
    others = (path for path in folder.rglob("*.[tT][xX][tT]*") if path not in read)
    names = [path.relative_to(folder).as_posix() for path in others]
    names = [name for name in names if not _USUAL.fullmatch(name)]
    if names:
        message = "%s: leaves out %s; only the .txt files in pos/ and neg/ are read"
        log.warning(message, folder, listed(sorted(names)))


def _warn_of_classes(places: Sequence[str], counts: Sequence[Counter[str]]) -> None:
    """Warn of classes that differ only in case or space, or are absent from a later set."""
    spellings: dict[str, set[str]] = {}
    for name in counts[0]:
        spellings.setdefault(" ".join(name.split()).casefold(), set()).add(name)
    for alike in filter(lambda names: len(names) > 1, spellings.values()):
        names = ", ".join(map(repr, sorted(alike)))
        log.warning("%s: the classes %s differ only in case or space", places[0], names)
    for place, later in zip(places[1:], counts[1:], strict=True):
        if absent := sorted(counts[0].keys() - later.keys(), key=in_alphabet):
            log.warning("%s: has no text of %s", place, ", ".join(map(repr, absent[:SHOWN])))


def held_out_rows(count: int, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to learn from and those held out, int64, as they are drawn."""
    out = max(round(count * fraction), 1)
    order = np.random.default_rng(seed).permutation(count)
    return order[out:], order[:out]


def against_rest(sets: Sequence[LabelledSet], positive: str) -> list[LabelledSet]:
    """Return the sets with two classes, `positive` and all others; InputError if it is missing."""
    classes = sets[0].classes
    if positive not in classes:
        raise InputError(f"unknown class {positive!r}; known: {', '.join(map(repr, classes))}")
    names = (f"not {positive}", positive)
    place = classes.index(positive)
    return [LabelledSet(s.texts, (s.labels == place).astype(np.int64), names) for s in sets]
