"""The published sets as the studies read them: layouts of files, splits, published values.

data_utils/published_sets/sets.toml describes each set; its registry says where to get it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from data_utils.labelled import (
    LabelledSet,
    held_out_rows,
    read_label_columns,
    read_labelled_sets,
)
from data_utils.published_sets.registry import DATA, how_to_get
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import unescape

SOURCES: dict[str, str] = DATA["sources"]  # of published values
SEED = 0
FOLDS = 10


@dataclass(frozen=True)
class Fold:
    """Indices into a set's texts, int64 each."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


SplitRule = Callable[[Sequence[int]], list[Fold]]  # from the number of texts in each part


def fixed_split(counts: Sequence[int]) -> list[Fold]:
    """Take the parts as they are: train, val, test."""
    train, val, test = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    return [Fold(train, val, test)]


def val_of_train(fraction: float, *, shuffled: bool = False) -> SplitRule:
    """Draw val from train, in a set of train and test; both are `shuffled` or keep their order."""

    def split(counts: Sequence[int]) -> list[Fold]:
        drawn = held_out_rows(counts[0], fraction, SEED)
        train, val = (part if shuffled else np.sort(part) for part in drawn)
        return [Fold(train, val, np.arange(counts[0], sum(counts)))]

    return split


def ten_folds(counts: Sequence[int]) -> list[Fold]:
    """Shuffle all texts and cut them into ten folds; a ninth of what is not tested is val."""
    parts = np.array_split(np.random.default_rng(SEED).permutation(sum(counts)), FOLDS)
    folds = []
    for index, test in enumerate(parts):
        chosen = (index + 1) % FOLDS
        train = [part for i, part in enumerate(parts) if i not in (index, chosen)]
        folds.append(Fold(np.concatenate(train), parts[chosen], test))
    return folds


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
    """Return a tweet without user names, hash signs, underscores, quotes, non-ASCII characters.

    In SemEval's published files, train lacks them and the other splits have them. A model fitted
    to one form and tested on the other would be tested on these marks as well.
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


LAYOUTS = {
    "tables": Tables,
    "label columns": LabelColumns,
    "class files": ClassFiles,
}
Kind = Literal["classes", "emotions"]  # the question about a text


@dataclass(frozen=True)
class Row:
    """A row of the table of results: a measure of all units, or of the best one alone."""

    name: str
    title: str
    measure: str  # its key in a result
    of: str = "all_units"  # the part of a result that holds it


# By the kind of a set: the rows, the main one first, and the baseline's key in a result.
ROWS: dict[Kind, tuple[tuple[Row, ...], str]] = {
    "classes": (
        (
            Row("all_units", "all units", "accuracy"),
            Row("one_unit", "one unit", "accuracy", of="one_unit"),
        ),
        "majority",
    ),
    "emotions": ((Row("all_units", "all units", "plutchik_f1"),), "always"),
}


@dataclass(frozen=True)
class Published:
    """A published value, of a model with this many units."""

    row: str  # its name
    source: str  # in SOURCES
    units: int
    value: float
    standing: str = ""  # "secondary source": we had no copy of the paper


@dataclass(frozen=True)
class PublishedTask:
    """All texts of a set, and which of them are for fitting, choosing and testing."""

    name: str
    texts: LabelledSet
    folds: list[Fold]

    @property
    def sets(self) -> list[LabelledSet]:
        """Train, val and test of the first fold, each by itself."""
        return self.parts_of(self.folds[0])

    def parts_of(self, fold: Fold) -> list[LabelledSet]:
        """Return train, val and test of a fold, each by itself."""
        return [self.texts.subset(rows) for rows in (fold.train, fold.val, fold.test)]


@dataclass(frozen=True, kw_only=True)
class PublishedSet:
    """A published set: its files, its split, and what was published on it."""

    name: str  # of its folder, and of its results
    title: str
    note: str = ""  # after the title, to explain the protocol
    kind: Kind = "classes"
    layout: Layout
    other_names: tuple[str, ...] = ()  # of the layout's files, as scripts/download_data.py has them
    split: SplitRule
    published: tuple[Published, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of its table, the main one first."""
        return ROWS[self.kind][0]

    @property
    def baseline(self) -> str:
        """The baseline that does not read the text, by its key in a result."""
        return ROWS[self.kind][1]

    def read(self, data: Path) -> PublishedTask:
        """Read the set from its folder in `data`.

        Raises InputError if a file is missing, and says how to get it, or if it has another layout.
        """
        paths = self._paths(data)
        missing = [path for path in paths if not path.is_file()]
        if missing:
            raise InputError(f"{missing[0]}: no such file; {how_to_get(self.name)}")
        parts = self.layout.read(paths)
        counts = [len(part.texts) for part in parts]
        return PublishedTask(self.name, joined(parts), self.split(counts))

    def is_in(self, data: Path) -> bool:
        return all(path.is_file() for path in self._paths(data))

    def _paths(self, data: Path) -> list[Path]:
        folder = data / self.name
        named = [
            [folder / name for name in names] for names in (self.layout.files, self.other_names)
        ]
        return next((paths for paths in named if paths and paths[0].is_file()), named[0])


def _set(name: str, entry: dict[str, Any]) -> PublishedSet:
    """Return the set that a table of sets.toml describes."""
    lists = ("files", "classes")
    fields = {key: tuple(entry[key]) for key in lists if key in entry}
    layout: Any = LAYOUTS[entry["layout"]]
    return PublishedSet(
        **{key: entry[key] for key in ("title", "note", "kind") if key in entry},
        name=name,
        layout=layout(**fields, **{key: entry[key] for key in ("text",) if key in entry}),
        other_names=tuple(entry.get("other_names", ())),
        split=_split(entry["split"]),
        published=tuple(
            Published(row, source, units, value, *standing)
            for row, source, units, value, *standing in entry.get("published", ())
        ),
    )


def _split(rule: str | Mapping[str, Any]) -> SplitRule:
    if isinstance(rule, str):
        return {"given": fixed_split, "ten folds": ten_folds}[rule]
    return val_of_train(rule["val_of_train"], shuffled=rule.get("shuffled", False))


SETS = {name: _set(name, entry) for name, entry in DATA["sets"].items()}
EMOTIONS: tuple[str, ...] = tuple(DATA["sets"]["semeval"]["classes"])


def present(data: Path) -> list[str]:
    """Return the sets that a folder holds; print how to get the others."""
    names = [name for name, entry in SETS.items() if entry.is_in(data)]
    if not names:
        raise InputError(f"{data}: holds none of the sets {', '.join(SETS)}")
    for entry in (entry for name, entry in SETS.items() if name not in names):
        print(f"{entry.title} is not there: {how_to_get(entry.name)}")
    return names
