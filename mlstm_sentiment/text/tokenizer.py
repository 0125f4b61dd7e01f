"""Tokenizers: from text, as UTF-8 bytes, to a model's tokens, and back without loss."""

from collections.abc import Sequence

import numpy as np

TOKENIZER_FILE = "tokenizer.model"
SUBWORD_KINDS = ("bpe", "unigram")  # SentencePiece's, Kudo & Richardson 2018
LARGEST_VOCABULARY = 1 << 16  # the range of uint16


class Tokenizer:
    """Splits text into V tokens, each of which stands for some bytes.

    Whatever the text, `decode(encode(text)) == text`, so that bits counted per byte of text are
    comparable from one tokenizer to another.
    """

    content = b""  # of the vocabulary's file; bytes have none

    def __init__(self, kind: str, spellings: Sequence[bytes], dtype: type[np.generic]):
        self.kind = kind
        self.spellings = spellings  # V, the bytes that each token stands for
        self.dtype = np.dtype(dtype)  # of a corpus on disk
        self._lengths = np.array(list(map(len, spellings)), np.int32)

    @property
    def vocabulary_size(self) -> int:
        return len(self.spellings)

    @property
    def fingerprint(self) -> str:
        """A digest that differs between any two tokenizers."""
        return self.kind

    def encode(self, text: bytes) -> np.ndarray:
        """Return the tokens of a text, `dtype` [n]."""
        raise NotImplementedError

    def opening(self, text: bytes) -> tuple[np.ndarray, bytes]:
        """Return the tokens of a text to be continued, and the bytes the next must begin with."""
        return self.encode(text), b""

    def decode(self, tokens: np.ndarray) -> bytes:
        """Return the bytes that tokens [n] stand for."""
        return b"".join(map(self.spellings.__getitem__, tokens.tolist()))

    def byte_lengths(self, tokens: np.ndarray) -> np.ndarray:
        """Return how many bytes of text each of the tokens [n] stands for, integers [n]."""
        lengths: np.ndarray = self._lengths[tokens]
        return lengths

    def count_bytes(self, tokens: np.ndarray) -> int:
        """Return how many bytes of text tokens [n] stand for in total."""
        return int(self.byte_lengths(tokens).sum(dtype=np.int64))

    def describe(self) -> dict[str, str]:
        return {"tokenizer": self.kind}


class _ByteTokenizer(Tokenizer):
    """Every byte is a token."""

    def __init__(self) -> None:
        super().__init__("bytes", [bytes([value]) for value in range(256)], np.uint8)

    def encode(self, text: bytes) -> np.ndarray:
        return np.frombuffer(text, np.uint8)

    def decode(self, tokens: np.ndarray) -> bytes:
        return tokens.astype(np.uint8).tobytes()

    def byte_lengths(self, tokens: np.ndarray) -> np.ndarray:
        return np.ones(len(tokens), np.uint8)

    def count_bytes(self, tokens: np.ndarray) -> int:
        return len(tokens)


BYTES = _ByteTokenizer()


START = 0  # between two characters
# state: {first byte, last byte: next state}; Unicode 15, table 3-7. States 2, 4, 5 and 7 follow a
# lead byte whose next byte is restricted: no overlong forms, no surrogates, nothing past U+10FFFF.
_TRANSITIONS: list[dict[tuple[int, int], int]] = [
    {
        (0x00, 0x7F): 0, (0xC2, 0xDF): 1, (0xE0, 0xE0): 2, (0xE1, 0xEC): 3, (0xED, 0xED): 4,
        (0xEE, 0xEF): 3, (0xF0, 0xF0): 5, (0xF1, 0xF3): 6, (0xF4, 0xF4): 7,
    },
    {(0x80, 0xBF): 0},
    {(0xA0, 0xBF): 1},
    {(0x80, 0xBF): 1},
    {(0x80, 0x9F): 1},
    {(0x90, 0xBF): 3},
    {(0x80, 0xBF): 3},
    {(0x80, 0x8F): 3},
]  # fmt: skip
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
        self.spellings = spellings
        self._sizes = np.array([len(spelling) for spelling in spellings])  # [V]
        self._after = _after(spellings, self._sizes)  # [8, V], -1 if a token may not follow
        self._needed = self._sizes + _MISSING[self._after]  # [8, V], bytes to the character's end

    def next_state(self, state: int, token: int) -> int:
        return int(self._after[state, token])

    def allowed(self, state: int, room: int) -> np.ndarray:
        """Return the tokens that may follow, bool [V], with `room` bytes left in total.

        A character that would not fit is not begun, so the last one is always whole.
        """
        return (self._after[state] >= 0) & (self._needed[state] <= room)


def _after(spellings: Sequence[bytes], sizes: np.ndarray) -> np.ndarray:
    states = np.arange(len(_TRANSITIONS))[:, None]
    after = np.where(sizes > 0, states, -1)  # with a token of no bytes, the text might never end
    for place in range(sizes.max()):
        longer = np.flatnonzero(sizes > place)
        byte = np.array([spellings[token][place] for token in longer.tolist()])
        before = after[:, longer]
        after[:, longer] = np.where(before < 0, -1, _NEXT[before, byte])
    return after
