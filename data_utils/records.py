"""Files of reviews to records: JSON lines, CSV, TSV, text; each also as .gz or .xz."""

import gzip
import json
import logging
import lzma
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from model.errors import InputError

TEXT_KEYS = ("text", "sentence", "reviewText", "review")
LABEL_KEYS = ("label", "sentiment", "overall")
JSON_LINES = (".jsonl", ".json", ".ndjson")
TABLES = {".csv": ",", ".tsv": "\t"}
COMPRESSIONS = {".gz": gzip.open, ".xz": lzma.open}
ROWS_PER_CHUNK = 20_000
# What a compressed file that was cut short or damaged raises while it is read.
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)

log = logging.getLogger(__name__)


@dataclass
class ReadingReport:
    """What was met on the way; printed and kept with what was made of the records."""

    records: int = 0
    missing_text: int = 0  # key absent or null
    empty_text: int = 0  # nothing but white space
    repaired_text: int = 0  # bytes that are not UTF-8, replaced by U+FFFD

    def summary(self) -> str:
        """Say it in one line."""
        return (
            f"{self.records:,} records; {self.missing_text:,} without text, "
            f"{self.empty_text:,} empty, {self.repaired_text:,} with bytes that are not UTF-8"
        )


class Record(dict[str, Any]):
    """One row, with the place it came from for error messages."""

    place: str = ""
    repaired: bool = False


def read_records(path: Path, *, strict: bool) -> Iterator[Record]:
    """Yield the records of one file.

    Bytes that are not UTF-8 are an InputError when `strict`, else replaced by U+FFFD and marked.
    Raises InputError, with file and line, for whatever else cannot be read.
    """
    kind, opener = _file_kind(path)
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path}: the file is empty")
        with opener(path, "rb") as file:
            if kind in TABLES:
                yield from _read_table(path, file, TABLES[kind], strict)
            else:
                yield from _read_lines(path, file, kind, strict)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a folder; name the files in it") from error
    except DAMAGED as error:
        raise InputError(f"{path}: damaged or cut short ({error}); get it again") from error


def _file_kind(path: Path) -> tuple[str, Any]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    opener: Any = open
    if suffixes and suffixes[-1] in COMPRESSIONS:
        opener = COMPRESSIONS[suffixes.pop()]
    kind = suffixes[-1] if suffixes else ""
    if kind not in (*JSON_LINES, *TABLES, ".txt"):
        known = ", ".join((*JSON_LINES, *TABLES, ".txt"))
        raise InputError(f"{path}: unknown kind of file; known: {known}, each also with .gz or .xz")
    return kind, opener


def _read_lines(path: Path, file: IO[bytes], kind: str, strict: bool) -> Iterator[Record]:
    for number, line in enumerate(file, start=1):
        place = f"{path}, line {number}"
        text, repaired = _decode(line, place, strict)
        if number == 1:
            text = text.removeprefix("\ufeff")  # a byte-order mark
        if kind == ".txt":
            record = Record(text=text.rstrip("\r\n"))  # a blank line too: rows keep their place
        elif text.strip():
            record = _parse(text, place)
        else:
            continue
        record.place, record.repaired = place, repaired
        yield record


def _decode(line: bytes, place: str, strict: bool) -> tuple[str, bool]:
    try:
        return line.decode("utf-8"), False
    except UnicodeDecodeError as error:
        if strict:
            raise InputError(f"{place}: not UTF-8 ({error.reason}); convert the file") from error
        return line.decode("utf-8", errors="replace"), True


def _parse(text: str, place: str) -> Record:
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{place}: not JSON ({error}); expected one object per line") from error
    if not isinstance(content, dict):
        raise InputError(
            f"{place}: holds a {type(content).__name__}; expected one JSON object per line"
        )
    return Record(content)


def _read_table(path: Path, file: IO[bytes], delimiter: str, strict: bool) -> Iterator[Record]:
    import pandas as pd

    number = 1  # the header
    try:
        # keep_default_na: the reviews "NA", "null" and "nan" are text, not missing.
        chunks = pd.read_csv(
            file,
            sep=delimiter,
            dtype=str,
            keep_default_na=False,
            encoding_errors="strict" if strict else "replace",
            chunksize=ROWS_PER_CHUNK,
            index_col=False,  # or a row with one field too many would shift every column
        )
        while (chunk := _next_chunk(chunks)) is not None:
            for row in chunk.to_dict("records"):
                number += 1
                record = Record((str(key), value) for key, value in row.items())
                record.place = f"{path}, row {number}"
                record.repaired = not strict and any("\ufffd" in str(v) for v in row.values())
                yield record
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 after row {number} ({error.reason}); convert the file"
        ) from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, pd.errors.ParserWarning) as error:
        raise InputError(
            f"{path}: not a table ({str(error).strip()}); a text with the delimiter in it needs "
            "quotes"
        ) from error


def _next_chunk(chunks: Iterator[Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # pandas only warns of rows that do not fit the header
        return next(chunks, None)


def choose_key(record: Record, given: str | None, candidates: Sequence[str], option: str) -> str:
    """Return the key to read: as given, or the first candidate that is present, said aloud."""
    present = ", ".join(map(repr, record)) or "none"
    if given is not None:
        if given not in record:
            raise InputError(f"{record.place}: no key {given!r}; present: {present} ({option})")
        return given
    for candidate in candidates:
        if candidate in record:
            log.info("%s: reading %r (%s)", record.place, candidate, option)
            return candidate
    raise InputError(
        f"{record.place}: none of the keys {', '.join(candidates)}; present: {present}; "
        f"name one with {option}"
    )


def read_texts(
    paths: Sequence[Path], text_key: str | None, report: ReadingReport, *, strict: bool
) -> Iterator[str]:
    """Yield the texts of many files for a corpus; missing and empty ones are counted, left out."""
    for path in paths:
        for text, _ in read_reviews(path, text_key, report, strict=strict):
            yield text


def read_reviews(
    path: Path, text_key: str | None, report: ReadingReport, *, strict: bool
) -> Iterator[tuple[str, Record]]:
    """Yield the texts of one file, as `read_texts` does, each with the rest of its record."""
    wanted = TEXT_KEYS if text_key is None else (text_key,)
    key = first = None
    for record in read_records(path, strict=strict):
        first = first or record
        report.records += 1
        report.repaired_text += record.repaired
        # The first records may lack the key; only a file without it is an error.
        if key is None and any(name in record for name in wanted):
            key = choose_key(record, text_key, TEXT_KEYS, "--text-key")
        text = None if key is None else record.get(key)
        if text is None:
            report.missing_text += 1
        elif not str(text).strip():
            report.empty_text += 1
        else:
            yield str(text), record
    if first is None:
        raise InputError(f"{path}: no records in it")
    if key is None:
        choose_key(first, text_key, TEXT_KEYS, "--text-key")  # which says what is wrong
