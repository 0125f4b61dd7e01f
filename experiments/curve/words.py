"""Which words move a unit: its value after a word, less its value before."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from data_utils.labelled import LabelledSet
from model.files.weights import LoadedModel
from model.units.unit_traces import read_texts
from transfer.neuron.top_activations import jumps_of

FEWEST = 25  # texts that hold a word
WORDS = 20  # of each class
LETTERS = re.compile(r"[a-z']+")


def telling_words(train: LabelledSet) -> dict[str, float]:
    """Return the words that tell most of the label, with the log of their odds, best last.

    A word counts once in a text. One is added to each count, as a word of one class alone has no
    finite odds.
    """
    counts = [Counter[str](), Counter[str]()]
    for text, label in zip(train.texts, train.labels, strict=True):
        counts[label].update(set(LETTERS.findall(text.lower())))
    common = [word for word in counts[0] | counts[1] if counts[0][word] + counts[1][word] >= FEWEST]
    odds = {word: float(np.log((counts[1][word] + 1) / (counts[0][word] + 1))) for word in common}
    ordered = sorted(odds, key=odds.__getitem__)
    return {word: odds[word] for word in [*ordered[:WORDS], *ordered[-WORDS:]]}


def word_jumps(
    loaded: LoadedModel, train: LabelledSet, words: Sequence[str] | dict[str, float], unit: int
) -> dict[str, dict[str, Any]]:
    """Return for each word how far it moves the unit on average, and the mean's standard error.

    Every word is read where it stands in at most FEWEST texts, the first ones that hold it.
    """
    rows = {word: rows_with(train, word) for word in words}
    wanted = sorted({row for of_word in rows.values() for row in of_word})
    traces = read_texts(loaded, [train.texts[row] for row in wanted], [unit]).traces
    changes: dict[str, list[float]] = {word: [] for word in words}
    for trace in traces:
        for jump in jumps_of(trace):
            word = trace.text[jump.start : jump.stop].strip().lower()
            if word in changes:
                changes[word].append(jump.change)
    return {word: mean_change(found) for word, found in changes.items()}


def rows_with(train: LabelledSet, word: str) -> list[int]:
    """Return the first FEWEST texts that hold a word."""
    holds = re.compile(rf"(?<!\S){re.escape(word)}(?!\S)", re.IGNORECASE)
    return [row for row, text in enumerate(train.texts) if holds.search(text)][:FEWEST]


def mean_change(found: Sequence[float]) -> dict[str, Any]:
    """Return the mean of changes, its standard error, and how many there are."""
    if len(found) < 2:
        return {"mean": None, "error": None, "count": len(found)}
    values = np.array(found)
    error = float(values.std(ddof=1) / len(values) ** 0.5)
    return {"mean": float(values.mean()), "error": error, "count": len(values)}
