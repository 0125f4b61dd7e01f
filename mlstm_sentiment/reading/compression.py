"""Compressed files as streams of their content, however many parts they are made of."""

import bz2
import gzip
import io
import lzma
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import IO, Any

from ..errors import InputError

READ_AT_ONCE = 1 << 16


# How each compression begins, and what it is called.
COMPRESSIONS = {
    ".gz": (b"\x1f\x8b", "gzip"),
    ".bz2": (b"BZh", "bzip2"),
    ".xz": (b"\xfd7zXZ", "xz"),
    ".zst": (b"\x28\xb5\x2f\xfd", "zstd"),
    ".zip": (b"PK", "zip"),
}
# Files in an archive that nobody means, next to the one with the texts.
_NOTES = re.compile(
    r"(^|/)(\.|__MACOSX/|(readme|licen[cs]e|changelog|notice|about|copying)\b[^/]*$)|"
    r"\.(md|rst|html?|pdf|png|jpe?g|gif|ini|db|css|js)$",
    re.IGNORECASE,
)
# Python's own readers of these formats stop without an error at a stream that they cannot begin.
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    ".bz2": bz2.BZ2Decompressor,
    ".xz": partial(lzma.LZMADecompressor, lzma.FORMAT_XZ),
}


@contextmanager
def decompressed(stored: Any, compression: str | None, location: str) -> Iterator[Any]:
    """Stream the content of a stored file; raises one of the `damage` errors if it is damaged.

    Raises InputError, with the location, if it does not begin as this compression does.
    """
    if compression is None:
        yield stored
        return
    mark, name = COMPRESSIONS[compression]
    head = stored.peek(len(mark))[: len(mark)]
    if not head.startswith(mark[: len(head)]):
        raise InputError(
            f"{location}: is not compressed with {name}, though its name ends in {compression}; "
            "rename it"
        )
    if compression in _DECOMPRESSORS:
        yield buffered(_stream_pieces(stored, _DECOMPRESSORS[compression]))
    elif compression == ".zip":
        with zipfile.ZipFile(stored) as archive:
            name = only_member(archive, location)
            try:
                file = archive.open(name)
            except (RuntimeError, NotImplementedError) as error:  # a password, a rare compression
                raise InputError(f"{location}: {error}; unpack it first") from error
            with file:
                yield file
    else:
        opener = {".gz": _gzip, ".zst": _zstandard}[compression]()
        with opener.open(stored, "rb") as file:
            yield file


def only_member(archive: zipfile.ZipFile, location: str) -> str:
    """Return the only file in an archive, a README left out; InputError if that is in doubt."""
    names = [each.filename for each in archive.infolist() if not each.is_dir()]
    meant = [name for name in names if not _NOTES.search(name)] or [*names]
    if len(meant) != 1:
        shown = ", ".join(map(repr, meant[:3])) + (", ..." if len(meant) > 3 else "")
        raise InputError(
            f"{location}: has {len(meant):,} files in it, not one ({shown or 'none'}); unpack it "
            "and name them"
        )
    return meant[0]


class _Stream(io.RawIOBase):
    """Pieces of bytes, none of them empty, as a file."""

    def __init__(self, pieces: Iterator[bytes]):
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        """Return True: io.BufferedReader asks."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; return how many bytes of it."""
        self._rest = self._rest or next(self._pieces, b"")
        count = min(len(self._rest), len(buffer))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def buffered(pieces: Iterator[bytes]) -> io.BufferedReader:
    """Return pieces of bytes, none of them empty, as a buffered file."""
    return io.BufferedReader(_Stream(pieces), READ_AT_ONCE)


def pieces_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a file in pieces."""
    return iter(lambda: file.read(READ_AT_ONCE), b"")


def _stream_pieces(stored: IO[bytes], decompressor: Callable[[], Any]) -> Iterator[bytes]:
    """Yield the content of streams, one after the other, with or without padding in between.

    Raises EOFError if the end of a stream is missing, and for damage that bz2 reports.
    """
    stream, rest = decompressor(), b""
    while True:
        while not stream.eof:
            packed = (rest or stored.read(READ_AT_ONCE)) if stream.needs_input else b""
            if stream.needs_input and not packed:
                raise EOFError("the end of a stream is missing")
            rest = b""
            try:
                content = stream.decompress(packed, READ_AT_ONCE)
            except OSError as error:  # of bz2; named as an error of the disk otherwise
                raise EOFError(str(error)) from error
            if content:
                yield content
        rest = stream.unused_data.lstrip(b"\0")
        while not rest and (packed := stored.read(READ_AT_ONCE)):
            rest = packed.lstrip(b"\0")
        if not rest:
            return
        stream = decompressor()


def _gzip() -> Any:
    """Return isal's module if installed: it takes a third of zlib's time."""
    try:
        from isal import igzip
    except ImportError:
        return gzip
    return igzip


def _zstandard() -> Any:
    """Return the standard library's module of Python 3.14, or its backport."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise InputError(".zst files need backports.zstd: pip install backports.zstd")


def damage() -> tuple[type[Exception], ...]:
    """Return the errors that reading a damaged or truncated compressed file raises."""
    errors: list[type[Exception]] = [EOFError, zlib.error, lzma.LZMAError]
    # Of a zip file whose damage looks like a later version: NotImplementedError.
    errors += [gzip.BadGzipFile, zipfile.BadZipFile, NotImplementedError]
    for module, name in (
        ("compression.zstd", "ZstdError"),
        ("backports.zstd", "ZstdError"),
        ("isal.isal_zlib", "error"),
    ):
        if module in sys.modules:  # else nothing of it was read
            errors.append(getattr(sys.modules[module], name))
    return tuple(errors)
