"""Where a command's texts come from: a file, standard input, or the texts themselves."""

import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TypeVar

from ..bounds import check_unset
from ..errors import InputError
from ..text.profiles import checked_texts
from .columns import is_sure_name
from .encodings import MARKS, MIXED, marked_encoding
from .inputs import (
    DELIMITED,
    JSON_KINDS,
    LONGEST_RECORD,
    OTHER_FILES,
    TOO_LONG,
    WORKBOOKS,
    Input,
    Position,
    TableOptions,
    as_input,
    check_used,
)
from .records import BYTE_ORDER_MARK, read_lines, read_records
from .row_files import Dialect
from .tables import Record, TableReport, names_columns
from .texts import KeyChooser, read_text

PLACE = "standard input"
_ARRAY = re.compile(rb"\[\s*([{\"]|$)")  # how an array of objects or of strings begins
_DELIMITERS = ",\t;"  # of a header
_READ_BYTES = 1 << 20

log = logging.getLogger(__name__)


def _arriving_lines(descriptor: int) -> Iterator[list[bytes]]:
    """Yield the lines of a file descriptor, with their ends, as many at a time as have arrived.

    Raises InputError for a line that is too long.
    """
    rest, size = list[bytes](), 0  # of a line whose end has not arrived
    while chunk := _read(descriptor):
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*rest, lines[0]])
            rest, size = [], 0
        rest.append(last)
        size += len(last)
        if max(size, len(lines[0]) if lines else 0) > LONGEST_RECORD:
            raise InputError(f"{PLACE}: a line is {TOO_LONG}")
        if lines:
            yield [line + b"\n" for line in lines]
    if size:
        yield [b"".join(rest)]


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _READ_BYTES)
    except OSError as error:
        raise InputError(f"{PLACE}: {error.strerror}") from error


def _arriving_records(
    arriving: Iterator[list[bytes]], codec: str = "utf-8"
) -> Iterator[Iterator[Record]]:
    """Yield the records of lines of JSON or text, as many at a time as have arrived.

    Raises InputError for a faulty one, after those before it.
    """
    if "\n".encode(codec) != b"\n":
        raise InputError(f"{PLACE}: cannot be read as {codec}; name the file with --input")
    first = list[bytes]()  # up to the first that is not blank, and what has arrived with that
    for lines in arriving:
        first += lines
        if any(map(bytes.strip, lines)):
            break
    else:
        raise InputError(f"{PLACE}: the input is empty")
    kind = _kind_of(next(filter(bytes.strip, first)))
    table, number = TableReport(PLACE, "JSON lines", is_table=False), 1
    for lines in chain([first], arriving):
        records = read_lines(lines, kind, PLACE, strict=True, codec=codec, first=number)
        yield table.sampled(records) if kind == ".jsonl" else records
        number += len(lines)


def _kind_of(line: bytes) -> str:
    """Return the kind of a stream, JSON lines or plain text, by its first line.

    Raises InputError for a probable table or array of JSON, and for a file of another kind, which
    would otherwise be answered as plain text.
    """
    what = next((what for mark, what in OTHER_FILES.items() if line.startswith(mark)), None)
    if (marked_encoding(line) or "utf-8").startswith(("utf-16", "utf-32")):
        what = "is UTF-16"
    if what is not None:
        raise InputError(
            f"{PLACE}: {what.partition(';')[0]}; name the file with --input, or convert it in the "
            "pipe"
        )
    start = line.removeprefix(BYTE_ORDER_MARK).strip()
    if start.startswith(b"{"):
        return ".jsonl"
    if _ARRAY.match(start):
        raise InputError(
            f"{PLACE}: begins like a JSON array; give one object per line (jq -c '.[]'), or "
            "name a .json file"
        )
    for delimiter in _DELIMITERS:
        names = [name.strip('"') for name in start.decode(errors="replace").split(delimiter)]
        if len(names) > 1 and any(map(is_sure_name, names)):
            raise InputError(
                f"{PLACE}: begins with {', '.join(names[:5])}, like a table; write it to a .csv "
                "file, or to a .txt file if it is text, and name that with --input"
            )
        if names_columns(names):
            log.warning(
                "%s: begins with %s, which may be a table's header; it is read as text, one a "
                "line (for a table: write it to a .csv file)", PLACE, ", ".join(names[:5])
            )  # fmt: skip
            break
    return ".txt"


Row = TypeVar("Row")
STREAM = "-"  # names standard input
_PART = re.compile(r"(.+)-(\d{1,9})-of-(\d{1,9})")  # the name of what a shard's output is


@dataclass(frozen=True)
class Shard:
    """One of n parts of an input: rows i, i + n, i + 2 n and so on, counted from 1.

    >>> source = Source("comments.csv", shard=Shard(1, 8))  # the first of eight
    """

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise InputError(f"'{self}' is not i/n, such as 1/8 to 8/8")

    @classmethod
    def parse(cls, word: str) -> "Shard":
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", word)
        if match is None:
            raise InputError(f"{word!r} is not i/n, such as 1/8 to 8/8")
        return cls(*map(int, match.groups()))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def check_name(self, output: Path) -> None:
        """Raise InputError if an output's name, or another part of it, says another shard.

        >>> Shard(3, 8).check_name(Path("labelled-3-of-8.csv"))
        """
        match = _PART.fullmatch(output.stem)
        if match is None:
            return
        if (int(match[2]), int(match[3])) != (self.number, self.count):
            raise InputError(f"--output {output}: its name says another part than --shard {self}")
        for other in sorted(output.parent.glob(f"*{output.suffix}")):
            part = _PART.fullmatch(other.stem)
            if part and part[1] == match[1] and int(part[3]) != self.count:
                raise InputError(
                    f"--shard {self}: {other} is one of {part[3]} parts; give the same number of "
                    "shards, or remove it"
                )

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield this shard's rows; InputError if the input has rows, but none in this shard."""
        index = -1
        for index, row in enumerate(rows):
            if index % self.count == self.number - 1:
                yield row
        self.check(index + 1)

    def check(self, rows: int) -> None:
        if 0 < rows < self.number:
            raise InputError(f"--shard {self}: the input has only {rows:,} rows; give fewer shards")


@dataclass(frozen=True)
class Source:
    """The texts of a file, with the rows that they are in; `classify` takes one.

    >>> source = Source("comments.xlsx", table=TableOptions(sheet="May"), shard=Shard(1, 8))

    location: a file in any format that `classify --input` takes, or "-", standard input.
    text_key: the column or key of the texts, or several, whose texts are joined. Default: by name,
    content and role; in doubt, an error asks.
    table: what the file does not say about itself. shard: which rows to read. by: the column to
    count groups of. texts: in place of a file. Raises InputError for options that contradict each
    other.
    """

    location: str | Path | None = None
    text_key: str | Sequence[str] | None = None
    table: TableOptions = field(default_factory=TableOptions)
    shard: Shard = field(default_factory=Shard)
    by: str | None = None
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.texts, str):
            raise InputError("texts is a text; give a list of them")
        object.__setattr__(self, "texts", tuple(checked_texts(self.texts)))
        object.__setattr__(self, "text_key", self.text_key or None)  # no column is named
        if isinstance(self.shard, str):
            object.__setattr__(self, "shard", Shard.parse(self.shard))
        if not isinstance(self.shard, Shard):
            raise InputError(f"shard is {self.shard!r}; give a Shard, such as Shard(1, 8)")
        if not isinstance(self.location, str | Path | None):
            raise InputError(
                f"location is a {type(self.location).__name__}; give the name of a file. For a "
                "DataFrame: classifier(frame['column']).to_frame()"
            )
        if bool(self.texts) == (self.location is not None):
            raise InputError("give either --text or --input")
        if self.shard.count > 1 and (self.texts or self.is_stream):
            raise InputError("--shard is for the rows of an --input file; leave it out")
        if self.texts:
            check_unset(self, ("text_key", "by", "table"), "is for the rows of an --input")
        if self.is_stream:
            check_used(self.table, [".txt"])

    @property
    def is_stream(self) -> bool:
        return str(self.location) == STREAM

    @property
    def paths(self) -> list[Path]:
        return [] if self.texts or self.is_stream else [Path(str(self.location))]

    @property
    def name(self) -> str:
        return "--text" if self.texts else PLACE if self.is_stream else str(self.location)

    @property
    def title(self) -> str:
        """Its name, and which part of it is read."""
        number, count = self.shard.number, self.shard.count
        return f"{self.name} (shard {number} of {count})" if count > 1 else self.name

    @cached_property
    def file(self) -> Input:
        """The file; InputError for an unknown kind, an address, and an option that does nothing."""
        file = as_input(str(self.location), self.table)
        check_used(self.table, [file.kind])
        return file

    @property
    def has_equal_keys(self) -> bool:
        """Whether all rows of a file or of texts have the same keys, as in a table."""
        return bool(self.texts) or self.file.kind not in JSON_KINDS

    def dialect(self, delimiter: str) -> Dialect:
        """Return how CSV of its rows is written, so that the same programs can read it.

        delimiter: that of the input.
        """
        kind = "" if self.texts or self.is_stream else self.file.kind
        if kind not in (*DELIMITED, ".txt"):
            return Dialect(mark=kind in WORKBOOKS)
        codec = "utf-8" if self.file.encoding == MIXED else self.file.encoding
        return Dialect(delimiter if kind in DELIMITED else ",", codec, codec in MARKS.values())

    def records(self) -> Iterator[Record]:
        """Yield the rows of the shard; InputError, with file and line, for a faulty one."""
        return self.shard.of(self.all_records())

    def all_records(self, position: Position | None = None) -> Iterator[Record]:
        """Yield the rows of all shards, as `records` does.

        position: updated to the place in a file, as for `read_records`.
        """
        if self.texts:
            return (Record({"text": text}, has_names=False) for text in self.texts)
        if self.is_stream:
            return chain.from_iterable(self.arriving())
        return read_records(self.file, strict=True, position=position)

    def arriving(self) -> Iterator[Iterator[Record]]:
        """Yield the rows of standard input, as many at a time as have arrived."""
        if sys.stdin is None:
            raise InputError("standard input is closed; name a file with --input")
        lines = _arriving_lines(sys.stdin.fileno())
        return _arriving_records(lines, self.table.encoding or "utf-8")

    def read_texts(self) -> Iterator[str]:
        """Yield the text of each row, a missing one as the empty one.

        >>> texts = list(Source("reviews.tsv", "comment").read_texts())
        """
        key = KeyChooser(self.text_key)
        for record in self.records():
            yield read_text(record, key)
        key.conclude(self.name)
