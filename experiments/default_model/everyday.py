"""Read our own everyday sentences, by which models are chosen and tested; never trained on."""

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

TEST, VALIDATION = "everyday.toml", "everyday_val.toml"
APART = ("sarcasm", "unfamiliar")  # kinds that totals leave out


class EverydaySentence(NamedTuple):
    """A sentence, its kind and its label."""

    text: str
    kind: str
    label: str  # positive, negative, neutral; none: no text that the model is made for


@cache
def everyday_sentences(file: str = TEST) -> tuple[EverydaySentence, ...]:
    """Return all sentences of a file in their order."""
    content = tomllib.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    return tuple(
        EverydaySentence(text, kind, label)
        for kind, by_label in content.items()
        for label, texts in by_label.items()
        for text in texts
    )
