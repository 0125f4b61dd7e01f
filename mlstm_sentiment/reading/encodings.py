"""Which encoding bytes are in: by their mark, as UTF-8, or guessed by charset-normalizer."""

import codecs
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, Any, NamedTuple

HEAD = 4096  # bytes that show the encoding of a stream
UTF8 = ("utf-8", "utf-8-sig")  # codecs whose readers drop the mark themselves
MIXED = "UTF-8 and cp1252"  # by lines, as in files that were joined
# Byte order marks, longest first, and the codec that reads what follows and drops the mark.
MARKS = {
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Encodings of exports. Of about equally plausible ones of Latin letters the first is meant.
_USUAL = (
    "cp1252", "mac_roman", "cp1251", "koi8_r", "gb18030", "cp932", "euc_jp", "big5", "cp949",
    "cp1250", "cp1254", "cp1253", "cp1256", "cp1255", "cp874",
)  # fmt: skip
_LATIN = ("cp1252", "mac_roman", "cp1250", "cp1254")
_HIRAGANA = re.compile("[\u3041-\u3096]{2}")
_PLAUSIBLE = 0.2  # the most disorder of a text ("chaos" in charset-normalizer)
_ABOUT_EQUAL = 0.07  # a difference of disorder that shows nothing
_EVIDENCE = 1 << 13  # bytes of lines that are not UTF-8
# How UTF-8 looks that was read as cp1252 or Latin-1: an apostrophe, a dash, an accented letter.
_MOJIBAKE = re.compile(
    "\u00e2\u20ac[\u2122\u0153\u00a6\u02dc\u201c\u201d\x80-\x9f]|\u00e2\x80[\x90-\xa6]"
    "|\u00c3[\x80-\xbf\u0192\u0160\u2030]"
)


class Encoding(NamedTuple):
    """A codec, and how sure it is."""

    codec: str
    confidence: float | None = None  # None: by evidence, not guessed

    def __str__(self) -> str:
        name = "UTF-8" if self.codec in UTF8 else self.codec
        if self.confidence is None:
            return name
        return f"{name} (guessed, confidence {self.confidence:.0%}; --encoding)".replace("%", " %")


def marked_encoding(head: bytes) -> str | None:
    """Return the codec that a byte order mark shows, or that NULs show beyond doubt."""
    for mark, codec in MARKS.items():
        if head.startswith(mark):
            return codec
    even, odd = head[0:HEAD:2], head[1:HEAD:2]
    for codec, high, low in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if len(odd) > 1 and high.count(0) > 0.6 * len(high) and 20 * low.count(0) < len(low):
            return codec
    return None


def encoding_of(lines: Iterable[bytes]) -> Encoding:
    """Return the encoding of the lines of a file without a mark.

    UTF-8 with a few broken characters is UTF-8, unless the broken lines are cp1252.
    """
    valid = broken = size = 0  # characters beyond ASCII, bytes that are no UTF-8
    evidence: dict[bytes, None] = {}  # lines that are not UTF-8
    has_both = False
    for line in lines:
        if line.isascii():
            continue
        try:
            valid += len(line.decode()) - len(line.translate(None, _BEYOND))
        except UnicodeDecodeError:
            text = line.decode(errors="replace")
            bad = text.count("\ufffd")
            whole = len(text) - len(line.translate(None, _BEYOND)) - bad
            has_both |= whole > bad
            broken, valid = broken + bad, valid + whole
            if size < _EVIDENCE and line not in evidence:
                evidence[line] = None
                size += len(line)
    guess = _guessed(b"".join(evidence)[:_EVIDENCE]) if broken else None
    if guess is None:
        return Encoding("utf-8")
    if valid < broken:
        return guess
    is_mixed = not has_both and guess.codec in ("cp1252", "mac_roman") and broken < valid
    return Encoding(MIXED) if is_mixed else Encoding("utf-8")


_BEYOND = bytes(range(128, 256))


def _guessed(content: bytes) -> Encoding | None:
    """Return the likeliest encoding of text that is not UTF-8; None if none is plausible."""
    from charset_normalizer import from_bytes

    found = {
        name: match.chaos
        for match in from_bytes(content, 1, len(content), _PLAUSIBLE, list(_USUAL))
        for name in (match.encoding, *(each.encoding for each in match.submatch))
    }
    best = min(filter(found.__contains__, _USUAL), key=found.__getitem__, default=None)
    if best is None:
        return None
    if "cp932" in found and _HIRAGANA.search(content.decode("cp932", errors="replace")):
        best = "cp932"  # as Korean, it is no less orderly
    alike = [best]
    if best in _LATIN:
        alike = [name for name in _LATIN if found.get(name, 1.0) <= found[best] + _ABOUT_EQUAL]
    rivals = {content.decode(name, errors="replace") for name in alike}
    return Encoding(alike[0], (1 - found[alike[0]]) / (1 + 0.25 * (len(rivals) - 1)))


def recoded_lines(file: IO[bytes]) -> Iterator[bytes]:
    while lines := list(islice(file, 4096)):
        yield b"".join(map(_as_utf8, lines))


def _as_utf8(line: bytes) -> bytes:
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("cp1252", errors="replace").encode()
    return line


def is_mojibake(text: Any) -> bool:
    """Whether a text was read in a wrong encoding before it was written."""
    return isinstance(text, str) and not text.isascii() and _MOJIBAKE.search(text) is not None
