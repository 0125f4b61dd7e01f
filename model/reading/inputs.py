"""The user's input, a file or an address, as a stream of bytes."""

import http.client
import io
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from stat import S_ISFIFO
from typing import IO, Any
from urllib.parse import urlsplit
from uuid import uuid4

from ..errors import InputError
from .compression import READ_AT_ONCE, damage, decompressed

JSON_KINDS = (".jsonl", ".json", ".ndjson")
TABLES = {".csv": ",", ".tsv": "\t"}
KINDS = (*JSON_KINDS, *TABLES, ".txt", ".parquet")
COMPRESSIONS = (".gz", ".xz", ".zst")
SCHEMES = ("http://", "https://")
FLATTENED = (("http:",), ("https:",))  # how the path begins that Path makes of an address
TIMEOUT = 60.0  # seconds without a byte from a server
LONGEST_RECORD = 16 << 20  # bytes of a line, an item of an array or a row: no review is longer
TOO_LONG = f"longer than {LONGEST_RECORD:,} bytes; cut it, or let each record end its line"
MOST_UNPACKED = 100  # times its size on the disk: text unpacks to some ten times
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-32, too, in this order of bytes
# How files begin that are no text, and what to do with them.
OTHER_FILES = {
    b"PK\x03\x04": "is a zip file, such as a workbook of Excel; save it as CSV in UTF-8",
    b"\x1f\x8b": "is packed by gzip; let its name end in .gz",
    b"\xfd7zXZ": "is packed by xz; let its name end in .xz",
    b"\x28\xb5\x2f\xfd": "is packed by zstd; let its name end in .zst",
    b"PAR1": "is a Parquet file; let its name end in .parquet",
    b"%PDF-": "is a PDF; save its text in a file",
}
LONGEST_MARK = max(map(len, OTHER_FILES))
SURE_UNPACKED = 64 << 20  # bytes to which any file may unpack


@dataclass
class Position:
    """A reader's position in its input."""

    stored: IO[bytes] | None = None  # the stored file
    size: int = 0  # bytes of it

    @property
    def fraction(self) -> float | None:
        """The fraction that has been read, above 0 and at most 1; None if unknown."""
        if self.stored is None:
            return None
        return 1.0 if self.stored.closed else (self.stored.tell() / self.size or None)


@dataclass(frozen=True)
class Input:
    """One file or address; its suffixes determine its kind and its compression."""

    location: str  # its name in messages and meta.json
    kind: str
    compression: str | None

    @property
    def is_remote(self) -> bool:
        """Whether it is read over the network."""
        return is_address(self.location)

    @property
    def name(self) -> str:
        """The last part of the location, the only one that is published."""
        return _path_in(self.location).name

    @property
    def stored_bytes(self) -> int | None:
        """Stored bytes on disk; None if unknown beforehand, as of an address or a pipe."""
        if self.is_remote:
            return None
        stat = Path(self.location).stat()
        return None if S_ISFIFO(stat.st_mode) else stat.st_size

    @cached_property
    def identity(self) -> list[str | int | None]:
        """Values that change if another file is named, or if the file is replaced.

        For a server's file its version and size; if the server sends no version, never the same.
        """
        if self.is_remote:
            with self.named_errors(), _response(self.location) as response:
                told = [response.headers[name] for name in ("ETag", "Last-Modified")]
                size = response.headers["Content-Length"]
            return [self.location, *(told if any(told) else [uuid4().hex]), size]
        stat = Path(self.location).stat()
        return [self.location, stat.st_size, stat.st_mtime_ns]

    @contextmanager
    def open(self, position: Position | None = None) -> Iterator[IO[bytes]]:
        """Stream the bytes, decompressed.

        position: updated to the reader's place in a file on disk. Raises InputError if there is
        nothing to read, and if what is read is damaged.
        """
        with (
            self.named_errors(),
            self._stored(position) as stored,
            decompressed(stored, self.compression) as file,
        ):
            bounded = self._bounded(file)
            if self.kind != ".parquet":
                check_encoding(bounded.peek(LONGEST_MARK), self.location)
            yield bounded

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Turn errors of reading into InputError with the location, unless they name a file."""
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"{self.location}: no such file") from error
        except IsADirectoryError as error:
            raise InputError(f"{self.location}: is a folder; name the files in it") from error
        except urllib.error.HTTPError as error:
            error.close()
            raise InputError(
                f"{self.location}: the server says {error.code} {error.reason}"
            ) from error
        except (urllib.error.URLError, TimeoutError) as error:
            raise InputError(f"{self.location}: cannot be reached ({error})") from error
        except (http.client.HTTPException, ConnectionError) as error:
            raise InputError(f"{self.location}: no valid answer ({error!r})") from error
        except damage() as error:
            raise InputError(
                f"{self.location}: damaged or cut short ({error}); get it again"
            ) from error
        except OSError as error:  # such as of a disk, or of a network that is gone
            if error.filename:
                raise
            raise InputError(f"{self.location}: {error.strerror or error}") from error

    def _bounded(self, file: Any) -> Any:
        """Limit how much a stream unpacks to, relative to its file's size."""
        size = self.stored_bytes
        if self.compression is None or self.kind == ".parquet" or size is None:
            return file
        return io.BufferedReader(_Unpacked(file, size, self.location), READ_AT_ONCE)

    @contextmanager
    def _stored(self, position: Position | None) -> Iterator[IO[bytes]]:
        if self.is_remote:
            with _response(self.location) as response:
                yield io.BufferedReader(_WholeBody(response, self.location), READ_AT_ONCE)
            return
        path, size = Path(self.location), self.stored_bytes
        if size == 0:
            raise InputError(f"{path}: the file is empty")
        with open(path, "rb") as file:
            if position is not None and size is not None:
                position.stored, position.size = file, size
            yield file


def check_encoding(head: bytes, location: str) -> None:
    """Raise InputError for a file that begins like UTF-16 or UTF-32, or like one that is no text.

    UTF-16 and UTF-32 are known by their byte order mark.
    """
    if head.startswith(UTF16_MARKS):
        raise InputError(f"{location}: begins like UTF-16; convert it to UTF-8")
    for mark, what in OTHER_FILES.items():
        if head.startswith(mark):
            raise InputError(f"{location}: {what}")


def _response(location: str) -> Any:
    try:
        return urllib.request.urlopen(location, timeout=TIMEOUT)
    except (http.client.InvalidURL, UnicodeError) as error:
        mend = "; write signs beyond ASCII as %XX" if isinstance(error, UnicodeError) else ""
        raise InputError(f"{location}: not a valid address ({error}){mend}") from error


class _WholeBody(io.RawIOBase):
    """A server's answer; InputError if it ends before its announced length.

    Python's own reader takes such an end for the end of the file.
    """

    def __init__(self, response: http.client.HTTPResponse, location: str):
        self.response, self.location = response, location

    def readable(self) -> bool:
        """Return True: io.BufferedReader asks."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; return how many bytes of it."""
        count = self.response.readinto(buffer)
        if count == 0 and self.response.length:
            raise InputError(
                f"{self.location}: cut short, {self.response.length:,} bytes are missing; get it "
                "again"
            )
        return count


class _Unpacked(io.RawIOBase):
    """The unpacked content of a file of `size` bytes; InputError if it is far too large."""

    def __init__(self, file: IO[bytes], size: int, location: str):
        self.file, self.location = file, location
        self.left = max(MOST_UNPACKED * size, SURE_UNPACKED)

    def readable(self) -> bool:
        """Return True: io.BufferedReader asks."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; return how many bytes of it."""
        part = self.file.read(len(buffer))
        buffer[: len(part)] = part
        self.left -= len(part)
        if self.left < 0:
            raise InputError(
                f"{self.location}: unpacks to more than {MOST_UNPACKED} times its size, which real "
                "text does not; if the file is genuine, unpack it first"
            )
        return len(part)


def is_address(location: str) -> bool:
    """Return whether it is an address, and not a path."""
    return location.lower().startswith(SCHEMES)


def _path_in(location: str) -> Path:
    """Return an address's path, or the path; InputError if it is neither."""
    try:
        return Path(urlsplit(location).path if is_address(location) else location)
    except ValueError as error:  # such as a bracket that is never closed
        raise InputError(f"{location}: not a valid address ({error})") from error


def as_input(location: str | Path) -> Input:
    """Return one file or address with its kind; InputError for an unknown kind.

    Raises it also for a path that was an address: of these, Path drops a slash.
    """
    text = str(location)
    if isinstance(location, Path) and location.parts[:1] in FLATTENED:
        address = text.replace(":/", "://", 1)
        raise InputError(f"{address}: an address, where only files are read; download it first")
    suffixes = [suffix.lower() for suffix in _path_in(text).suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in COMPRESSIONS else None
    kind = suffixes[-1] if suffixes else ""
    if kind not in KINDS and not is_address(text) and not Path(text).exists():
        raise InputError(f"{text}: no such file")
    if kind not in KINDS and not is_address(text) and Path(text).is_dir():
        raise InputError(f"{text}: is a folder; name the files in it")
    if kind not in KINDS:
        raise InputError(
            f"{text}: unknown kind of file; known: {', '.join(KINDS)}, each also with "
            f"{', '.join(COMPRESSIONS)}"
        )
    return Input(text, kind, compression)


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
