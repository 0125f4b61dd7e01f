"""The files that published sets come in, read to parts: LabelledSets, one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from ..labelled import LabelledSet, read_labelled_sets
from ..multilabel import read_label_columns


class Layout(Protocol):
    """How a set lies in its folder."""

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files, in the order of the parts."""

    def read(self, paths: Sequence[Path]) -> list[LabelledSet]:
        """Read the parts from the files, all of which are there."""


@dataclass(frozen=True)
class Tables:
    """A file for each part, with a column of texts and one of labels; any format of records."""

    files: tuple[str, ...]

    def read(self, paths: Sequence[Path]) -> list[LabelledSet]:
        """Read the parts; the first one defines the classes."""
        return read_labelled_sets(paths)


@dataclass(frozen=True)
class LabelColumns:
    """A file for each part, with a column of texts and one of 0 and 1 for each class."""

    files: tuple[str, ...]
    text: str
    classes: tuple[str, ...]

    def read(self, paths: Sequence[Path]) -> list[LabelledSet]:
        """Read the parts."""
        return read_label_columns(paths, self.text, self.classes)


@dataclass(frozen=True)
class ClassFiles:
    """A file for each of two classes, the negative one first, a text a line; one part."""

    files: tuple[str, ...]
    classes: tuple[str, ...] = ("neg", "pos")
    encoding: str = "cp1252"  # where a file is not UTF-8

    def read(self, paths: Sequence[Path]) -> list[LabelledSet]:
        """Read the classes, one after the other."""
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
