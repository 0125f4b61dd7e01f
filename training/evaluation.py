"""Bits per character of a split: per byte of text, whatever the tokens; summed over ranks."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from mlstm_sentiment.bounds import PositiveInt, check_bounds
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.split import Split, cut_strips
from model.layers.language_model import LanguageModel

from .parallel.distributed import WaitingTogether, World, never
from .precision import sums_in_fp32
from .run_plan import Characters


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """When and how the valid split is scored during training."""

    DEFAULT_STEPS: ClassVar[int] = 200
    EXCLUSIVE: ClassVar = ("every_steps", "every_characters")

    every_steps: PositiveInt | None = None
    """Steps between evaluations; the run also ends with one. Default: 200, unless
    every_characters is given."""
    every_characters: Characters | None = None
    """Characters of text between evaluations, such as 8e6, instead of steps."""
    lanes: PositiveInt = 64
    """Streams into which the split is cut. They are scored in parallel, each from the zero state,
    and carry the state from review to review."""
    probe_train: Path | None = None
    """Labelled texts of two classes. Every evaluation fits two regressions on these texts, one on
    the mean state and one on the last state, and finds the unit whose mean predicts the classes
    best."""
    probe_val: Path | None = None
    """Labelled texts on which to score the regression and the unit."""

    def __post_init__(self) -> None:
        check_bounds(self, "evaluate.")
        if (self.probe_train is None) != (self.probe_val is None):
            raise InputError(
                "evaluate.probe_train and evaluate.probe_val need each other; name both"
            )


def evaluate_split(
    model: LanguageModel,
    split: Split,
    *,
    lanes: int,
    world: World,
    is_time_up: Callable[[], bool] = never,
) -> tuple[float, int]:
    """Return (bits per character, characters) of a split that all ranks score together.

    The split is cut into `lanes` strips, whatever the number of ranks. Each strip is scored in file
    order, with the state carried from review to review. Raises TimeIsUp, on every rank, once it is
    up on one of them.
    """
    from model.inference.features import read  # only once there is something to score

    own = cut_strips(split, lanes)[world.rank :: world.size]
    together = WaitingTogether(world, is_time_up)

    with sums_in_fp32():
        reading = read(
            model, own, bits=True, batch_size=lanes, advance=lambda tokens: together.working()
        )
        bits = math.fsum(() if reading.bits is None else reading.bits.tolist())
    together.finished()
    characters = sum(split.tokenizer.count_bytes(piece) for piece in own)
    totals = world.sum(torch.tensor([bits, characters], dtype=torch.float64, device=world.device))
    return float(totals[0] / totals[1]), int(totals[1])
