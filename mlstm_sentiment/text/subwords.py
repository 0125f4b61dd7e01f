"""SentencePiece vocabularies as lossless tokenizers: training and use."""

import hashlib
import io
import re
from collections.abc import Iterable
from typing import IO, Any

import numpy as np

from ..errors import InputError, imported
from .tokenizer import LARGEST_VOCABULARY, TOKENIZER_FILE, Tokenizer

_SPACE = "\u2581"  # SentencePiece's mark for a space, so it cannot encode this character itself
# Encoded without SentencePiece, byte by byte: that character, and bytes that are not UTF-8, which
# Python's surrogateescape turns into these.
_VERBATIM = re.compile(f"([{_SPACE}\udc80-\udcff]+)")
SMALLEST_VOCABULARY = 258  # a token for the unknown, the bytes, and a piece
# The settings of a vocabulary that leaves the text unchanged.
_LOSSLESS = {
    "normalization_rule_name": "identity",
    "add_dummy_prefix": False,
    "remove_extra_whitespaces": False,
    "byte_fallback": True,
}
_FITTING = "train one with " + " ".join(
    f"--{name}={value}".lower() for name, value in _LOSSLESS.items()
)
# Texts that a vocabulary may change: white space, accents, ligatures, widths, an emoji, controls.
_PROBES = (
    " a", "a ", "a  b", "\ta\n\nb\r\n", "a\u00a0b\u3000c", "\u00e9 e\u0301", "\ufb01 \uff21 \u2460",
    "\U0001f600", "\u200b\u00ad\ufeffa", "\0\x01\x7f", "\u2026 \u201ca\u201d", "A\u00df",
)  # fmt: skip
THREADS = 8  # of the trainer: its sums depend on their number, so it is fixed


class SubwordTokenizer(Tokenizer):
    """A SentencePiece vocabulary of either kind.

    A character without a piece is spelled in bytes. Raises InputError for a vocabulary that changes
    the text, lacks a byte, or has more tokens than uint16 can number.
    """

    def __init__(self, kind: str, content: bytes):
        package = sentencepiece()
        try:
            if not content:  # which SentencePiece treats as not given
                raise ValueError("it is empty")
            self._processor = package.SentencePieceProcessor(model_proto=content)
            spellings = [_spelling(self._processor, n) for n in range(len(self._processor))]
            tokens = [self._processor.piece_to_id(f"<0x{value:02X}>") for value in range(256)]
        except (RuntimeError, ValueError) as error:  # also pieces that are not UTF-8
            raise InputError(f"{TOKENIZER_FILE}: not a SentencePiece model ({error})") from error
        spelling_of = dict(enumerate(spellings))
        says_bytes = b"".join(spelling_of.get(token, b"") for token in tokens) == bytes(range(256))
        if not says_bytes or len(spellings) > LARGEST_VOCABULARY:
            raise InputError(
                f"{TOKENIZER_FILE}: cannot encode every byte, or has {len(spellings):,} tokens, "
                f"more than {LARGEST_VOCABULARY:,}; {_FITTING}"
            )
        super().__init__(kind, spellings, np.uint16)
        self._bytes = np.array(tokens, np.uint16)  # [256], the token of each byte
        self.content = content
        self.digest = hashlib.sha256(content).hexdigest()
        for probe in _PROBES:  # where text changes, bits per byte would not compare
            if self.decode(self.encode(probe.encode())) != probe.encode():
                raise InputError(f"{TOKENIZER_FILE}: changes the text {probe!r}; {_FITTING}")

    def __reduce__(self) -> tuple[Any, ...]:
        return SubwordTokenizer, (self.kind, self.content)

    @property
    def fingerprint(self) -> str:
        return f"{self.kind} of {self.vocabulary_size:,} ({self.digest[:12]})"

    def encode(self, text: bytes) -> np.ndarray:
        parts = _VERBATIM.split(text.decode("utf-8", "surrogateescape"))
        if len(parts) == 1:
            return np.array(self._processor.encode(parts[0]), np.uint16)
        tokens = [
            self._bytes[np.frombuffer(part.encode("utf-8", "surrogateescape"), np.uint8)]
            if number % 2
            else np.array(self._processor.encode(part))
            for number, part in enumerate(parts)
        ]
        return np.concatenate(tokens).astype(np.uint16)

    def pieces(self) -> dict[str, Any]:
        """Return what splits a text, for JSON: kind, pieces, scores, and the token of each byte.

        A piece is text; None for a token that stands for a byte, or for nothing.
        """
        return {
            "kind": self.kind,
            "pieces": [
                spelling.decode() if spelling and not self._processor.is_byte(token) else None
                for token, spelling in enumerate(self.spellings)
            ],
            "scores": [self._processor.get_score(n) for n in range(self.vocabulary_size)],
            "bytes": self._bytes.tolist(),
        }

    def opening(self, text: bytes) -> tuple[np.ndarray, bytes]:
        """Return the tokens of a text to continue, and the bytes that must begin the next token.

        A piece includes the space before its word, so a space at the end belongs to the next piece.
        """
        head = text.removesuffix(b" ")
        return self.encode(head), text[len(head) :]

    def describe(self) -> dict[str, str]:
        return {"tokenizer": self.kind, "tokenizer_sha256": self.digest}


def _spelling(processor: Any, token: int) -> bytes:
    """Return the bytes of text that a token stands for; none for the unknown token."""
    piece: str = processor.id_to_piece(token)
    if processor.is_byte(token):
        return bytes([int(piece[3:5], 16)])  # <0x41>
    if any(getattr(processor, f"is_{what}")(token) for what in ("unknown", "control", "unused")):
        return b""
    return piece.replace(_SPACE, " ").encode()


def train_vocabulary(texts: Iterable[bytes], kind: str, size: int, log: IO[str]) -> bytes:
    """Train a vocabulary of `size` tokens; return SentencePiece's file.

    kind: bpe or unigram. log: an open file for the trainer's messages. The same texts give the same
    bytes. Raises InputError for a size that the texts do not allow.
    """
    vocabulary = io.BytesIO()
    try:
        sentencepiece().SentencePieceTrainer.train(
            sentence_iterator=(text.decode("utf-8", "replace") for text in texts),
            model_writer=vocabulary,
            logstream=log,
            model_type=kind,
            vocab_size=size,
            **_LOSSLESS,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            max_sentence_length=1 << 30,  # bytes; longer ones would be left out
            num_threads=THREADS,
            minloglevel=0,
        )
    except RuntimeError as error:  # its message begins with a place and condition in its own source
        reason, advice = str(error).rpartition("] ")[2].strip() or str(error), "or more text"
        if few := re.search(r"required_chars\. \d+ vs (\d+)", reason):  # and options of its own
            reason, advice = "the texts have more characters", f"at least {few[1]}"
        raise InputError(
            f"a {kind} vocabulary of {size:,} cannot be made: {reason}; give "
            f"another --vocabulary-size, {advice}"
        ) from error
    return vocabulary.getvalue()


def sentencepiece() -> Any:
    return imported("sentencepiece", "tokenizers other than bytes need")
