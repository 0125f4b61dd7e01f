"""The rows of a table to classify: their texts, their names in the output, their batches."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import InputError
from ..text.markup import without_tags
from .inputs import Position
from .no_answer import answered_text
from .progress import ProgressBar
from .source import Source
from .table_model import TableModel
from .tables import Record
from .texts import KeyChooser, describe_table, unicode_text

_BATCH_ROWS = 1024  # classified together, so that texts of similar length can share a batch
_FIRST_ROWS = 64  # in the first batch, for an early answer; then the number doubles
_BATCH_CHARACTERS = 1 << 24  # or fewer rows, if they are long
_OF_A_CELL = 64  # characters of overhead for a value
_RENAMED = "input_"
_CHECK_SECONDS = 2.0  # of checking a file before a terminal shows the progress

log = logging.getLogger(__name__)


def own_name(key: str, added: Collection[str]) -> str:
    """Return the name in the output of a key of the input, by the names of the results.

    A key that is also the name of a result gets a prefix, and so does one that has the prefix
    already; so no two keys get the same name.

    >>> [own_name(key, ["label"]) for key in ("label", "input_label", "text")]
    ['input_label', 'input_input_label', 'text']
    """
    name = key
    while name.startswith(_RENAMED):
        name = name.removeprefix(_RENAMED)
    return _RENAMED + key if name in added else key


class InputRow(NamedTuple):
    """A record with its text, as the classifier gets it."""

    record: Record
    text: str | None  # None if there is none, or if it is a placeholder: no answer


class Rows:
    """The rows of a source, with the keys that they have.

    A file is read through when this is made, so that a late fault is reported before hours of work,
    and since records of JSON may have different keys. Standard input is not waited for. Raises
    InputError for a faulty row, if none has a text, and if the column of groups is not a key.

    show_progress: of that check, on stderr. keys: all keys of the rows; [] of standard input.
    count, longest: how many rows the shard of a file has, and its longest cell with its place. key:
    chooses that of the texts. model: what the columns mean, by all rows of a file, or those of a
    stream that have arrived. tagged: how many of the texts read so far had HTML tags.
    """

    def __init__(self, source: Source, *, show_progress: bool = False):
        self.source, self.key, self.tagged = source, KeyChooser(source.text_key), 0
        self.model = TableModel(source.by, lambda: self.key.keys)
        self.count, self.longest = 0, ("", source.name)
        self.keys = [] if source.is_stream else self._checked_keys(show_progress)
        if source.by and self.keys and source.by not in self.keys:
            present = ", ".join(map(repr, self.keys))
            raise InputError(f"--by {source.by}: no such column; the input has {present}")

    @property
    def about(self) -> str:
        """What was read, in words: format, rows, rows left out, the column of the text."""
        if (table := self.key.table) is None:
            return "texts, one a line"
        about = describe_table(table, {"text": (self.key.key, "--text-key")})
        return about.removeprefix(f"{table.location}: ")

    def batches(self) -> Iterator[list[InputRow]]:
        """Yield the rows in batches, of standard input those that have arrived; see `_in_batches`.

        At the end, raises InputError if no row has the key of the text, and warns if none has the
        column of groups.
        """
        source, by = self.source, self.source.by
        is_missing = by is not None and by not in self.keys
        parts = source.arriving() if source.is_stream else [source.records()]
        size = _BATCH_ROWS if source.is_stream else _FIRST_ROWS
        for records in parts:
            for batch in _in_batches(map(self._with_text, records), size):
                if source.is_stream:
                    for row in batch:
                        self.model.add(row.record)
                is_missing = is_missing and not any(by in row.record for row in batch)
                yield batch
        self.key.conclude(source.name)
        if is_missing:
            log.warning("--by %s: no row has such a column; name one that the rows have", by)

    def _with_text(self, record: Record) -> InputRow:
        """Return a record with its text; InputError for a value that is not a text."""
        text = unicode_text(self.key.value(record), record.place)
        if not record.has_names:  # a line of text: no later one has another key
            self.key.require(self.source.name)
        self.tagged += text is not None and without_tags(text) != text
        return InputRow(record, answered_text(text, self.key.header_in(record)))

    def _checked_keys(self, show_progress: bool) -> list[str]:
        source, position, keys, number = self.source, Position(), dict[str, None](), 0
        own = source.shard
        bar = ProgressBar("check", unit=" rows", shown=show_progress, delay=_CHECK_SECONDS)
        with bar as progress:
            for number, record in enumerate(source.all_records(position), start=1):
                unicode_text(self.key.value(record), record.place)  # refuses what is no text
                if source.has_equal_keys:
                    self.key.require(source.name)
                keys |= dict.fromkeys(record)
                if (number - own.number) % own.count == 0:
                    self.count += 1
                    texts = (value for value in record.values() if isinstance(value, str))
                    longest = max(texts, key=len, default="")
                    if len(longest) > len(self.longest[0]):
                        self.longest = longest, record.place
                self.model.add(record)
                if fraction := position.fraction:  # unknown for Parquet
                    progress.expect(round(number / fraction))
                progress.advance(1)
        own.check(number)
        self.key.conclude(source.name)
        return list(keys)


def _in_batches(rows: Iterable[InputRow], size: int = _FIRST_ROWS) -> Iterator[list[InputRow]]:
    """Group rows into batches of `size` to _BATCH_ROWS, or fewer if rows are long.

    The rows before a faulty one are yielded, too.
    """
    batch: list[InputRow] = []
    characters = 0
    try:
        for row in rows:
            batch.append(row)
            characters += _extent(row.record)
            if len(batch) >= size or characters >= _BATCH_CHARACTERS:
                yield batch
                batch, characters, size = [], 0, min(2 * size, _BATCH_ROWS)
    except InputError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _extent(record: Record) -> int:
    size, left = 0, list[Any](record.values())
    while left:
        value = left.pop()
        size += _OF_A_CELL + (len(value) if isinstance(value, (str, bytes)) else 0)
        if isinstance(value, Mapping):
            left += [*value, *value.values()]
        elif isinstance(value, (list, tuple, set)):
            left += value
    return size
