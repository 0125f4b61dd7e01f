"""The file layouts of published sets; each reads its files into parts, a LabelledSet each."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from model.errors import InputError
from model.reading.inputs import LONGEST_RECORD
from model.text.profiles import unescape

from ..labelled import LabelledSet, read_label_columns, read_labelled_sets


def joined(sets: Sequence[LabelledSet]) -> LabelledSet:
    """Return sets of one kind, one after the other."""
    texts = [text for each in sets for text in each.texts]
    labels = np.concatenate([each.labels for each in sets])
    return replace(sets[0], texts=texts, labels=labels)


class Layout(Protocol):
    """How the files of a set are arranged."""

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files, in the order of the parts."""

    def read(self, paths: Sequence[Path]) -> list[LabelledSet]:
        """Read the parts; all files must be there."""


@dataclass(frozen=True)
class Tables:
    """A file for each part, with a column of texts and one of labels; any format of records."""

    files: tuple[str, ...]

    def read(self, paths: Sequence[Path]) -> list[LabelledSet]:
        return read_labelled_sets(paths)


@dataclass(frozen=True)
class LabelColumns:
    """A file for each part, with a column of texts and one of 0 and 1 for each class."""

    files: tuple[str, ...]
    text: str
    classes: tuple[str, ...]

    def read(self, paths: Sequence[Path]) -> list[LabelledSet]:
        """Read the parts, of tweets, every text cleaned alike."""
        parts = read_label_columns(paths, self.text, self.classes)
        return [replace(part, texts=list(map(plain_tweet, part.texts))) for part in parts]


def plain_tweet(text: str) -> str:
    """Return a tweet without names, marks of topics, quotes, and what is beyond ASCII.

    Of SemEval's published files, train is without them and the others are not. Fitted to the one
    form and tested on the other, a model would be tested on the marks as well.
    """
    lines = unescape(text).replace("\\n", " ")
    words = re.sub(r"@\w+", "", lines).encode("ascii", errors="ignore").decode()
    return " ".join(re.sub(r'[#_"]', "", words).split())


@dataclass(frozen=True)
class ClassFiles:
    """A file for each of two classes, the negative one first, one text per line; one part."""

    files: tuple[str, ...]
    classes: tuple[str, ...] = ("neg", "pos")
    encoding: str = "cp1252"  # of a file that is not UTF-8

    def read(self, paths: Sequence[Path]) -> list[LabelledSet]:
        texts = [self._lines(path) for path in paths]
        labels = np.repeat(np.arange(len(texts)), [len(lines) for lines in texts])
        return [LabelledSet([line for lines in texts for line in lines], labels, self.classes)]

    def _lines(self, path: Path) -> list[str]:
        content = path.read_bytes()
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            text = content.decode(self.encoding, errors="replace")
        return [line.strip() for line in text.split("\n") if line.strip()]


@dataclass(frozen=True)
class StarTables:
    """A CSV file for each part, without a header: the label, 1 and up, and the text."""

    files: tuple[str, ...]
    classes: tuple[str, ...]

    def read(self, paths: Sequence[Path]) -> list[LabelledSet]:
        """Read the parts; a backslash and an n in a text are the end of a line."""
        return [self._read(path) for path in paths]

    def _read(self, path: Path) -> LabelledSet:
        known = {str(place + 1): place for place in range(len(self.classes))}
        texts, labels = [], []
        for number, row in enumerate(_csv_rows(path), start=1):
            if len(row) != 2 or row[0] not in known:
                expected = f"a label from 1 to {len(known)} and a text"
                raise InputError(f"{path}, row {number}: expected {expected}")
            labels.append(known[row[0]])
            texts.append(row[1].replace("\\n", "\n"))
        return LabelledSet(texts, np.array(labels, dtype=np.int64), self.classes)


def _csv_rows(path: Path) -> Iterator[list[str]]:
    csv.field_size_limit(LONGEST_RECORD)  # Python's own limit is 128 KiB
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        try:
            yield from csv.reader(file)
        except csv.Error as error:
            raise InputError(f"{path}: damaged ({error})") from error
