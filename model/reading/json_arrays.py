"""JSON arrays of any length, read item by item, exactly as JSON lines are read."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from .inputs import LONGEST_RECORD

_PIECE = 1 << 20  # bytes read at a time
_WHITE_SPACE = re.compile(r"[ \t\r\n]*")


class Text:
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
    text = Text(file, strict)
    _expect(text, "[")
    decoder, first = json.JSONDecoder(), True
    while text.peek() != "]":
        if not first:
            _expect(text, ",")
            text.peek()
        yield _item(text, decoder)
        first = False
    text.position += 1
    if text.peek():
        raise text.error("something after the array")


def _expect(text: Text, character: str) -> None:
    if text.peek() != character:
        raise text.error(f"expected {character!r}")
    text.position += 1


def _item(text: Text, decoder: json.JSONDecoder) -> Any:
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
