"""The published sets and the Amazon reviews, as sets.toml describes them."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from model.errors import InputError, nearest

from ..download.downloads import Dataset, RemoteFile
from ..download.movie_reviews import convert_movie_reviews
from ..labelled import LabelledSet
from .layouts import ClassFiles, LabelColumns, Layout, StarTables, Tables, joined
from .splits import Fold, SplitRule, given_split, ten_folds, val_of_train

DATA = tomllib.loads((Path(__file__).parent / "sets.toml").read_text(encoding="utf-8"))
SOURCES: dict[str, str] = DATA["sources"]  # of published values
LAYOUTS = {
    "tables": Tables,
    "label columns": LabelColumns,
    "class files": ClassFiles,
    "star tables": StarTables,
}
AMAZON = {year: release for year, release in DATA["amazon"].items() if year != "terms"}

Kind = Literal["classes", "emotions"]  # the question about a text


@dataclass(frozen=True)
class Row:
    """A row of the table of results: a measure of all units, or of the best one alone."""

    name: str
    title: str
    measure: str  # its key in a result
    of: str = "all_units"  # the part of a result that holds it


ONE_UNIT = Row("one_unit", "one unit", "accuracy", of="one_unit")
# By the kind of a set: the rows, the main one first, and the baseline's key in a result.
ROWS: dict[Kind, tuple[tuple[Row, ...], str]] = {
    "classes": ((Row("all_units", "all units", "accuracy"), ONE_UNIT), "majority"),
    "emotions": ((Row("all_units", "all units", "plutchik_f1"),), "always"),
}


@dataclass(frozen=True)
class Published:
    """A published value, of a model with this many units."""

    row: str  # its name
    source: str  # in SOURCES
    units: int
    value: float
    unchecked: bool = False  # from memory: no source was at hand


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
    source: Dataset

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of its table, the main one first."""
        return ROWS[self.kind][0]

    @property
    def floor(self) -> str:
        """The answer without reading, by its key in a result."""
        return ROWS[self.kind][1]

    def read(self, data: Path) -> PublishedTask:
        """Read the set from its folder in `data`.

        Raises InputError if a file is missing, and says how to get it, or if it has another layout.
        """
        paths = self._paths(data)
        missing = [path for path in paths if not path.is_file()]
        if missing:
            raise InputError(f"{missing[0]}: no such file; {self.how_to_get()}")
        parts = self.layout.read(paths)
        counts = [len(part.texts) for part in parts]
        return PublishedTask(self.name, joined(parts), self.split(counts))

    def is_in(self, data: Path) -> bool:
        return all(path.is_file() for path in self._paths(data))

    def how_to_get(self) -> str:
        """Say how to get the files."""
        if self.source.files:
            return f"python scripts/download_data.py {self.name} gets {self.title}"
        files = ", ".join(f"{self.name}/{name}" for name in self.layout.files)
        return f"get {self.title} by hand from {self.source.page} as {files}"

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
            Published(row, source, units, value, bool(unchecked))
            for row, source, units, value, *unchecked in entry.get("published", ())
        ),
        source=Dataset(
            entry["page"],
            entry["terms"],
            tuple(RemoteFile(**file) for file in entry.get("downloads", ())),
            convert_movie_reviews if entry.get("convert") == "movie reviews" else None,
            name=name,
        ),
    )


def _split(rule: str | Mapping[str, Any]) -> SplitRule:
    if isinstance(rule, str):
        return {"given": given_split, "ten folds": ten_folds}[rule]
    return val_of_train(rule["val_of_train"], shuffled=rule.get("shuffled", False))


SETS = {name: _set(name, entry) for name, entry in DATA["sets"].items()}
EMOTIONS: tuple[str, ...] = tuple(DATA["sets"]["semeval"]["classes"])


def present(data: Path) -> list[str]:
    """Return the sets that a folder holds; print how to get the others."""
    names = [name for name, entry in SETS.items() if entry.is_in(data)]
    if not names:
        raise InputError(f"{data}: holds none of the sets {', '.join(SETS)}")
    for entry in (entry for name, entry in SETS.items() if name not in names):
        print(f"{entry.title} is not there: {entry.how_to_get()}")
    return names


def find_dataset(name: str, release: str | None = None, mirror: str | None = None) -> Dataset:
    """Look up a published set or `amazon:<category>`; asks no server.

    `mirror` is the address of a folder with the same files, to use instead of the known one.
    release: of the Amazon reviews; if absent, that of 2014. Raises InputError for an unknown name,
    with known ones, for a set that must be fetched by hand, and for a release of another set.
    """
    kind, _, category = name.partition(":")
    if kind == "amazon":
        dataset = _amazon(category, release or "2014")
    elif release is not None:
        raise InputError(f"--release is for amazon:<category>, not for {name}; leave it out")
    elif name in SETS and SETS[name].source.files:
        dataset = SETS[name].source
    else:
        known = [entry.name for entry in SETS.values() if entry.source.files]
        why = SETS[name].how_to_get() if name in SETS else f"data set {name!r} is unknown"
        raise InputError(f"{why}; known: {', '.join(known)}, amazon:<category>")
    return dataset if mirror is None else _mirrored(dataset, mirror)


def _amazon(category: str, release: str) -> Dataset:
    source = AMAZON[release]
    if category not in source["categories"]:
        raise InputError(
            f"amazon:{category}: the release of {release} has no such category"
            f"{nearest(category, source['categories'], cutoff=0.4)}"
        )
    url = source["url"].format(category=category)
    terms = DATA["amazon"]["terms"].format(cite=source["cite"])
    file = RemoteFile(url.rpartition("/")[2], url)
    return Dataset(source["page"], terms, (file,), name=f"amazon_{release}")


def _mirrored(dataset: Dataset, mirror: str) -> Dataset:
    if not _is_address(mirror):
        raise InputError(f"--mirror {mirror}: expected an address, http://... or https://...")
    files = tuple(
        replace(file, url=f"{mirror.rstrip('/')}/{file.url.rpartition('/')[2]}")
        for file in dataset.files
    )
    return replace(dataset, files=files)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is no number
        return False
