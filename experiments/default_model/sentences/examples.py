"""Texts with labels, as the default model learns from them."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

APOSTROPHES = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}]")
SIGNS = re.compile(r"[^\w\s]+|_+")
STARS = ("1", "2", "3", "4", "5")


class Example(NamedTuple):
    """A text and its label: negative, neutral, positive, or stars 1 to 5."""

    text: str
    label: str
    source: str


def normalized(text: str) -> str:
    """Return the words in lower case without signs; if there are no words, the signs."""
    words = SIGNS.sub(" ", APOSTROPHES.sub("", text.casefold())).split()
    return " ".join(words) or "".join(text.split())


def counts_of(examples: Sequence[Example]) -> dict[str, dict[str, int]]:
    """Return texts and characters by source."""
    texts = Counter(example.source for example in examples)
    characters: Counter[str] = Counter()
    for example in examples:
        characters[example.source] += len(example.text)
    return {source: {"texts": texts[source], "characters": characters[source]} for source in texts}


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """Write JSON lines."""
    lines = [json.dumps(example._asdict(), ensure_ascii=False) + "\n" for example in examples]
    path.write_text("".join(lines), encoding="utf-8")


def read_examples(path: Path) -> list[Example]:
    """Read what `write_examples` wrote."""
    with path.open(encoding="utf-8") as file:
        return [Example(**json.loads(line)) for line in file]
