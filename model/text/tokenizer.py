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

    @property
    def vocabulary_size(self) -> int:
        """V, the number of tokens."""
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
        raise NotImplementedError

    def byte_lengths(self, tokens: np.ndarray) -> np.ndarray:
        """Return how many bytes of text each of the tokens [n] stands for, integers [n]."""
        raise NotImplementedError

    def count_bytes(self, tokens: np.ndarray) -> int:
        """Return how many bytes of text tokens [n] stand for in total."""
        return int(self.byte_lengths(tokens).sum(dtype=np.int64))

    def describe(self) -> dict[str, str]:
        """Return its description for `config.json` and `meta.json`."""
        return {"tokenizer": self.kind}


class ByteTokenizer(Tokenizer):
    """Every byte is a token."""

    def __init__(self) -> None:
        super().__init__("bytes", [bytes([value]) for value in range(256)], np.uint8)

    def encode(self, text: bytes) -> np.ndarray:
        """Return the bytes, uint8 [n]."""
        return np.frombuffer(text, np.uint8)

    def decode(self, tokens: np.ndarray) -> bytes:
        """Return the bytes."""
        return tokens.astype(np.uint8).tobytes()

    def byte_lengths(self, tokens: np.ndarray) -> np.ndarray:
        """Return ones, [n]."""
        return np.ones(len(tokens), np.uint8)

    def count_bytes(self, tokens: np.ndarray) -> int:
        """Return n."""
        return len(tokens)


BYTES = ByteTokenizer()
