"""From records to texts: the key of the text, missing texts, and a report of faults."""

import logging
import math
import reprlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import InputError, utf8_argument
from .columns import choose_text
from .encodings import is_mojibake
from .inputs import Input
from .no_answer import reason_of_no_answer
from .records import read_records
from .tables import MOST_ROWS, Record, TableReport, counted, flattened

LABEL_KEYS = ("label", "sentiment", "overall")
_ABSENT = object()  # the value of a key that a record lacks
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

    def __add__(self, other: "ReadingReport") -> "ReadingReport":
        return ReadingReport(
            *(getattr(self, f.name) + getattr(other, f.name) for f in fields(self))
        )

    def summary(self) -> str:
        return (
            f"{self.records:,} records; {self.missing_text:,} without text, "
            f"{self.empty_text:,} empty, {self.repaired_text:,} with bytes that are not UTF-8, "
            f"{self.surrogates:,} with lone surrogates, {self.nul:,} with NUL"
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
    if text is not None and not _is_unicode(text):
        raise InputError(f"{place}: {_SURROGATE}; fix the text")
    return text


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 can encode a text, which has no lone surrogates then."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def accept(text: str | None, report: ReadingReport, strict: bool) -> bool:
    """Count a text's faults, and return whether it goes into the corpus.

    Raises ValueError, if `strict`, for a text that UTF-8 cannot encode.
    """
    if text is None:
        report.missing_text += 1
        return False
    if not text or text.isspace():
        report.empty_text += 1
        return False
    if "\x00" in text:
        report.nul += 1
    if not _is_unicode(text):
        if strict:
            raise ValueError(_SURROGATE)
        report.surrogates += 1
    return True


def _label_keys(present: Collection[str]) -> tuple[str, ...]:
    """Return the first of LABEL_KEYS that is present; () if there is none.

    If none is present, case is ignored (`Label` for `label`), unless two keys differ only in case.
    """
    exact = [key for key in LABEL_KEYS if key in present]
    alike = ([name for name in present if name.casefold() == key] for key in LABEL_KEYS)
    return (*exact, *(names[0] for names in alike if len(names) == 1))[:1]


def text_keys(record: Mapping[str, Any], requested: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the keys of a record's text: the requested ones, or what its input shows; () if none.

    review.text names the value `text` of the object `review`.
    """
    if requested:
        return tuple(requested) if any(_has(record, key) for key in requested) else ()
    table = getattr(record, "table", None)
    if table is not None:
        chosen = table.text
    elif len(record) == 1 and not getattr(record, "has_names", True):
        chosen = next(iter(record))  # a line of text
    else:
        flat = flattened(dict(record))
        chosen = choose_text(list(flat), [flat]).column
    return () if chosen is None or not _has(record, chosen) else (chosen,)


def text_at(record: Mapping[str, Any], keys: Sequence[str], place: str) -> object:
    """Return the value of a key; of several keys, their texts, joined in lines.

    Placeholders, such as Booking's "No Negative", are left out of joined texts. If there is nothing
    else, one of them is the text, or None if only their own headers make them placeholders.
    """
    if len(keys) == 1:
        return _value(record, keys[0])
    texts = [(key, text_of(_value(record, key), place)) for key in keys]
    answers = [text for key, text in texts if text and reason_of_no_answer(text, key) is None]
    if answers:
        return "\n".join(answers)
    return next((text for _, text in texts if text and reason_of_no_answer(text)), None)


def _has(record: Mapping[str, Any], key: str) -> bool:
    return key in record or _value(record, key, _ABSENT) is not _ABSENT


def _value(record: Mapping[str, Any], key: str, default: object = None) -> object:
    if key in record or "." not in key:
        return record.get(key, default)
    parent, _, name = key.rpartition(".")
    value = _value(record, parent) if parent else None
    return value.get(name, default) if isinstance(value, dict) else default


def shown_keys(source: Input) -> tuple[str, ...]:
    """Return the keys of an input's texts, by its first records, () if it has no records.

    Raises InputError, which asks, if the records do not show them.
    """
    key = KeyChooser(None)
    number = 0
    for number, record in enumerate(read_records(source, strict=False), start=1):
        if key.keys or number > MOST_ROWS:
            break
        key.value(record)
    if number:
        key.require(source.location)
    return key.keys


class KeyChooser:
    """Chooses the key at the first record that has one; earlier records may lack it.

    requested: the key, or several of the text, which are joined. is_label: whether it is the label,
    which has one of LABEL_KEYS; the text is chosen by name, content and role.
    """

    def __init__(self, requested: str | Sequence[str] | None, *, is_label: bool = False):
        self._is_label, self.option = is_label, "--label-key" if is_label else "--text-key"
        words = [requested] if isinstance(requested, str) else requested or ()
        self.requested = tuple(utf8_argument(word, self.option) for word in words)
        self.keys: tuple[str, ...] = ()
        self.table: TableReport | None = None  # the one that was read last
        self._is_described = False
        self._first: Record | None = None
        self._has_warned = bool(self.requested)

    @property
    def key(self) -> str | None:
        """The key in words, once it is chosen; several are joined."""
        return " + ".join(self.keys) or None

    def value(self, record: Record) -> object:
        """Return the value of the key; None if this record, or all records so far, lack it."""
        self._first = record if self._first is None else self._first
        self.table = record.table
        if not self.keys and self._found_in(record):
            self._choose(record)
        if not self.keys:
            return None
        if not self._has_warned and not _has(record, self.keys[0]):
            self._warn_of_another_key(record)
        value = text_at(record, self.keys, record.place)
        if record.table is not None and is_mojibake(value):
            record.table.mojibake += 1
        return value

    def text_in(self, row: Mapping[str, Any], own: Callable[[str], str]) -> object:
        """Return the text in a row of the output. own: returns a key's name in it."""
        keys = [own(key) if key in self.keys else key for key in self.keys or ("text",)]
        return text_at(row, keys, "")

    def name_in(self, record: Record) -> str:
        """Return the key; InputError, with the record's own keys, if no record has had one yet."""
        return self.key or self._choose(record)

    def header_in(self, record: Record) -> str | None:
        """Return the key, if it is a name that the input gives its texts."""
        return self.keys[0] if record.has_names and len(self.keys) == 1 else None

    def require(self, location: object) -> None:
        """Raise InputError if there was no record, or none with the key."""
        if self._first is None:
            raise InputError(f"{location}: no records in it")
        self.name_in(self._first)

    def conclude(self, location: object) -> None:
        """Raise as `require` does; at the end, say once how the input was read."""
        self.require(location)
        if self.table is not None and not self._is_described:
            self._is_described = True
            what = "label" if self._is_label else "text"
            log.info("%s", describe_table(self.table, {what: (self.key, self.option)}))

    def _found_in(self, record: Record) -> tuple[str, ...]:
        if not self._is_label:
            return text_keys(record, self.requested)
        if self.requested:
            return self.requested[:1] if self.requested[0] in record else ()
        return _label_keys(record)

    def _choose(self, record: Record) -> str:
        self.keys = self._found_in(record)
        if not self.keys:
            raise InputError(f"{record.place}: {self._reason_of_none(record)}")
        for key in self.requested:
            if not _has(record, key):
                raise InputError(f"{record.place}: {self._reason_of_none(record, key)}")
        return " + ".join(self.keys)

    def _reason_of_none(self, record: Record, requested: str | None = None) -> str:
        present = ", ".join(map(repr, record)) or "none"
        requested = requested or next(iter(self.requested), None)
        if requested is not None:
            return f"no key {requested!r}; present: {present} ({self.option})"
        why = f"name one with {self.option}"
        if not self._is_label:
            if record.table is not None and record.table.doubt:
                return record.table.doubt
            return choose_text(list(record), [record]).question(self.option)
        if record.table is not None and record.table.is_table:
            why += ", or add a header if the file has none"
        return f"none of the keys {', '.join(LABEL_KEYS)}; present: {present}; {why}"

    def _warn_of_another_key(self, record: Record) -> None:
        """Warn once if a record without the key has another candidate."""
        if self._is_label:
            other = next(iter(_label_keys(record)), None)
        else:
            other = choose_text(list(record), [record]).column
        if other is not None:
            self._has_warned = True
            message = "%s: has %r, which is not read, and no %r; give all rows the same key"
            log.warning(message, record.place, other, self.key)


def describe_table(table: TableReport, keys: Mapping[str, tuple[str | None, str]]) -> str:
    """Return a line on what was assumed of an input: its format, its rows, its columns.

    keys: by what a column holds, its name and the option that names another.
    """
    columns = []
    for what, (key, option) in keys.items():
        is_joined = key is not None and " + " in key
        several, joined = ("s", ", joined") if is_joined else ("", "")
        columns.append(f"{what} column{several} {key!r}{joined} ({option})")
    parts = [table.description, counted(table.rows, "row"), *table.left_out(), *columns]
    return f"{table.location}: {', '.join(filter(None, parts))}"


def read_texts(
    sources: Sequence[Path | Input],
    text_key: str | Sequence[str] | None,
    report: ReadingReport,
    *,
    strict: bool,
) -> Iterator[str]:
    """Yield the texts of many inputs; missing and empty ones are counted and left out.

    text_key: the column or key that holds the text, or several, whose texts are joined; None: by
    name, content and role. report: counts what was found. strict: raise InputError for bytes
    that are not UTF-8 and the like, instead of replacing them.

        report = ReadingReport()
        for text in read_texts([Path("reviews.csv.gz")], None, report, strict=False):
            ...
        print(report.summary())
    """
    for source in sources:
        key = KeyChooser(text_key)
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
