"""Bits per character of a split: per byte of text, whatever the symbols; summed over ranks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch

from data_utils.corpus import Split
from data_utils.lanes import cut_strips
from model.errors import InputError
from model.language_model import LanguageModel
from model.scoring import token_costs

from .parallel.distributed import World

Reset = Literal["strip", "review"]
STRIP_SYMBOLS = 20_000  # a cold start costs some tens of bits: nothing in a strip of this length
MAX_STRIPS = 64


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """When and how the valid split is scored during training."""

    every_steps: int = 200
    """Steps between evaluations; there is one at the end as well."""
    lanes: int = 64
    """Strips of the split that are read side by side, each from the zero state."""

    def __post_init__(self) -> None:
        for name in ("every_steps", "lanes"):
            if getattr(self, name) < 1:
                raise InputError(f"evaluate.{name} is {getattr(self, name)}; at least 1")


class Evaluation(NamedTuple):
    """A score, with what it takes to judge it."""

    bits_per_character: float
    characters: int
    standard_error: float | None  # of the bits per character, over reviews
    cold_starts: int  # how often the state was zero


def evaluate_split(
    model: LanguageModel, split: Split, *, lanes: int, world: World
) -> tuple[float, int]:
    """Return (bits per character, characters) of a split, the ranks sharing its strips.

    The strips are the same for any number of ranks. In file order, the state carried from review
    to review within a strip.
    """
    strips = cut_strips(split, lanes)[world.rank :: world.size]
    bits = math.fsum(
        float(cost.sum(dtype=np.float64))
        for _, costs in token_costs(model, strips, batch_size=lanes)
        for cost in costs
    )
    characters = sum(split.tokenizer.count_bytes(strip) for strip in strips)
    totals = world.sum(torch.tensor([bits, characters], dtype=torch.float64, device=world.device))
    return float(totals[0] / totals[1]), int(totals[1])


def score_split(
    model: LanguageModel, split: Split, *, lanes: int | None = None, reset: Reset = "strip"
) -> Evaluation:
    """Score a split in one process, with a standard error over reviews.

    reset: "strip" carries the state from review to review within each of `lanes` strips (one lane
    is the whole split in file order; None chooses so many that no strip is short); "review" starts
    every review from the zero state, `lanes` of them side by side.
    """
    if lanes is None:
        long_enough = len(split.tokens) // STRIP_SYMBOLS
        lanes = MAX_STRIPS if reset == "review" else min(max(1, long_enough), MAX_STRIPS)
    if lanes < 1:
        raise InputError(f"--lanes is {lanes}; it must be at least 1")
    bounds = split.offsets
    if reset == "review":
        sequences: Sequence[np.ndarray] = [split.tokens[a:b] for a, b in pairwise(bounds)]
    else:
        sequences = cut_strips(split, lanes)
    costs: list[np.ndarray] = [np.empty(0)] * len(sequences)
    for rows, batch in token_costs(model, sequences, batch_size=lanes):
        for row, cost in zip(rows, batch, strict=True):
            costs[row] = cost
    per_review = sums_between(np.concatenate(costs).astype(np.float64), bounds)
    lengths = split.tokenizer.byte_lengths(split.tokens)
    per_review_bytes = sums_between(lengths.astype(np.int64), bounds)
    return _summary(per_review, per_review_bytes, len(sequences))


def sums_between(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the sum of values [n] from each of the bounds [N + 1] to the next, [N].

    `reduceat` alone would give an empty review, as a text profile may leave, its neighbour's first.
    """
    sums = np.zeros(len(bounds) - 1, dtype=values.dtype)
    full = np.diff(bounds) > 0
    sums[full] = np.add.reduceat(values, bounds[:-1][full])
    return sums


def _summary(bits: np.ndarray, sizes: np.ndarray, cold_starts: int) -> Evaluation:
    """Combine reviews: a ratio of sums, and the standard error of that ratio."""
    characters = int(sizes.sum())
    ratio = float(bits.sum() / characters)
    error = None
    if len(sizes) > 1:
        residuals = bits - ratio * sizes
        error = float(np.sqrt(len(sizes) * residuals.var(ddof=1)) / characters)
    return Evaluation(ratio, characters, error, cold_starts)
