"""Files of a published set: where they lie, and on what terms."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RemoteFile:
    """One file at an address."""

    name: str  # on the disk
    url: str
    sha256: str | None = None  # of the published file; None where nobody published it


@dataclass(frozen=True)
class Dataset:
    """Files that belong together."""

    name: str  # a folder
    files: tuple[RemoteFile, ...]  # none where a person has to fetch them
    page: str  # for people: what it is, and where to look once an address is dead
    terms: str  # of use, in a sentence or two
    # Makes of a downloaded file, in a folder, what transfer reads: the files and their rows.
    convert: Callable[[Path, Path], dict[Path, int]] | None = None
