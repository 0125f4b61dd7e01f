"""When two sentences are the same one."""

import re

SIGNS = re.compile(r"[^\w\s]+|_+")


def normalized(text: str) -> str:
    """Return the words in lower case without any signs; of a text without words, its signs."""
    words = SIGNS.sub(" ", text.casefold().replace("'", "")).split()
    return " ".join(words) or "".join(text.split())
