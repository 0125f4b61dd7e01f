"""The lists of steps of the heads that this project trains."""

from collections.abc import Mapping
from itertools import count

import numpy as np

from ..engine.kinds import Pooling, StateName
from .steps import (
    Affine,
    Calibration,
    LogOdds,
    Neutral,
    Ngrams,
    Positive,
    PReLU,
    Probabilities,
    Sigmoid,
    Standardize,
    Stars,
    Step,
)

STAR_WEIGHTS = (0.0, 0.0, 0.5, 1.0, 1.0)  # how positive one to five stars are
STAR_STATE: StateName = "hidden"  # the features of a head that predicts stars
STAR_POOLING: tuple[Pooling, ...] = ("last", "mean")


def tuned_steps(
    arrays: Mapping[str, np.ndarray], classes: int, *, exclusive: bool
) -> tuple[Step, ...]:
    """Return the steps of fine-tuned heads between C classes, by the tensors of the network."""
    smallest = float(np.finfo(float).tiny)  # whose logarithm is still finite
    is_binary = exclusive and classes == 2
    last = Positive((0.0, 1.0), smallest) if is_binary else LogOdds()
    return (*_layers(arrays, classes, exclusive=exclusive), last, Sigmoid())


def star_steps(
    arrays: Mapping[str, np.ndarray],
    calibration: Calibration,
    ngrams: Ngrams | None = None,
    neutral: Neutral | None = None,
) -> tuple[Step, ...]:
    """Return the steps of a head that predicts one to five stars. Three stars are half positive."""
    parts = [ngrams, Stars(), neutral, Positive(STAR_WEIGHTS), calibration, Sigmoid()]
    network = _layers(arrays, len(STAR_WEIGHTS), exclusive=True)
    return (*network, *(part for part in parts if part is not None))


def _layers(arrays: Mapping[str, np.ndarray], classes: int, *, exclusive: bool) -> list[Step]:
    """Return the steps of a small network, by the tensors of `transfer.finetuning.heads`.

    Features are standardized; each hidden layer ends in a PReLU; the last layer has several heads
    for each class.
    """
    steps: list[Step] = [Standardize(arrays["center"], arrays["scale"])]
    for index in count():
        name = f"hidden.{index}."
        if name + "weight" not in arrays:
            break
        slope = float(arrays[f"activations.{index}.weight"].item())
        steps += [Affine(arrays[name + "weight"], arrays[name + "bias"]), PReLU(slope)]
    last = Affine(arrays["heads.weight"], arrays["heads.bias"])
    return [*steps, last, Probabilities(classes, exclusive)]
