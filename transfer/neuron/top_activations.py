"""The texts after which a unit is highest and lowest, and the words that move it most.

A word includes the white space after it, since the unit reacts when the word has ended. Its jump is
the unit's value there, minus the value at the end of the word before.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from data_utils.labelled import LabelledSet
from mlstm_sentiment.engine.interface import TextModel
from mlstm_sentiment.units.unit_traces import UnitTrace, read_texts

SHOWN = 5  # texts and moments of a kind
WORDS = 15  # of each direction
RARE = 5  # words seen less often are not averaged
MOST_CHARACTERS = 200_000  # searched for moments: a few minutes for any size of the set
_TEXT_WINDOW = 600  # characters shown of a long text, its end
CONTEXT = (90, 30)  # characters shown before a moment's word and after it
_WORD = re.compile(r"\S+\s*")
_CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)  # of a word, without other characters around it


@dataclass(frozen=True)
class Jump:
    """A word in a text and how it changed the unit."""

    row: int  # of the text
    start: int  # the word's characters, white space included
    stop: int
    change: float


def find_top_activations(
    loaded: TextModel,
    test: LabelledSet,
    values: np.ndarray,
    unit: int,
    polarity: int,
    cut: float,
    seed: int,
) -> dict[str, Any]:
    """Find the texts, moments and words of a labelled set at which a unit is most active.

    values: float32 [N], the unit's value after each text. polarity: 1 if high values are positive,
    -1 if they are negative; cut: between the two. seed: draws the texts that are searched for
    moments and words.
    """
    rows = np.array([row for row, text in enumerate(test.texts) if loaded.profile.clean(text)])
    kinds = choose_texts(values[rows], test.labels[rows], polarity, cut)
    kinds = {kind: rows[chosen].tolist() for kind, chosen in kinds.items()}
    searched = _sample(test.texts, rows, seed, MOST_CHARACTERS)
    rows_to_read = sorted({*searched, *(row for chosen in kinds.values() for row in chosen)})
    traced = read_texts(loaded, [test.texts[row] for row in rows_to_read], [unit])
    traces = dict(zip(rows_to_read, traced.traces, strict=True))
    jumps = [jump for row in searched for jump in jumps_of(traces[row], row)]
    return {
        "limit": traced.ranges()[0],
        "texts": {
            kind: [
                {"value": float(values[row]), **_piece(traces[row], row, test, -_TEXT_WINDOW, None)}
                for row in chosen
            ]
            for kind, chosen in kinds.items()
        },
        "searched": {
            "texts": len(searched),
            "characters": sum(len(traces[row].text) for row in searched),
            "of_texts": len(test.texts),
        },
        "moments": {
            kind: [_moment(traces[jump.row], jump, test) for jump in chosen]
            for kind, chosen in _largest(jumps).items()
        },
        "words": average_words(jumps, {row: traces[row].text for row in searched}),
    }


def choose_texts(
    values: np.ndarray, labels: np.ndarray, polarity: int, cut: float
) -> dict[str, np.ndarray]:
    """Return indices of the highest and lowest values, and of those that contradict the label.

    A text contradicts its label if its value is on the other side of the cut. Each kind has its
    SHOWN strongest, the strongest first. values, labels: [N].
    """
    order = np.argsort(values, kind="stable")
    sentiment = polarity * values
    predicted = (values > cut) == (polarity > 0)
    wrong = {label: np.flatnonzero((labels == label) & (predicted != label)) for label in (0, 1)}
    return {
        "highest": order[::-1][:SHOWN],
        "lowest": order[:SHOWN],
        "positive_though_negative": wrong[0][np.argsort(-sentiment[wrong[0]])][:SHOWN],
        "negative_though_positive": wrong[1][np.argsort(sentiment[wrong[1]])][:SHOWN],
    }


def _sample(texts: Sequence[str], rows: np.ndarray, seed: int, most_characters: int) -> list[int]:
    """Draw at least one row, and more until their texts hold most_characters."""
    order = np.random.default_rng(seed).permutation(rows)
    sizes = np.cumsum([len(texts[row]) for row in order])
    return sorted(order[: max(int((sizes <= most_characters).sum()), 1)].tolist())


def jumps_of(trace: UnitTrace, row: int = 0) -> list[Jump]:
    """Return every word of a text with the first unit's change over it."""
    spans = [match.span() for match in _WORD.finditer(trace.text)]
    ends = [float(trace.before[0]), *(float(trace.values[stop - 1, 0]) for _, stop in spans)]
    return [
        Jump(row, start, stop, after - before)
        for (start, stop), before, after in zip(spans, ends[:-1], ends[1:], strict=True)
    ]


def _largest(jumps: list[Jump]) -> dict[str, list[Jump]]:
    """Return the largest rises and falls, at most one for each text."""
    largest = {}
    for kind, sign in (("rises", 1), ("falls", -1)):
        chosen: dict[int, Jump] = {}
        for jump in sorted(jumps, key=lambda jump: -sign * jump.change):
            if sign * jump.change > 0:
                chosen.setdefault(jump.row, jump)
        largest[kind] = list(chosen.values())[:SHOWN]
    return largest


def average_words(jumps: Sequence[Jump], texts: dict[int, str]) -> dict[str, list[dict[str, Any]]]:
    """Return the words, lower-cased, that occur RARE times or more and move the unit most."""
    cores = [_CORE.search(texts[jump.row][jump.start : jump.stop].lower()) for jump in jumps]
    words = pd.DataFrame({
        "word": [core[0] if core else None for core in cores],
        "change": [jump.change for jump in jumps],
    })  # fmt: skip
    table = words.groupby("word", sort=False)["change"].agg(
        count="count", mean_change="mean", standard_error="sem"
    )
    table = table[table["count"] >= RARE].sort_values("mean_change", kind="stable").reset_index()
    rows = table.to_dict("records")
    return {
        "raise": [row for row in rows[::-1] if row["mean_change"] > 0][:WORDS],
        "lower": [row for row in rows if row["mean_change"] < 0][:WORDS],
    }


def _moment(trace: UnitTrace, jump: Jump, test: LabelledSet) -> dict[str, Any]:
    before, after = CONTEXT
    start, stop = max(jump.start - before, 0), jump.stop + after
    word, offset = trace.text[jump.start : jump.stop].strip(), jump.start - start
    return {
        "word": word,
        "change": jump.change,
        "mark": [offset, offset + len(word)],
        **_piece(trace, jump.row, test, start, stop),
    }


def _piece(
    trace: UnitTrace, row: int, test: LabelledSet, start: int, stop: int | None
) -> dict[str, Any]:
    """Return some characters of a text, as a slice, with their values; rows count from 1."""
    start, stop, _ = slice(start, stop).indices(len(trace.text))
    return {
        "row": row + 1,
        "label": test.classes[test.labels[row]],
        "cut_before": start > 0,
        "cut_after": stop < len(trace.text),
        "text": trace.text[start:stop],
        "values": [float(f"{value:.4g}") for value in trace.values[start:stop, 0]],
    }
