"""How well the model predicts: the bits that every token costs."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from ..errors import InputError
from ..text.split import Split, span_bounds
from .interface import TextModel

_Reset = Literal["strip", "review"]
_STRIP_TOKENS = 20_000  # a cold start costs some tens of bits: negligible in a strip of this length
# Tokens before a shorter strip that are processed but not scored. With them, a score differs from
# that of one lane by less than 1e-5 bits.
_WARM_UP = 500
_SHORTEST_STRIP = 500  # tokens
_MAX_STRIPS = 64


class _Evaluation(NamedTuple):
    """A score and its uncertainty."""

    bits_per_character: float
    characters: int
    standard_error: float | None  # of the bits per character, over reviews
    cold_starts: int  # how often the state was zero


def score_split(
    model: TextModel,
    split: Split,
    *,
    lanes: int | None = None,
    reset: _Reset = "strip",
    advance: Callable[[float], object] = lambda tokens: None,
) -> _Evaluation:
    """Score a split in one process, with a standard error over reviews.

    reset: "strip" cuts the split into `lanes` strips, and carries the state from review to review
    within each; one lane is the whole split in file order. If `lanes` is None, the number is
    chosen, and short strips begin with the state after the text before them. "review" starts every
    review from the zero state, `lanes` of them in parallel. advance: called with the number of
    tokens just processed.
    """
    if lanes is not None and lanes < 1:
        raise InputError(f"--lanes is {lanes}; it must be at least 1")
    starts, firsts, ends = _pieces(split, lanes, reset)
    sequences = [split.tokens[a:b] for a, b in zip(starts, ends, strict=True)]
    # The text before a strip is processed, too: scaled to the split.
    scale = len(split.tokens) / max(sum(map(len, sequences)), 1)
    reading = model.read(sequences, (), bits=True, advance=lambda tokens: advance(scale * tokens))
    assert reading.token_bits is not None
    skipped = firsts - starts
    scored = [bits[skip:] for bits, skip in zip(reading.token_bits, skipped, strict=True)]
    per_review = _sums_between(np.concatenate([np.empty(0), *scored]), split.offsets)
    lengths = split.tokenizer.byte_lengths(split.tokens)
    per_review_bytes = _sums_between(lengths.astype(np.int64), split.offsets)
    characters = int(per_review_bytes.sum())
    if characters == 0:
        raise InputError("nothing to score: the texts are empty after the model's text profile")
    ratio = float(per_review.sum() / characters)
    error = None  # of a ratio of sums over reviews
    if len(per_review) > 1:
        residuals = per_review - ratio * per_review_bytes
        error = float(np.sqrt(len(per_review) * residuals.var(ddof=1)) / characters)
    return _Evaluation(ratio, characters, error, int((skipped == 0).sum()))


def _pieces(
    split: Split, lanes: int | None, reset: _Reset
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if reset == "review":
        return split.offsets[:-1], split.offsets[:-1], split.offsets[1:]
    size = len(split.tokens)
    strips = lanes or min(max(1, size // _SHORTEST_STRIP), _MAX_STRIPS)
    bounds = span_bounds(split, min(strips, split.reviews))
    is_short = lanes is None and size < _MAX_STRIPS * _STRIP_TOKENS
    starts = np.maximum(bounds[:-1] - _WARM_UP, 0) if is_short else bounds[:-1]
    return starts, bounds[:-1], bounds[1:]


def _sums_between(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the sum of values [n] from each of the bounds [N + 1] to the next, [N].

    `reduceat` alone would give an empty review (which a text profile may leave) the first value of
    its neighbour.
    """
    sums = np.zeros(len(bounds) - 1, dtype=values.dtype)
    full = np.diff(bounds) > 0
    sums[full] = np.add.reduceat(values, bounds[:-1][full])
    return sums
