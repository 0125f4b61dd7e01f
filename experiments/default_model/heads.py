"""Parts of a head that predicts stars, while it is made."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TypeVar

import numpy as np

from model.classifiers.head import Head
from model.classifiers.steps import Batch, Stars, Step

ORDER = (
    *("standardize", "affine", "probabilities", "ngrams", "stars", "neutral", "positive"),
    *("calibration", "sigmoid"),
)
Kind = TypeVar("Kind", bound=Step)


def of_each_star(
    head: Head, features: np.ndarray, texts: Sequence[str] | None = None
) -> np.ndarray:
    """Return the probabilities of one to five stars, float64 [N, 5], not calibrated."""
    batch = Batch(values=features.astype(np.float64), texts=texts)
    for step in takewhile(lambda step: step.NAME != Stars.NAME, head.steps):
        batch = step.apply(batch)
    return batch.values


def part(head: Head, kind: type[Kind]) -> Kind | None:
    """Return the step of a kind; None if the head has none."""
    return next((step for step in head.steps if type(step) is kind), None)


def with_part(head: Head, step: Step) -> Head:
    """Return the head with another step of its kind, or with one more."""
    steps = {**{each.NAME: each for each in head.steps}, step.NAME: step}
    return replace(head, steps=tuple(steps[name] for name in ORDER if name in steps))


def without_part(head: Head, kind: type[Step]) -> Head:
    """Return the head without its step of a kind."""
    return replace(head, steps=tuple(step for step in head.steps if type(step) is not kind))


def network_arrays(head: Head) -> dict[str, np.ndarray]:
    """Return a linear head's arrays by the names that `transfer.finetuning.heads` gives them."""
    scaler, affine = head.steps[:2]
    return {
        **scaler.arrays(),
        **{f"heads.{name}": array for name, array in affine.arrays().items()},
    }
