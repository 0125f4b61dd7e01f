"""Stand-ins for characters that would act on a terminal or a page."""

import unicodedata
from collections.abc import Sequence

_OBEYED = "\t\n"  # harmless, and part of a text's look


def glyph(character: str) -> str:
    """Return what to show for a character: a stand-in for a control or an override of direction.

    C0 controls have their own pictures; the rest become the replacement character.
    """
    if character in _OBEYED:
        return character
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))
    if character == "\x7f":
        return "\u2421"
    if (
        unicodedata.category(character) == "Cc"
        or unicodedata.bidirectional(character) in _OVERRIDES
    ):
        return "\ufffd"
    return character


# Explicit embeddings, overrides and isolates reorder whatever follows them on the line; letters of
# right-to-left scripts need none of them.
_OVERRIDES = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def visible(text: str) -> str:
    r"""Return a text that is safe to show, with as many characters as the given one.

    Names of files come from others, too: they may hold anything but / and NUL.

    >>> visible("\x1b[31m.csv")
    '␛[31m.csv'
    """
    if text.isprintable():  # neither controls nor overrides of direction: nearly every text
        return text
    return "".join(map(glyph, text))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
