"""Text to bytes: how a review is cleaned and framed before the model reads it."""

import html
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .errors import InputError


def _clean_openai(text: str) -> str:
    return html.unescape(text).replace("\n", " ").strip()


@dataclass(frozen=True)
class TextProfile:
    """A named way from a text to the bytes that the model is trained on and reads."""

    name: str
    prefix: str
    suffix: str
    clean: Callable[[str], str]

    def encode(self, text: str) -> bytes:
        """Return the UTF-8 bytes; lone surrogates, which UTF-8 cannot say, become `?`."""
        framed = self.prefix + self.clean(text) + self.suffix
        return framed.encode("utf-8", errors="replace")

    def tokens(self, text: str) -> np.ndarray:
        """Return the text's bytes as uint8 [n]."""
        return np.frombuffer(self.encode(text), dtype=np.uint8)


# "openai" is Radford et al. 2017, section 3, as their released utils.py does it.
TEXT_PROFILES = {
    profile.name: profile
    for profile in (
        TextProfile("openai", "\n ", " ", _clean_openai),
        TextProfile("raw", "", "", str),
    )
}


def text_profile(name: str) -> TextProfile:
    """Look a profile up by name; InputError names the known ones."""
    if name not in TEXT_PROFILES:
        raise InputError(f"text profile {name!r} is unknown; known: {', '.join(TEXT_PROFILES)}")
    return TEXT_PROFILES[name]
