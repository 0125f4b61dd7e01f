"""From records to texts: the key of the text, missing texts, and a report of faults."""

import logging
import math
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ..errors import InputError, utf8_argument
from ..text.profiles import has_unreadable_reference
from .inputs import Input
from .records import Record, read_records
from .tables import TableReport

TEXT_KEYS = ("text", "sentence", "reviewText", "review")
LABEL_KEYS = ("label", "sentiment", "overall")
_SURROGATE = "a lone surrogate, which UTF-8 cannot encode"

log = logging.getLogger(__name__)


@dataclass
class ReadingReport:
    """Counts of faults in the records; printed, and stored with the result."""

    records: int = 0
    missing_text: int = 0  # key absent, null or NaN
    empty_text: int = 0  # nothing but white space, in a corpus also once cleaned
    repaired_text: int = 0  # bytes that are not UTF-8, replaced by U+FFFD
    surrogates: int = 0  # texts with lone surrogates, replaced by `?`
    nul: int = 0  # texts with NUL in them, kept
    unreadable_references: int = 0  # texts with an HTML reference of too many digits, kept

    def __add__(self, other: "ReadingReport") -> "ReadingReport":
        return ReadingReport(
            *(getattr(self, f.name) + getattr(other, f.name) for f in fields(self))
        )

    def summary(self) -> str:
        """Return a one-line summary."""
        return (
            f"{self.records:,} records; {self.missing_text:,} without text, "
            f"{self.empty_text:,} empty, {self.repaired_text:,} with bytes that are not UTF-8, "
            f"{self.surrogates:,} with lone surrogates, {self.nul:,} with NUL, "
            f"{self.unreadable_references:,} with unreadable references"
        )


def text_of(value: object, place: str) -> str | None:
    """Return a value as text, a number or boolean as a word; None if missing, else InputError."""
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    try:
        if not hasattr(value, "__iter__"):
            return str(value)
        shown = reprlib.repr(value)
    except ValueError as error:  # a whole number of more digits than Python writes
        raise InputError(f"{place}: a number is too large ({error})") from error
    kind = type(value).__name__
    raise InputError(f"{place}: expected text or a number, found {shown}, of type {kind}")


def unicode_text(value: object, place: str) -> str | None:
    """Return `text_of` a value; InputError also for a lone surrogate, which UTF-8 cannot encode."""
    text = text_of(value, place)
    if text is not None and not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{place}: {_SURROGATE}; fix the text") from error
    return text


def accept(text: str | None, report: ReadingReport, strict: bool) -> bool:
    """Count a text's faults, and return whether it goes into the corpus.

    Raises ValueError, if `strict`, for a text that UTF-8 cannot encode, or with an HTML reference
    that cannot be read.
    """
    if text is None:
        report.missing_text += 1
        return False
    if not text or text.isspace():
        report.empty_text += 1
        return False
    if "\x00" in text:
        report.nul += 1
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            if strict:
                raise ValueError(_SURROGATE) from error
            report.surrogates += 1
    if "&#" in text and has_unreadable_reference(text):
        if strict:
            raise ValueError("an HTML reference of more digits than can be read")
        report.unreadable_references += 1
    return True


def key_in(
    present: Collection[str], requested: str | None, candidates: Iterable[str]
) -> str | None:
    """Return the requested key, or the first candidate that is present; None if there is none.

    If no candidate is present, case is ignored (`Text` for `text`), unless two keys differ only in
    case.
    """
    if requested is not None:
        return requested if requested in present else None
    for candidate in candidates:
        if candidate in present:
            return candidate
    for candidate in candidates:
        alike = [name for name in present if name.casefold() == candidate.casefold()]
        if len(alike) == 1:
            return alike[0]
    return None


def record_key(record: Record, requested: str | None, candidates: Sequence[str]) -> str | None:
    """Return the key of a record; for the text of a table, the column that its rows show."""
    table = record.table
    if requested is None and candidates is TEXT_KEYS and table and (table.text or table.doubt):
        return table.text
    return key_in(record, requested, candidates)


class KeyChooser:
    """Chooses the key at the first record that has one; earlier records may lack it.

    logged: shared by related files, so that a choice is logged once.
    """

    def __init__(
        self,
        requested: str | None,
        candidates: Sequence[str],
        option: str,
        logged: set[str] | None = None,
    ):
        self.requested = None if requested is None else utf8_argument(requested, option)
        self.candidates, self.option = candidates, option
        self.logged = set[str]() if logged is None else logged
        self.key: str | None = None
        self.table: TableReport | None = None  # the one that was read last
        self._is_described = False
        self._first: Record | None = None
        self._has_warned = requested is not None

    def value(self, record: Record) -> object:
        """Return the value of the key; None if this record, or all records so far, lack it."""
        self._first = record if self._first is None else self._first
        self.table = record.table
        if self.key is None and record_key(record, self.requested, self.candidates) is not None:
            self.key = self._choose(record)
        if self.key is None:
            return None
        if not self._has_warned and self.key not in record:
            self._warn_of_another_key(record)
        return record.get(self.key)

    def name_in(self, record: Record) -> str:
        """Return the key; InputError, with the record's own keys, if no record has had one yet."""
        return self._choose(record) if self.key is None else self.key

    def header_in(self, record: Record) -> str | None:
        """Return the key, if it is a name that the input gives its texts."""
        return self.key if record.has_names else None

    def require(self, location: object) -> None:
        """Raise InputError if there was no record, or none with the key."""
        if self._first is None:
            raise InputError(f"{location}: no records in it")
        self.name_in(self._first)

    def conclude(self, location: object) -> None:
        """Raise as `require` does; at the end of a table, say once how it was read."""
        self.require(location)
        if self.table is not None and not self._is_described:
            self._is_described = True
            log.info("%s", describe_table(self.table, {"text": (self.key, self.option)}))

    def _choose(self, record: Record) -> str:
        """Return the key to read; log a choice among several.

        A table's choice is not logged here: the table is described at its end.
        """
        key = record_key(record, self.requested, self.candidates)
        if key is None:
            raise InputError(f"{record.place}: {self._reason_of_none(record)}")
        if self.requested is None and record.table is None and key not in self.logged:
            if len(record) > 1:  # else there was no choice
                log.info("%s: reading %r (%s)", record.place, key, self.option)
            self.logged.add(key)
        return key

    def _reason_of_none(self, record: Record) -> str:
        present = ", ".join(map(repr, record)) or "none"
        if self.requested is not None:
            return f"no key {self.requested!r}; present: {present} ({self.option})"
        why = f"name one with {self.option}"
        if record.table is not None:
            if record.table.doubt:
                return record.table.doubt
            why += ", or add a header if the file has none"
        return f"none of the keys {', '.join(self.candidates)}; present: {present}; {why}"

    def _warn_of_another_key(self, record: Record) -> None:
        """Warn once if a record without the key has another candidate."""
        other = key_in(record, None, self.candidates)
        if other is not None:
            self._has_warned = True
            log.warning(
                "%s: has %r, which is not read, and no %r; give all rows the same key",
                record.place,
                other,
                self.key,
            )


def describe_table(table: TableReport, keys: Mapping[str, tuple[str | None, str]]) -> str:
    """Return a line on what was assumed of a table: its format, its rows, its columns.

    keys: by what a column holds, its name and the option that names another.
    """
    columns = [f"{what} column {key!r} ({option})" for what, (key, option) in keys.items()]
    rows = "1 row" if table.rows == 1 else f"{table.rows:,} rows"
    short = f"{table.short_rows:,} with too few cells" if table.short_rows else ""
    repeated = table.repeated_headers if table.has_header else 0
    verb = "repeats" if repeated == 1 else "repeat"
    headers = f"{repeated:,} {verb} the header" if repeated else ""
    kind = "1 row" if table.header_rows == 1 else f"{table.header_rows} rows"
    more = f"{kind} below the header left out, which belong to it" if table.header_rows else ""
    none = "" if table.has_header else "no header: the first line is a row"
    parts = [table.description, rows, none, more, short, headers, *columns]
    return f"{table.location}: {', '.join(filter(None, parts))}"


def read_texts(
    sources: Sequence[Path | Input], text_key: str | None, report: ReadingReport, *, strict: bool
) -> Iterator[str]:
    """Yield the texts of many inputs; missing and empty ones are counted and left out.

    text_key: the column or key that holds the text; None: the first one of TEXT_KEYS, or the
    column of texts of a table. report: counts what was found. strict: raise InputError for bytes
    that are not UTF-8 and the like, instead of replacing them.

        report = ReadingReport()
        for text in read_texts([Path("reviews.csv.gz")], None, report, strict=False):
            ...
        print(report.summary())
    """
    for source in sources:
        key = KeyChooser(text_key, TEXT_KEYS, "--text-key")
        for record in read_records(source, strict=strict):
            report.records += 1
            report.repaired_text += record.repaired
            text = text_of(key.value(record), record.place)
            try:
                accepted = accept(text, report, strict)
            except ValueError as error:
                raise InputError(f"{record.place}: {error}; fix the text") from error
            if accepted and text is not None:
                yield text
        key.conclude(source.location if isinstance(source, Input) else source)


def read_text(record: Record, key: KeyChooser, *, blank: bool = True) -> str:
    """Return a record's text, a missing one as the empty one; InputError unless it may be blank.

    Raises it also for a text that UTF-8 cannot encode.
    """
    text = unicode_text(key.value(record), record.place) or ""
    if not blank and not text.strip():
        name = key.name_in(record)
        raise InputError(f"{record.place}: no text under {name!r}; remove the row or fix it")
    return text
