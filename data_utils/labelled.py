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
from mlstm_sentiment.reading.source import Source
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


@dataclass(frozen=True)
class _Rows:
    texts: list[str]
    labels: list[str]
    path: Path


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
    sources = _sources(paths, text_key, table)
    rows = [_read_rows(source, label_key, blank) for source in sources]
    classes = ordered_classes(rows[0].labels, rows[0].path)
    _warn_of_classes([(str(part.path), Counter(part.labels)) for part in rows])
    log_order(classes)
    sets = [_with_classes(part, classes) for part in rows]
    warn_of_shared_texts(sets, list(map(str, paths)))
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
    sets, places, counts = list[LabelledSet](), list(map(str, paths)), list[Counter[str]]()
    for path, source in zip(paths, _sources(paths, text_key, table), strict=True):
        key, texts, rows = KeyChooser(text_key), list[str](), list[list[bool]]()
        for record in _labelled_records(source):
            texts.append(read_text(record, key, blank=False))
            rows.append([_zero_or_one(record, name) for name in classes])
        key.require(path)
        sets.append(LabelledSet(texts, np.array(rows, dtype=np.int64), classes))
        of_each = dict(zip(classes, sets[-1].labels.sum(0).tolist(), strict=True))
        counts.append(Counter({name: count for name, count in of_each.items() if count}))
        log_set(path, texts, counts[-1], key, {})
    _warn_of_classes(list(zip(places, counts, strict=True)))
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


def _sources(
    paths: Sequence[Path], text_key: str | Sequence[str] | None, table: TableOptions | None
) -> list[Source]:
    """Return where the sets are; InputError for an option that does nothing for any of them."""
    table = table or TableOptions()
    check_used(table, [".txt" if path.is_dir() else as_input(path).kind for path in paths])
    return [Source(path, text_key, table) for path in paths]


def _read_rows(source: Source, label_key: str | None, blank: bool) -> _Rows:
    path = Path(str(source.location))
    rows = _Rows([], [], path)
    text = KeyChooser(source.text_key)
    label = KeyChooser(label_key, is_label=True)
    for record in _labelled_records(source):
        rows.texts.append(read_text(record, text, blank=blank))
        rows.labels.append(label_of(record, label))
    text.require(path)
    labels = {"label": (label.key, label.option)}
    log_set(path, rows.texts, Counter(rows.labels), text, labels)
    return rows


def _labelled_records(source: Source) -> Iterator[Record]:
    """Yield the records of a file, or of a folder's pos/ and neg/."""
    path = Path(str(source.location))
    if path.is_dir() and (path / "pos").is_dir() and (path / "neg").is_dir():
        _warn_of_left_out(path)
        for name in _CLASS_FOLDERS:
            for file in sorted((path / name).glob("*.txt")):
                for record in read_records(as_input(file, source.table), strict=True, whole=True):
                    record["label"] = name
                    yield record
        return
    yield from read_records(as_input(path, source.table), strict=True)


def _warn_of_left_out(folder: Path) -> None:
    """Warn of texts of other classes or other suffixes; those in unsup/ have no class."""
    read = {path for name in _CLASS_FOLDERS for path in (folder / name).glob("*.txt")}
    others = (path for path in folder.rglob("*.[tT][xX][tT]*") if path not in read)
    names = [path.relative_to(folder).as_posix() for path in others]
    names = [name for name in names if not _USUAL.fullmatch(name)]
    if names:
        message = "%s: leaves out %s; only the .txt files in pos/ and neg/ are read"
        log.warning(message, folder, listed(sorted(names)))


def _warn_of_classes(sets: Sequence[tuple[str, Counter[str]]]) -> None:
    """Warn of classes that differ only in case or white space, or are absent from a later set.

    sets: the place of each, and how many of its texts have each class.
    """
    spellings: dict[str, set[str]] = {}
    for name in sets[0][1]:
        spellings.setdefault(" ".join(name.split()).casefold(), set()).add(name)
    for alike in filter(lambda names: len(names) > 1, spellings.values()):
        names = ", ".join(map(repr, sorted(alike)))
        log.warning("%s: the classes %s differ only in case or space", sets[0][0], names)
    for place, counts in sets[1:]:
        if absent := sorted(sets[0][1].keys() - counts.keys(), key=in_alphabet):
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


def _with_classes(rows: _Rows, classes: tuple[str, ...]) -> LabelledSet:
    unknown = set(rows.labels) - set(classes)
    if unknown:
        raise InputError(
            f"{rows.path}: class {sorted(unknown)[0]!r} does not occur in the training set, "
            f"which has {', '.join(map(repr, classes))}"
        )
    places = {name: place for place, name in enumerate(classes)}
    labels = np.array([places[label] for label in rows.labels], dtype=np.int64)
    return LabelledSet(rows.texts, labels, classes)
