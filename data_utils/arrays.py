"""JSON arrays of any length, an item at a time, read exactly as JSON lines are."""

import codecs
import json
from collections.abc import Iterator
from typing import IO, Any

PIECE = 1 << 20  # bytes read at a time
LONGEST_ITEM = 64 << 20  # characters: beyond, what cannot be parsed is broken, not unfinished
WHITE_SPACE = " \t\r\n"


class Text:
    """A stream of UTF-8 as a buffer of characters that are not parsed yet."""

    def __init__(self, file: IO[bytes], strict: bool):
        self.file = file
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")("strict" if strict else "replace")
        self.buffer, self.ended = "", False

    def extend(self) -> bool:
        """Read on, at least as much as there is; return whether anything came."""
        if self.ended or len(self.buffer) > LONGEST_ITEM:
            return False
        piece = self.file.read(max(PIECE, len(self.buffer)))
        self.ended = not piece
        self.buffer += self.decoder.decode(piece, final=self.ended)
        return not self.ended

    def peek(self) -> str:
        """Drop white space; return the next character, nothing at the end."""
        while not (rest := self.buffer.lstrip(WHITE_SPACE)):
            self.buffer = ""
            if not self.extend():
                return ""
        self.buffer = rest
        return rest[0]

    def take(self, count: int) -> None:
        """Drop characters that are parsed."""
        self.buffer = self.buffer[count:]


def array_items(file: IO[bytes], *, strict: bool) -> Iterator[Any]:
    """Yield the items of a JSON array.

    Raises json.JSONDecodeError for what is none, RecursionError for one too deep, and, where
    `strict`, UnicodeDecodeError for bytes that are not UTF-8, which else become U+FFFD.
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
    text.take(1)
    if text.peek():
        raise json.JSONDecodeError("something after the array", text.buffer[:PIECE], 0)


def _expect(text: Text, character: str) -> None:
    if text.peek() != character:
        raise json.JSONDecodeError(f"expected {character!r}", text.buffer[:PIECE], 0)
    text.take(1)


def _item(text: Text, decoder: json.JSONDecoder) -> Any:
    while True:
        try:
            item, end = decoder.raw_decode(text.buffer)
        except json.JSONDecodeError:
            if text.extend():  # perhaps the rest of it is missing
                continue
            raise
        if end == len(text.buffer) and text.extend():  # a number may go on
            continue
        text.take(end)
        return item
