"""Everyday sentences of our own: what a model for work is held against, and never trained on."""

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from experiments.default_model.wording import normalized

HERE = Path(__file__).resolve().parent
APART = ("sarcasm", "unfamiliar")  # kinds that no total counts


class EverydaySentence(NamedTuple):
    """A sentence, the kind that it stands for, and what it says."""

    text: str
    kind: str
    label: str  # positive, negative, neutral; none: not a text of the kind that is understood


@cache
def everyday_sentences() -> tuple[EverydaySentence, ...]:
    """Return all sentences of everyday.toml, in its order."""
    content = tomllib.loads((HERE / "everyday.toml").read_text(encoding="utf-8"))
    return tuple(
        EverydaySentence(text, kind, label)
        for kind, by_label in content.items()
        for label, texts in by_label.items()
        for text in texts
    )


@cache
def everyday_wordings() -> frozenset[str]:
    """Return the wording of every sentence, by which it is kept out of training texts."""
    return frozenset(normalized(sentence.text) for sentence in everyday_sentences())
