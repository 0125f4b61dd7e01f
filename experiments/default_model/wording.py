"""Decide when two sentences have the same wording."""

import re

SIGNS = re.compile(r"[^\w\s]+|_+")


def normalized(text: str) -> str:
    """Return the words in lower case without signs; if there are no words, the signs."""
    words = SIGNS.sub(" ", text.casefold().replace("'", "")).split()
    return " ".join(words) or "".join(text.split())
