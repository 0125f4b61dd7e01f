"""Text profiles: how a review is cleaned and framed before the model processes it."""

import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ..errors import InputError, imported

_TAG = re.compile(r"<[^>\n]*>?")  # to the end of the line if nothing closes it
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+")
# To the end of a word if possible; a mark, a vowel or a final of Hangul stays with what it marks.
_PARTS = re.compile(
    r".{1,100}(?=\s)|.{1,100}[\u0300-\u036f\u1160-\u11ff\u3099\u309a]{0,100}", re.DOTALL
)
_HASHTAG = re.compile(r"#(\S+)")


@dataclass(frozen=True)
class TextProfile:
    """How a text becomes the bytes that a model processes: cleaning, and a frame around it."""

    name: str
    prefix: str
    suffix: str
    clean: Callable[[str], str]

    def encode(self, text: str) -> bytes:
        """Return the UTF-8 bytes; lone surrogates, which UTF-8 cannot encode, become `?`."""
        framed = self.prefix + self.clean(text) + self.suffix
        return framed.encode("utf-8", errors="replace")

    def opening(self, text: str) -> bytes:
        """Return the bytes of a text to be continued, with only the front part of its frame."""
        return (self.prefix + self.clean(text)).encode("utf-8", errors="replace")


def _clean_openai(text: str) -> str:
    return unescape(text).replace("\n", " ").strip()


def _clean_nvidia(text: str) -> str:
    text = _to_ascii(_TAG.sub(_space_for_tag, text))
    return " ".join(unescape(text).split())


def _clean_tweet(text: str) -> str:
    text = unescape(_ADDRESS.sub("xxxx", text))
    text = _HASHTAG.sub(r"\1!!", " ".join(text.split()))
    pieces = (_printable(character) for character in _without_accents(text))
    return " ".join("".join(pieces).split())


def _clean_protein(text: str) -> str:
    return "".join(text.split()).upper().rstrip("*")


def unescape(text: str) -> str:
    """Decode HTML's character references; the text unchanged if one has too many digits."""
    try:
        return html.unescape(text) if "&" in text else text
    except ValueError:
        return text


def _space_for_tag(match: re.Match[str]) -> str:
    """Return a space for a tag; keep what begins like a tag but is not one.

    A pattern that includes the end would search for it from every "<", in quadratic time.
    """
    return " " if match[0].endswith(">") else match[0]


def _without_accents(text: str) -> str:
    """Return a text decomposed (NFKD), without its combining characters.

    One character at a time: for a whole text, Python would first sort every run of combining
    characters, in quadratic time.
    """
    decomposed = (part for character in text for part in unicodedata.normalize("NFKD", character))
    return "".join(part for part in decomposed if not unicodedata.combining(part))


def normalized(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Return a text in a composed form of Unicode, with words of 100 characters and more in parts.

    At once, Python would sort every run of combining characters in quadratic time.
    """
    if text.isascii():
        return text
    return "".join(unicodedata.normalize(form, part) for part in _PARTS.findall(text))


def _printable(character: str) -> str:
    """Keep printable ASCII, name an emoji, drop the rest."""
    if character.isascii():
        return character if character.isprintable() else ""
    name = _to_ascii(character)
    return f" {name} " if name.startswith(":") else ""


def _to_ascii(text: str) -> str:
    """Transliterate to ASCII; an emoji becomes its `:name:`."""
    return text if text.isascii() else _transliteration()(text)


@cache
def _transliteration() -> Callable[[str], str]:
    transliterate: Callable[[str], str]
    transliterate = imported("anyascii", "the text profiles nvidia and tweet need").anyascii
    return transliterate


# "openai" is Radford et al. 2017, section 3, as their released utils.py does it. "nvidia" and
# "tweet" are the steps of Puri et al.'s process_str and Kant et al.'s process_tweet, in their
# order; those used Unidecode, which is under the GPL, and anyascii differs from it in single
# characters. A tweet has no padding, so one in Chinese becomes empty. "protein" is for the amino
# acids of Alley et al. 2019: letters without spaces or a final *, after the symbol of a start.
_TEXT_PROFILES = {
    profile.name: profile
    for profile in (
        TextProfile("openai", "\n ", " ", _clean_openai),
        TextProfile("nvidia", "\n ", " ", _clean_nvidia),
        TextProfile("tweet", "", "", _clean_tweet),
        TextProfile("raw", "", "", str),
        TextProfile("protein", "\n", "", _clean_protein),
    )
}


def text_profile(name: str) -> TextProfile:
    """Look up a profile by name; InputError, with the known names, if there is none."""
    if name not in _TEXT_PROFILES:
        raise InputError(f"text profile {name!r} is unknown; known: {', '.join(_TEXT_PROFILES)}")
    return _TEXT_PROFILES[name]


def checked_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts, of any iterable in order, as a list; InputError if one is no string."""
    items = listed_texts(texts)
    for place, text in enumerate(items):
        if not isinstance(text, str):
            raise InputError(
                f"every text must be a string; item {place}, counted from 0, is of type "
                f"{type(text).__name__}; leave out or fill what is missing"
            )
    return items


def listed_texts(texts: Iterable[Any]) -> list[Any]:
    """Return the items as a list; InputError for what has none in order, as a set or a table."""
    if isinstance(texts, str | bytes | bytearray):
        kind = "string" if isinstance(texts, str) else f"{type(texts).__name__} object"
        raise InputError(f"a list of texts is needed; got a single {kind}; write [text]")
    # A mapping's items are its keys, and a set has no order for the results.
    if isinstance(texts, Mapping | set | frozenset):
        raise InputError(f"a list of texts is needed; got a {type(texts).__name__}")
    if not isinstance(texts, Iterable):
        raise InputError(f"a list of texts is needed; got {type(texts).__name__}")
    if getattr(texts, "ndim", 1) != 1:  # the items of a table are the names of its columns
        raise InputError(
            f"a list of texts is needed; got {type(texts).__name__} of {texts.ndim} dimensions, "  # type: ignore[attr-defined]
            "give one of its columns"
        )
    return list(texts)
