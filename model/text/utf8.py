"""The tokens that keep a text valid UTF-8 while it is generated token by token."""

from collections.abc import Sequence

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


_NEXT = _table()  # [8, 256], -1 if the byte may not follow


class Continuations:
    """The automaton over V tokens, each of which stands for some bytes."""

    def __init__(self, spellings: Sequence[bytes]):
        self._sizes = np.array([len(spelling) for spelling in spellings])  # [V]
        self._after = _after(spellings, self._sizes)  # [8, V], -1 if a token may not follow
        self._needed = self._sizes + _MISSING[self._after]  # [8, V], bytes to the character's end

    def next_state(self, state: int, token: int) -> int:
        """Return the state after an allowed token."""
        return int(self._after[state, token])

    def allowed(self, state: int, room: int) -> np.ndarray:
        """Return the tokens that may follow, bool [V], with `room` bytes left in total.

        A character that would not fit is not begun, so the last one is always whole.
        """
        return (self._after[state] >= 0) & (self._needed[state] <= room)


def _after(spellings: Sequence[bytes], sizes: np.ndarray) -> np.ndarray:
    states = np.arange(len(_TRANSITIONS))[:, None]
    after = np.where(sizes > 0, states, -1)  # a token without bytes would never end the text
    for place in range(sizes.max()):
        longer = np.flatnonzero(sizes > place)
        byte = np.array([spellings[token][place] for token in longer.tolist()])
        before = after[:, longer]
        after[:, longer] = np.where(before < 0, -1, _NEXT[before, byte])
    return after
