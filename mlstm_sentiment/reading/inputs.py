"""The user's input, a file, as a stream of bytes."""

import bz2
import codecs
import gzip
import io
import lzma
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from itertools import chain, takewhile
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import IO, Any, Literal
from urllib.parse import unquote, urlsplit

from ..bounds import check_unset
from ..errors import InputError, brief
from .encodings import HEAD, MIXED, UTF8, Encoding, encoding_of, marked_encoding, recoded_lines

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
def _decompressed(stored: Any, compression: str | None, location: str) -> Iterator[Any]:
    """Stream the content of a stored file; raises one of the `_damage` errors if it is damaged.

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
        yield _buffered(_stream_pieces(stored, _DECOMPRESSORS[compression]))
    elif compression == ".zip":
        with zipfile.ZipFile(stored) as archive:
            name = _only_member(archive, location)
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


def _only_member(archive: zipfile.ZipFile, location: str) -> str:
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
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._pieces, b"")
        count = min(len(self._rest), len(buffer))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _buffered(pieces: Iterator[bytes]) -> io.BufferedReader:
    """Return pieces of bytes, none of them empty, as a buffered file."""
    return io.BufferedReader(_Stream(pieces), READ_AT_ONCE)


def _pieces_of(file: IO[bytes]) -> Iterator[bytes]:
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
    with suppress(ImportError):
        from isal import igzip

        return igzip
    return gzip


def _zstandard() -> Any:
    """Return the standard library's module of Python 3.14, or its backport."""
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return import_module(name)
    raise InputError(".zst files need backports.zstd: pip install backports.zstd")


def _damage() -> tuple[type[Exception], ...]:
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


JSON_KINDS = (".jsonl", ".json", ".ndjson")
DELIMITED = {".csv": ",", ".tsv": "\t"}
WORKBOOKS = (".xlsx", ".xlsm")
COLUMNAR = (".parquet", ".feather")
BINARY = (*WORKBOOKS, *COLUMNAR)
KINDS = (*JSON_KINDS, *DELIMITED, ".txt", *BINARY)
_REMEDIES = {
    (".xls", ".ods", ".xlsb"): "save it as .xlsx",
    (".tar", ".tgz", ".txz", ".tbz2"): "unpack it, and name the file in it",
}
NO_FILE = "is a pipe or a device, not a file; save its output as a file"
_ADDRESS = re.compile("(https?):/", re.IGNORECASE)  # of two slashes, Path drops one
LONGEST_RECORD = 16 << 20  # bytes of a line or a row: no review is longer
TOO_LONG = f"longer than {LONGEST_RECORD:,} bytes; shorten it, or put each record on its own line"
# The first bytes of files that are not text, and what to do with them.
OTHER_FILES = {
    b"PK\x03\x04": "is a zip file; rename it to end in .xlsx if it is a workbook, else in .zip",
    b"\xd0\xcf\x11\xe0": "is an old or encrypted Office file; save it as .xlsx",
    **{
        mark: f"is compressed with {name}; rename it to end in {suffix}"
        for suffix, (mark, name) in COMPRESSIONS.items()
        if suffix in (".gz", ".xz", ".zst")
    },
    b"BZh91AY&SY": "is compressed with bzip2; rename it to end in .bz2",
    b"PAR1": "is a Parquet file; rename it to end in .parquet",
    b"ARROW1": "is a Feather file; rename it to end in .feather",
    b"%PDF-": "is a PDF; save its text as a text file",
}
_Quoting = Literal["auto", "standard", "none", "backslash"]
_BadRows = Literal["refuse", "skip"]


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


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options for reading tables: what the file itself does not specify.

    >>> TableOptions(delimiter="tab", encoding="cp1252").delimiter
    '\\t'
    """

    delimiter: str | None = None
    """Of CSV and TSV: a character, or the word tab. Default: comma, semicolon, tab or vertical bar,
    by the first lines."""
    encoding: str | None = None
    """utf-8, utf-16, cp1252, or another that Python knows. Default: UTF-8; UTF-16 by its first
    bytes; the likeliest one for a table that is not UTF-8, which is printed."""
    quoting: _Quoting = "auto"
    """standard: cells may be quoted; none: quotes are characters; backslash: a quote in a quoted
    cell follows a backslash; auto: standard, unless the lines fit only another one."""
    bad_rows: _BadRows = "refuse"
    """Rows with more cells than the header: refuse the file, or skip and count them."""
    sheet: str | None = None
    """Of a workbook. Default: the one that holds texts; those with one header are one table."""

    def __post_init__(self) -> None:
        sign = {"tab": "\t", "\\t": "\t"}.get(str(self.delimiter), self.delimiter)
        if sign is not None and (len(sign) != 1 or sign in '"\r\n' or not sign.isascii()):
            raise InputError(f"--delimiter {sign!r}: expected one ASCII character, or the word tab")
        object.__setattr__(self, "delimiter", sign)
        try:
            if self.encoding is not None:
                " ".encode(self.encoding)
                object.__setattr__(self, "encoding", codecs.lookup(self.encoding).name)
        except (LookupError, UnicodeError) as error:
            raise InputError(f"--encoding {self.encoding}: unknown encoding") from error


def check_used(options: TableOptions, kinds: Collection[str]) -> None:
    """Raise InputError for an option that does nothing for any of the inputs, of these kinds."""
    for names, of_kinds, what in (
        (("delimiter", "quoting", "bad_rows"), DELIMITED, "CSV and TSV"),
        (("sheet",), WORKBOOKS, "workbooks"),
        (("encoding",), set(KINDS).difference(BINARY), "CSV, TSV, JSON and text"),
    ):
        if not any(kind in of_kinds for kind in kinds):
            check_unset(options, names, f"is for {what}")


@dataclass(frozen=True)
class Input:
    """One file; its suffixes determine its kind and its compression."""

    location: str  # its name in messages and meta.json
    kind: str
    compression: str | None
    options: TableOptions = field(default_factory=TableOptions)
    kept: Any = field(default=None, compare=False, repr=False)  # a workbook's content, once read

    @property
    def name(self) -> str:
        """The last part of the location, the only one that is published."""
        return Path(self.location).name

    @property
    def stored_bytes(self) -> int:
        """Bytes on disk; InputError for what is no file."""
        path = Path(self.location)
        status = path.stat()
        if S_ISDIR(status.st_mode):
            raise InputError(f"{path}: {_of_folder(path)}")
        if not S_ISREG(status.st_mode):
            raise InputError(f"{path}: {NO_FILE}")
        return status.st_size

    @cached_property
    def found_encoding(self) -> Encoding:
        """The encoding: as asked, or found by reading the file; InputError if that is empty."""
        with self._bytes(None) as file:
            head = file.peek(HEAD)
            for mark, what in OTHER_FILES.items():
                if head.startswith(mark):
                    raise InputError(f"{self.location}: {what}")
            if self.options.encoding is not None:
                return Encoding(self.options.encoding)
            if (marked := marked_encoding(head)) is not None:
                return Encoding(marked)
            if self.kind in DELIMITED:
                return encoding_of(takewhile(lambda line: not is_too_long(line), _lines(file)))
            return Encoding("utf-8")

    @property
    def encoding(self) -> str:
        return self.found_encoding.codec

    @property
    def is_plain(self) -> bool:
        """Whether it is a file whose bytes on disk are lines of UTF-8."""
        is_text = self.compression is None and self.kind not in BINARY
        return is_text and self.encoding in UTF8

    @cached_property
    def identity(self) -> list[str | int | None]:
        """Values that change if another file is named, or if the file is replaced."""
        stat = Path(self.location).stat()
        return [self.location, stat.st_size, stat.st_mtime_ns]

    @contextmanager
    def open(self, position: Position | None = None) -> Iterator[IO[bytes]]:
        """Stream the decompressed bytes, text as UTF-8 whatever its encoding on disk.

        A UTF-8 byte order mark stays in; the readers drop it. Kinds in BINARY are not changed.

        position: updated to the reader's place in the file. Raises InputError if there is
        nothing to read, and if what is read is damaged.
        """
        with self.named_errors(), self._bytes(position) as file:
            if self.kind in BINARY or self.encoding in UTF8:
                yield file
            else:
                yield _buffered(_recoded(file, self.encoding, self.location))

    @contextmanager
    def _bytes(self, position: Position | None) -> Iterator[Any]:
        """Stream the bytes as they are encoded, decompressed."""
        path, size = Path(self.location), self.stored_bytes
        if size == 0:
            raise InputError(f"{path}: the file is empty")
        with open(path, "rb") as stored:
            if position is not None:
                position.stored, position.size = stored, size
            with _decompressed(stored, self.compression, self.location) as file:
                is_packed_text = self.compression is not None and self.kind not in BINARY
                yield _buffered(_pieces_of(file)) if is_packed_text else file

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Turn errors of reading into InputError with the location, unless they name a file."""
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"{self.location}: no such file") from error
        except _damage() as error:
            raise InputError(
                f"{self.location}: damaged or cut short ({error}); get it again"
            ) from error
        except OSError as error:  # such as of a disk
            if error.filename:
                raise
            raise InputError(f"{self.location}: {error.strerror or error}") from error


def _recoded(file: IO[bytes], codec: str, location: str) -> Iterator[bytes]:
    """Recode a stream to UTF-8; InputError for bytes that are invalid in its encoding."""
    if codec == MIXED:
        yield from recoded_lines(file)
        return
    decoder = codecs.getincrementaldecoder(codec)()
    try:
        for piece in chain(_pieces_of(file), [b""]):
            if text := decoder.decode(piece, final=not piece):
                yield text.encode()
    except UnicodeError as error:
        raise InputError(
            f"{location}: not {codec} ({brief(error)}); give its --encoding"
        ) from error


def as_input(location: str | Path | Input, options: TableOptions | None = None) -> Input:
    """Return a file with its kind; InputError for an unknown kind, and for an address."""
    if isinstance(location, Input):
        return location
    text = str(location)
    if _ADDRESS.match(text):
        address = re.sub(":/+", "://", text, count=1)
        raise InputError(f"{address}: a URL, but only files can be read; download it first")
    if text.lower().startswith("file:"):
        raise InputError(f"{text}: give the path alone: {unquote(urlsplit(text).path)}")
    suffixes = [suffix.lower() for suffix in Path(text).suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in COMPRESSIONS else None
    kind = suffixes[-1] if suffixes else ""
    if kind not in KINDS and not Path(text).exists():
        raise InputError(f"{text}: no such file")
    if kind not in KINDS and Path(text).is_dir():
        raise InputError(f"{text}: {_of_folder(Path(text))}")
    if kind not in KINDS and compression == ".zip":
        kind = _kind_in(text)
    if kind not in KINDS:
        hint = next((f"; {what}" for kinds, what in _REMEDIES.items() if kind in kinds), "")
        raise InputError(
            f"{text}: unknown kind of file{hint}; known: {', '.join(KINDS)}, each also with "
            f"{', '.join(COMPRESSIONS)}"
        )
    return Input(text, kind, compression, options or TableOptions())


def _of_folder(folder: Path) -> str:
    files = (path for path in sorted(folder.iterdir()) if path.suffix.lower() in KINDS)
    seen = next((path for path in files if not path.name.startswith(".")), None)
    more = f", such as {seen}" if seen else ""
    return f"is a folder; name the files in it, one at a time{more}"


def _kind_in(path: str) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            return Path(_only_member(archive, path)).suffix.lower()
    except _damage() as error:
        raise InputError(f"{path}: damaged, or not an archive ({error}); get it again") from error


def lines_of(file: IO[bytes], location: str) -> Iterator[bytes]:
    """Yield the lines of a file, with their ends; InputError for one that is too long."""
    for number, line in enumerate(_lines(file), start=1):
        if is_too_long(line):
            raise InputError(f"{location}, line {number}: {TOO_LONG}")
        yield line


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Return the lines of a file, with their ends; of one that is too long, its beginning."""
    return iter(lambda: file.readline(LONGEST_RECORD + 2), b"")


def is_too_long(line: bytes) -> bool:
    """Return whether a line, with or without its end, is longer than a record may be."""
    return len(line) > LONGEST_RECORD + line.endswith(b"\n")
