"""The features of texts, from any model."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .interface import Reading, TextModel
from .kinds import FINAL_CELL, FeatureKind

NUMBERS_AT_ONCE = 1 << 22
"""The most features that are in memory at once, for all texts together."""


def read_features(
    model: TextModel, sequences: Sequence[np.ndarray], kind: FeatureKind, **options: Any
) -> tuple[np.ndarray, Reading]:
    """Return the features of texts, float32 [N, F], and what else was asked for.

    sequences: tokens [n] of each text. options: those of `read`. Raises InputError if a feature is
    not finite.
    """
    architecture = model.architecture
    layers = kind.layers_of(architecture)
    reading = model.read(
        sequences, kind.poolings, state=kind.state, layers=layers, tanh=kind.tanh, **options
    )
    return kind.chosen(architecture, reading, model.precision), reading


def features_in_parts(
    model: TextModel,
    sequences: Sequence[np.ndarray],
    kind: FeatureKind = FINAL_CELL,
    advance: Callable[[int], object] | None = None,
) -> Iterator[np.ndarray]:
    """Yield the features of some texts at a time, in order: few enough to be in memory together.

    advance: called with the number of tokens just processed, for a progress bar.
    """
    step = max(NUMBERS_AT_ONCE // kind.size(model.architecture), 1)
    for first in range(0, len(sequences), step):
        part = sequences[first : first + step]
        yield read_features(model, part, kind, advance=advance)[0]
