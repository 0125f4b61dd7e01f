"""What a run is worth: its loss compared with models that know no order, spikes, and its trend."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from mlstm_sentiment.text.split import Split

RECENT_ROWS = 8  # of metrics, with which the next one is compared
_FEWEST_ROWS = 4  # before a row can be a spike
_DIVERGED = 1.1  # times the bits of uniform bytes: an untrained network is a little above these
_SPIKE = 0.1  # a spike is above the median of recent rows by more than this fraction
_CHANCE_BITS = 20.0  # and by more than this, divided by the square root of its characters
_LEVEL_BITS = 2e-3  # a smaller change over the last tenth of a run is none
_COUNTED_TOKENS = 1 << 24  # of a split; a larger one is sampled
_BLOCKS = 64  # of a sample, spread over the split
_KEY = {kind: f"{kind}_bits_per_character" for kind in ("valid", "train")}  # of a row


class Verdict(NamedTuple):
    """What a loss is worse than."""

    diverged: bool  # whether it is far above that of uniform bytes
    text: str


@dataclass(frozen=True)
class Baselines:
    """Bits per character of models without training.

    >>> Baselines(unigrams=4.5).verdict(4.0)
    >>> Baselines(unigrams=4.5).verdict(37.7).text
    'worse than uniform bytes (8 bits)'
    """

    unigrams: float
    uniform: float = 8.0

    @classmethod
    def of(cls, train: Split, scored: Split) -> "Baselines":
        """Count the tokens of train, and score another split by their frequencies."""
        counts = np.bincount(_sample(train), minlength=train.tokenizer.vocabulary_size)
        costs = -np.log2((counts + 1) / (counts + 1).sum())  # no token is impossible
        tokens = _sample(scored)
        characters = scored.tokenizer.count_bytes(tokens)
        return cls(float(costs[tokens].sum() / max(characters, 1)))

    def verdict(self, bits: float) -> Verdict | None:
        """Return what a loss is worse than; None if it is better than unigrams."""
        if bits > self.uniform:
            diverged = bits > _DIVERGED * self.uniform
            return Verdict(diverged, f"worse than uniform bytes ({self.uniform:g} bits)")
        if not bits < self.unigrams:
            return Verdict(False, f"worse than unigrams ({self.unigrams:.4f} bits)")
        return None


def _sample(split: Split) -> np.ndarray:
    """Return the tokens of a split, or of blocks of it at equal distances."""
    tokens = np.asarray(split.tokens)
    if len(tokens) <= _COUNTED_TOKENS:
        return tokens
    size = _COUNTED_TOKENS // _BLOCKS
    begins = np.linspace(0, len(tokens) - size, _BLOCKS).astype(np.int64)
    return np.concatenate([tokens[begin : begin + size] for begin in begins])


def spike_bits(bits: float, recent: Sequence[float], characters: int) -> float | None:
    """Return by how much a row's loss exceeds the recent rows' median, if it is a spike.

    A row is a spike if it exceeds the median of the last eight rows by more than a tenth and by
    more than chance: 20 bits divided by the square root of its characters. The first four rows of
    a run are never spikes.
    """
    if len(recent) < _FEWEST_ROWS:
        return None
    usual = median(recent)
    above = bits - usual
    return above if above > max(_SPIKE * usual, _CHANCE_BITS / math.sqrt(characters)) else None


def worth(rows: Sequence[Mapping[str, Any]], baselines: Baselines) -> str:
    """Return in words what a run is worth whose model beats unigrams; rows: of its metrics.

    The trend compares the last evaluation with the last one in the first nine tenths of the run,
    which may be long before; without a valid split, the training losses of rows.
    """
    kind = next((kind for kind in ("valid", "train") if any(_KEY[kind] in row for row in rows)), "")
    scores = [(row["step"], row[_KEY[kind]]) for row in rows if kind and _KEY[kind] in row]
    if not scores:
        return "nothing was measured"
    last, bits = scores[-1]
    best_step, best = min(scores, key=lambda score: score[1])
    text = f"better than unigrams by {baselines.unigrams - best:.4f} bits a character"
    before = [score for score in scores if score[0] <= 0.9 * last]
    if not before:
        return f"{text}; too few evaluations for a trend"
    since, was = before[-1]
    change = bits - was
    of_change = f"{abs(change):.4f} {kind} bits from step {since:,} to {last:,}"
    if change < -_LEVEL_BITS:
        return f"{text}; still falling: {of_change}"
    if change > _LEVEL_BITS:
        return f"{text}; rising: {of_change}; the lowest was at step {best_step:,}"
    return f"{text}; level: {of_change}"
