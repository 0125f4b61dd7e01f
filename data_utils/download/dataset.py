"""Files of a published set: their addresses and the terms of use."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RemoteFile:
    """One file at an address."""

    name: str  # on the disk
    url: str
    sha256: str | None = None  # of the published file; None if none was published


@dataclass(frozen=True)
class Dataset:
    """Files that belong together."""

    page: str  # about the set, and where to look if an address no longer works
    terms: str  # of use, in a sentence or two
    files: tuple[RemoteFile, ...] = ()  # none if they must be fetched by hand
    # Converts a downloaded file, in a folder, for transfer; returns the files and their rows.
    convert: Callable[[Path, Path], dict[Path, int]] | None = None
    name: str = ""  # of the folder; that of a published set is the set's
