"""JSON arrays and objects over many lines, read item by item, exactly as JSON lines are read."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from .inputs import LONGEST_RECORD

_PIECE = 1 << 20  # bytes read at a time
_WHITE_SPACE = re.compile(r"[ \t\r\n]*")


class _Text:
    """A stream of UTF-8 as a buffer of characters, parsed up to a position."""

    def __init__(self, file: IO[bytes], strict: bool):
        self.file = file
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")("strict" if strict else "replace")
        self.buffer, self.position, self.ended = "", 0, False

    def extend(self) -> bool:
        """Read at least as many characters as are still unparsed; return False at the end.

        Raises json.JSONDecodeError if more are unparsed than an item may have.
        """
        if self.ended:
            return False
        self.buffer, self.position = self.buffer[self.position :], 0
        self.check_size(len(self.buffer))
        piece = self.file.read(max(_PIECE, len(self.buffer)))
        self.ended = not piece
        self.buffer += self.decoder.decode(piece, final=self.ended)
        return not self.ended

    def peek(self) -> str:
        """Drop white space; return the next character, nothing at the end."""
        while True:
            if match := _WHITE_SPACE.match(self.buffer, self.position):
                self.position = match.end()
            if self.position < len(self.buffer) or not self.extend():
                return self.buffer[self.position : self.position + 1]

    def check_size(self, end: int) -> None:
        """Raise json.JSONDecodeError for an item from the position to `end` that is too long."""
        if end - self.position > LONGEST_RECORD:
            raise self.error(f"longer than {LONGEST_RECORD:,} characters, or broken before")

    def error(self, message: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self.buffer, self.position)


def array_items(file: IO[bytes], *, strict: bool) -> Iterator[Any]:
    """Yield the items of a JSON array.

    Raises ValueError for anything else (json.JSONDecodeError, except for a number of too many
    digits), RecursionError for one that is nested too deeply, and, if `strict`, UnicodeDecodeError
    for bytes that are not UTF-8. Otherwise these become U+FFFD.
    """
    text = _Text(file, strict)
    yield from _items_of_array(text, json.JSONDecoder())
    if text.peek():
        raise text.error("something after the array")


def object_items(file: IO[bytes], *, strict: bool) -> Iterator[Any]:
    """Yield the objects of a file, however they are broken into lines.

    Of a single object that holds one array of objects, as in {"reviews": [...]}, these are yielded.
    Raises the errors of `array_items`.
    """
    text, decoder = _Text(file, strict), json.JSONDecoder()
    text.peek()
    start = text.position
    try:
        first = _item(text, decoder)
    except json.JSONDecodeError:
        if len(text.buffer) - start <= LONGEST_RECORD:
            raise
        yield from _items_in(text, decoder)  # no record is so long
        return
    if not text.peek():
        yield from _records_in(first)
        return
    yield first
    while text.peek():
        yield _item(text, decoder)


def _records_in(item: Any) -> list[Any]:
    """Return the items of the only array of objects in an object, or the object alone."""
    level = [item] if isinstance(item, dict) else []
    while level:
        values = [value for one in level for value in one.values()]
        lists = [v for v in values if isinstance(v, list) and v and isinstance(v[0], dict)]
        if lists:
            is_record = _has_prose(item) and not _has_prose(lists[0][0])
            return lists[0] if len(lists) == 1 and not is_record else [item]
        level = [value for value in values if isinstance(value, dict)]
    return [item]


def _has_prose(value: Any) -> bool:
    """Whether a value, or one in it, is a text of several words; lists are not searched."""
    if isinstance(value, dict):
        return any(map(_has_prose, value.values()))
    return isinstance(value, str) and len(value.split()) > 3


def _items_in(text: _Text, decoder: json.JSONDecoder) -> Iterator[Any]:
    """Yield the items of the first array of objects in an object, however long it is."""
    _expect(text, "{")
    while text.peek() == '"':
        _item(text, decoder)
        _expect(text, ":")
        if text.peek() == "[":
            yield from _items_of_array(text, decoder)
        else:
            _item(text, decoder)
        if text.peek() == ",":
            text.position += 1
    _expect(text, "}")


def _items_of_array(text: _Text, decoder: json.JSONDecoder) -> Iterator[Any]:
    _expect(text, "[")
    first = True
    while text.peek() != "]":
        if not first:
            _expect(text, ",")
            text.peek()
        yield _item(text, decoder)
        first = False
    text.position += 1


def _expect(text: _Text, character: str) -> None:
    if text.peek() != character:
        raise text.error(f"expected {character!r}")
    text.position += 1


def _item(text: _Text, decoder: json.JSONDecoder) -> Any:
    while True:
        try:
            item, end = decoder.raw_decode(text.buffer, text.position)
        except json.JSONDecodeError:
            if text.extend():  # perhaps its rest is missing
                continue
            raise
        if end == len(text.buffer) and text.extend():  # a number may continue
            continue
        text.check_size(end)
        text.position = end
        return item
