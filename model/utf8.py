"""Which byte may follow which, so that whatever is written byte by byte is UTF-8."""

import numpy as np

START = 0  # between two characters
# state: {first byte, last byte: next state}; Unicode 15, table 3-7. States 2, 4, 5 and 7 follow a
# lead byte whose next byte is restricted: no overlong forms, no surrogates, nothing past U+10FFFF.
_TRANSITIONS: list[dict[tuple[int, int], int]] = [
    {
        (0x00, 0x7F): 0,
        (0xC2, 0xDF): 1,
        (0xE0, 0xE0): 2,
        (0xE1, 0xEC): 3,
        (0xED, 0xED): 4,
        (0xEE, 0xEF): 3,
        (0xF0, 0xF0): 5,
        (0xF1, 0xF3): 6,
        (0xF4, 0xF4): 7,
    },
    {(0x80, 0xBF): 0},
    {(0xA0, 0xBF): 1},
    {(0x80, 0xBF): 1},
    {(0x80, 0x9F): 1},
    {(0x90, 0xBF): 3},
    {(0x80, 0xBF): 3},
    {(0x80, 0x8F): 3},
]
_MISSING = np.array([0, 1, 2, 2, 2, 3, 3, 3])  # bytes that the character still lacks in each state


def _table() -> np.ndarray:
    table = np.full((len(_TRANSITIONS), 256), -1, dtype=np.int64)
    for state, ranges in enumerate(_TRANSITIONS):
        for (first, last), after in ranges.items():
            table[state, first : last + 1] = after
    return table


_NEXT = _table()  # [8, 256], -1 where the byte may not come


def next_state(state: int, byte: int) -> int:
    """Return the state after an allowed byte."""
    return int(_NEXT[state, byte])


def allowed_bytes(state: int, room: int) -> np.ndarray:
    """Return the bytes that may come, bool [256], where `room` bytes are left for all to come.

    A character that would not fit is not begun, so that the last one is always whole.
    """
    after = _NEXT[state]
    return (after >= 0) & (_MISSING[after] < room)
