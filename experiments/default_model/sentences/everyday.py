"""Read our own everyday sentences, by which models are chosen and tested; never trained on."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from experiments.default_model.sentences.examples import normalized

TEST, VALIDATION = "everyday.toml", "everyday_val.toml"
APART = ("sarcasm", "unfamiliar")  # kinds that totals leave out


class EverydaySentence(NamedTuple):
    """A sentence, its kind and its label."""

    text: str
    kind: str
    label: str  # positive, negative, neutral; none: no text that the model is made for


def content(name: str) -> dict[str, Any]:
    """Return what a TOML file next to this module holds."""
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


@cache
def everyday_sentences(file: str = TEST) -> tuple[EverydaySentence, ...]:
    """Return all sentences of a file in their order."""
    return tuple(
        EverydaySentence(text, kind, label)
        for kind, by_label in content(file).items()
        for label, texts in by_label.items()
        for text in texts
    )


@cache
def everyday_wordings() -> frozenset[str]:
    """Return the wordings of both files; texts with such a wording are not trained on."""
    sentences = everyday_sentences(TEST) + everyday_sentences(VALIDATION)
    return frozenset(normalized(sentence.text) for sentence in sentences)
