"""The rows of a table to classify: their texts, their names in the output, their batches."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InputError
from ..reading.records import Record
from ..reading.texts import KeyChooser, unicode_text
from ..text.markup import is_blank, without_tags

BATCH_ROWS = 1024  # classified together, so that texts of similar length can share a batch
FIRST_ROWS = 64  # in the first batch, for an early answer; then the number doubles
BATCH_CHARACTERS = 1 << 24  # or fewer rows, if they are long
OF_A_CELL = 64  # characters of overhead for a value
RENAMED = "input_"

log = logging.getLogger(__name__)


class OwnNames:
    """Maps the keys of the input rows to their names in the output.

    A key that is also the name of a result becomes input_KEY. No two keys get the same name.

    added: the names of the results. keys: all keys known beforehand; any other key is named when
    the first row with it arrives, and keeps that name.
    """

    def __init__(self, added: Sequence[str], keys: Collection[str] = ()):
        self.added = added
        self._names: dict[str, str] = {}  # by key
        self._reported: set[str] = set()
        self.of(keys)

    def of(self, keys: Collection[str]) -> list[str]:
        """Return the names of the keys of a row, or of all rows, in their order."""
        return [self._name(key, keys) for key in keys]

    def values(self, record: Record) -> dict[str, Any]:
        """Return a row's own values by their names; a new name is logged once."""
        names = self.of(record)
        self._report(dict(zip(record, names, strict=True)), record.place)
        return dict(zip(names, record.values(), strict=True))

    def _report(self, names: Mapping[str, str], place: str) -> None:
        new = {k: name for k, name in names.items() if name != k and k not in self._reported}
        self._reported |= new.keys()
        if new:
            log.info(
                "%s: renamed %s of the input to %s", place, ", ".join(new), ", ".join(new.values())
            )

    def _name(self, key: str, others: Collection[str]) -> str:
        if key not in self.added and not key.startswith(RENAMED):
            return key  # no other key gets this name; not stored: a stream may have ever more keys
        if key not in self._names:
            used = {*self.added, *self._names.values()}
            name = key
            while name in used or (name != key and name in others):
                name = RENAMED + name
            self._names[key] = name
        return self._names[key]


class InputRow(NamedTuple):
    """A record with its text, as the classifier gets it."""

    record: Record
    text: str | None  # None if it is missing, or nothing but white space and HTML tags
    had_tags: bool = False

    @classmethod
    def of(cls, record: Record, text: str | None) -> "InputRow":
        """Return the row of a record with this text."""
        has_tags = text is not None and without_tags(text) != text
        return cls(record, None if text is None or is_blank(text) else text, has_tags)


def rows_of(
    records: Iterable[Record], key: KeyChooser, location: object, *, are_alike: bool
) -> Iterator[InputRow]:
    """Yield the records with their texts; the first ones may lack the key.

    are_alike: whether all records have the same keys. Raises InputError for a value that is not a
    text, and if there is no record or none has the key: at the first record if they are alike, else
    at the end of the input.
    """
    for record in records:
        text = unicode_text(key.value(record), record.place)
        if are_alike:
            key.require(location)
        yield InputRow.of(record, text)
    key.conclude(location)


def in_batches(
    rows: Iterable[InputRow], waiting: Callable[[], bool] | None = None
) -> Iterator[list[InputRow]]:
    """Group rows into batches of FIRST_ROWS to BATCH_ROWS, or fewer if rows are long.

    waiting: for a stream, whether more rows have arrived; if not, a batch ends. The rows before a
    faulty one are then yielded, too, since a stream cannot be read again.
    """
    batch: list[InputRow] = []
    characters, size = 0, FIRST_ROWS
    try:
        for row in rows:
            batch.append(row)
            characters += _extent(row.record)
            is_full = len(batch) >= size or characters >= BATCH_CHARACTERS
            if is_full or (waiting is not None and not waiting()):
                yield batch
                batch, characters, size = [], 0, min(2 * size, BATCH_ROWS)
    except InputError:
        if batch and waiting is not None:
            yield batch
        raise
    if batch:
        yield batch


def _extent(record: Record) -> int:
    """Return about how many characters a record takes, nested values included."""
    size, left = 0, list[Any](record.values())
    while left:
        value = left.pop()
        size += OF_A_CELL + (len(value) if isinstance(value, (str, bytes)) else 0)
        if isinstance(value, Mapping):
            left += [*value, *value.values()]
        elif isinstance(value, (list, tuple, set)):
            left += value
    return size
