"""What a user names as input: files, folders, patterns and addresses, as streams of bytes."""

import glob
import gzip
import logging
import lzma
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from model.errors import InputError

from ..corpus import is_corpus, is_unfinished_corpus

JSON_KINDS = (".jsonl", ".json", ".ndjson")
TABLES = {".csv": ",", ".tsv": "\t"}
KINDS = (*JSON_KINDS, *TABLES, ".txt", ".parquet")
COMPRESSIONS = (".gz", ".xz", ".zst")
NOTES = (".part.json", ".source.json")  # beside a file that was downloaded
SCHEMES = ("http", "https")
TIMEOUT = 60.0  # seconds without a byte from a server
LONGEST_RECORD = 16 << 20  # bytes of a line, an item of an array or a row: more is no review
TOO_LONG = f"longer than {LONGEST_RECORD:,} bytes; cut it, or let each record end its line"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Input:
    """One file or address, its kind and its compression by the end of its name."""

    location: str  # as messages and meta.json name it
    kind: str
    compression: str | None

    @property
    def is_remote(self) -> bool:
        """Whether it is read over the network."""
        return urlsplit(self.location).scheme in SCHEMES

    @property
    def name(self) -> str:
        """The last part of the location: what is published of it."""
        return Path(urlsplit(self.location).path if self.is_remote else self.location).name

    @property
    def stored_bytes(self) -> int | None:
        """Bytes on disk, as they are stored; None where that is not known beforehand."""
        return None if self.is_remote else Path(self.location).stat().st_size

    @property
    def identity(self) -> list[str | int]:
        """What tells that another file is meant, or that it has changed."""
        if self.is_remote:
            return [self.location]
        stat = Path(self.location).stat()
        return [self.location, stat.st_size, stat.st_mtime_ns]

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Stream the bytes, decompressed.

        Raises InputError where there is nothing to read, and where what is read is damaged.
        """
        try:
            with self._stored() as stored, _decompressed(stored, self.compression) as file:
                yield file
        except FileNotFoundError as error:
            raise InputError(f"{self.location}: no such file") from error
        except IsADirectoryError as error:
            raise InputError(f"{self.location}: is a folder; name the files in it") from error
        except urllib.error.HTTPError as error:
            raise InputError(
                f"{self.location}: the server says {error.code} {error.reason}"
            ) from error
        except (urllib.error.URLError, TimeoutError) as error:
            raise InputError(f"{self.location}: cannot be reached ({error})") from error
        except _damage() as error:
            raise InputError(
                f"{self.location}: damaged or cut short ({error}); get it again"
            ) from error

    @contextmanager
    def _stored(self) -> Iterator[IO[bytes]]:
        if self.is_remote:
            with urllib.request.urlopen(self.location, timeout=TIMEOUT) as response:
                yield response
            return
        path = Path(self.location)
        if path.stat().st_size == 0:
            raise InputError(f"{path}: the file is empty")
        with open(path, "rb") as file:
            yield file


def as_input(location: str | Path) -> Input:
    """Name one file or address by its kind; InputError for a kind that is not read."""
    text = str(location)
    suffixes = [suffix.lower() for suffix in Path(urlsplit(text).path).suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in COMPRESSIONS else None
    kind = suffixes[-1] if suffixes else ""
    if kind not in KINDS:
        raise InputError(
            f"{text}: unknown kind of file; known: {', '.join(KINDS)}, each also with "
            f"{', '.join(COMPRESSIONS)}"
        )
    return Input(text, kind, compression)


def expand(arguments: Sequence[str | Path]) -> list[Input]:
    """Return the inputs that files, folders, patterns and addresses name, in a fixed order.

    A folder stands for all files in it, at any depth, of a kind that is read; a folder's and a
    pattern's files are taken in the order of their names. Left out are files that this project made
    there: corpora, finished or not, and notes on downloads.
    """
    inputs: list[Input] = []
    for argument in map(str, arguments):
        if urlsplit(argument).scheme in SCHEMES or Path(argument).is_file():
            inputs.append(as_input(argument))
        elif Path(argument).is_dir():
            inputs += _of_folder(Path(argument))
        elif matches := sorted(path for path in glob.glob(argument, recursive=True)):
            files = [path for path in map(Path, matches) if path.is_file()]
            inputs += map(as_input, _not_ours(files, argument))
        else:
            raise InputError(f"{argument}: no such file")
    return inputs


def _of_folder(folder: Path) -> list[Input]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    inputs = []
    for path in _not_ours(files, str(folder)):
        try:
            inputs.append(as_input(path))
        except InputError:
            continue  # a README or a licence beside the data
    if not inputs:
        raise InputError(f"{folder}: no file of a known kind in it ({', '.join(KINDS)})")
    return inputs


def _not_ours(files: Sequence[Path], argument: str) -> list[Path]:
    """Return the files but those that this project made; say how many these are."""
    kept = [path for path in files if not _is_ours(path)]
    if ours := len(files) - len(kept):
        log.info("%s: %d files that this project made are left out", argument, ours)
    return kept


def _is_ours(path: Path) -> bool:
    unfinished = any(map(is_unfinished_corpus, path.parents))
    return unfinished or is_corpus(path.parent) or path.name.endswith(NOTES)


def lines_of(file: IO[bytes], location: str) -> Iterator[bytes]:
    """Yield the lines of a file, with their ends; InputError for one that is too long."""
    number = 1
    while line := file.readline(LONGEST_RECORD + 2):
        if is_too_long(line):
            raise InputError(f"{location}, line {number}: {TOO_LONG}")
        yield line
        number += 1


def is_too_long(line: bytes) -> bool:
    """Return whether a line, with its end or without, is more than a record may be."""
    return len(line) > LONGEST_RECORD + line.endswith(b"\n")


@contextmanager
def _decompressed(stored: IO[bytes], compression: str | None) -> Iterator[Any]:
    if compression is None:
        yield stored
    elif compression == ".xz":
        with lzma.open(stored, "rb") as file:
            yield file
    elif compression == ".zst":
        with zstandard().open(stored, "rb") as file:
            yield file
    else:
        with _gzip().open(stored, "rb") as file:
            yield file


def _gzip() -> Any:
    """Return isal's module where it is installed: a third of zlib's time."""
    try:
        from isal import igzip
    except ImportError:
        return gzip
    return igzip


def zstandard() -> Any:
    """Return the standard library's module of Python 3.14, or its backport."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise InputError(".zst files need backports.zstd: pip install backports.zstd")


def _damage() -> tuple[type[Exception], ...]:
    """Return what a compressed file that was cut short or damaged raises while it is read."""
    found: list[type[Exception]] = [EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile]
    for module, name in (
        ("compression.zstd", "ZstdError"),
        ("backports.zstd", "ZstdError"),
        ("isal.isal_zlib", "error"),
    ):
        if module in sys.modules:  # else nothing of it was read
            found.append(getattr(sys.modules[module], name))
    return tuple(found)
