"""Stand-ins for characters that would act on a terminal or a page."""

from collections.abc import Sequence

# Explicit embeddings, overrides and isolates reorder whatever follows them on the line; letters of
# right-to-left scripts need none of them.
_OVERRIDES = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
# C0 controls have their own pictures, but a tab and a line's end stay: they are part of a text's
# look. The rest become the replacement character.
_STAND_INS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys((*range(0x80, 0xA0), *_OVERRIDES), 0xFFFD),
}


def visible(text: str) -> str:
    r"""Return a text that is safe to show, with as many characters as the given one.

    Names of files come from others, too: they may hold anything but / and NUL.

    >>> visible("\x1b[31m.csv")
    '␛[31m.csv'
    """
    # Nearly every text is printable, which is found faster than each character in a table.
    return text if text.isprintable() else text.translate(_STAND_INS)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
