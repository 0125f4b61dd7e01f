"""Heads of every kind that tests need, from a few numbers."""

from typing import Any

import numpy as np
import torch

from mlstm_sentiment.engine.kinds import Pooling, StateName
from mlstm_sentiment.head.head import Head, HeadUnit
from mlstm_sentiment.head.steps import (
    Affine,
    Calibration,
    Neutral,
    Ngrams,
    OneVsRest,
    Positive,
    Sigmoid,
    Stars,
    Step,
)
from transfer.finetuning.heads import Heads, HeadsConfig, build_heads

SIDES = ("negative", "positive")
STAR_WEIGHTS = (0.0, 0.0, 0.5, 1.0, 1.0)  # how positive one to five stars are
STAR_STATE: StateName = "hidden"  # the features of a head that predicts stars
STAR_POOLING: tuple[Pooling, ...] = ("last", "mean")


def regression(
    weights: Any,
    intercept: Any = 0.0,
    classes: tuple[str, ...] = SIDES,
    unit: int | None = None,
    polarity: int = 1,
    digest: str = "",
    *,
    link: Step | None = None,
    neuron_pooling: str | None = None,
    **more: Any,
) -> Head:
    """A logistic regression, as transfer.py fits it."""
    affine = Affine(np.atleast_2d(weights), np.atleast_1d(intercept))
    pooling = neuron_pooling or more.get("pooling", ("last",))[0]
    return Head(
        classes=classes,
        steps=(affine, link or (Sigmoid() if len(affine.bias) == 1 else OneVsRest())),
        unit=None if unit is None else HeadUnit(unit, polarity, pooling),
        model_digest=digest,
        **more,
    )


def star_head(
    units: int = 12,
    *,
    heads: Heads | None = None,
    calibration: Calibration | None = None,
    ngrams: Ngrams | None = None,
    neutral: Neutral | None = None,
    factor: float = 30,
    **more: Any,
) -> Head:
    """A head that predicts one to five stars; factor: of its weights, so that texts differ.

    Three stars are half positive.
    """
    if heads is None:
        heads = build_heads(HeadsConfig(), units * len(STAR_POOLING), len(STAR_WEIGHTS), seed=1)
        with torch.no_grad():
            heads.heads.weight *= factor
    line = Calibration(slope=0.5, offset=0.25) if calibration is None else calibration
    ends = [ngrams, Stars(), neutral, Positive(STAR_WEIGHTS), line, Sigmoid()]
    return Head(
        classes=SIDES,
        steps=(*heads.steps(exclusive=True), *(step for step in ends if step is not None)),
        state=STAR_STATE,
        pooling=STAR_POOLING,
        **{"doubt": (0.4, 0.7), **more},
    )


def bag_of_ngrams(weights: Any, scale: float) -> Ngrams:
    """Weights of n-grams that move the probabilities of stars."""
    return Ngrams(np.asarray(weights, np.int8), scale, STAR_WEIGHTS)
