"""Texts to final cell states, with a gradient: each read whole, none padded.

Where a text is longer than the window, what comes before its last `window` symbols is read without
a gradient (truncated back-propagation), so that features are those of `model.features` whatever the
length, and memory is bounded. Rows of a batch stand side by side and leave as they end: what a text
gives does not depend on the others.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from model.features import features_in_order
from model.fused.cuda.graphs import without_graphs
from model.language_model import LanguageModel, Weights
from model.state import State
from model.text.ragged import ragged_batches
from training.objective import IGNORED, linear_cross_entropy

BLOCK = 128  # symbols that are read at once where there is no gradient


class Encoded(NamedTuple):
    """What a batch of texts has become."""

    cells: Tensor  # [B, H], the last layer's cell state after each text, in the order given
    nats: Tensor  # of every symbol that was predicted, summed; zero unless asked for
    symbols: int  # how many those were


class LearningEncoder:
    """A model that learns while it reads."""

    def __init__(self, model: LanguageModel, window: int, *, predicts: bool):
        self.model, self.window, self.predicts = model, window, predicts

    def encode(self, sequences: Sequence[np.ndarray], rows: np.ndarray) -> Encoded:
        """Read sequences[rows], symbols [n] each."""
        with without_graphs():  # captured graphs are for a few sizes that come again
            return encode([sequences[row] for row in rows], self.model, self.window, self.predicts)

    def features(self, name: str, sequences: Sequence[np.ndarray]) -> np.ndarray:
        """Return float32 [N, H], without a gradient."""
        return features_in_order(self.model, sequences)


class FrozenEncoder:
    """A model that stays as it is: every text is read once."""

    def __init__(
        self, compute: Callable[[str, Sequence[np.ndarray]], np.ndarray], device: torch.device
    ):
        self._compute, self._device = compute, device
        self._known: dict[str, np.ndarray] = {}

    def encode(self, sequences: Sequence[np.ndarray], rows: np.ndarray) -> Encoded:
        """Look up what training texts gave."""
        cells = torch.from_numpy(self.features("train", sequences)[rows]).to(self._device)
        return Encoded(cells, cells.new_zeros(()), 0)

    def features(self, name: str, sequences: Sequence[np.ndarray]) -> np.ndarray:
        """Return float32 [N, H] of the part of this name."""
        if name not in self._known:
            self._known[name] = self._compute(name, sequences)
        return self._known[name]


def encode(
    sequences: Sequence[np.ndarray], model: LanguageModel, window: int, predicts: bool
) -> Encoded:
    """Read sequences, symbols [n] each, from the zero state; gradients flow back `window` symbols.

    predicts: also score every symbol of the window but its first, given those before it.
    """
    weights = model.fold()
    starts = [max(len(sequence) - window, 0) for sequence in sequences]
    state = model.initial_state(len(sequences))
    if any(starts):
        heads = [sequence[:start] for sequence, start in zip(sequences, starts, strict=True)]
        with torch.no_grad():
            state, _, _ = _read(heads, model, weights, state, BLOCK)
    tails = [sequence[start:] for sequence, start in zip(sequences, starts, strict=True)]
    state, nats, symbols = _read(tails, model, weights, state, window, predicts)
    return Encoded(state.features("cell")[-1], nats, symbols)


def _read(
    sequences: Sequence[np.ndarray],
    model: LanguageModel,
    weights: Weights,
    state: State,
    block: int,
    predicts: bool = False,
) -> tuple[State, Tensor, int]:
    """Return every row's state after its own last symbol, and what predicting cost."""
    (batch,) = ragged_batches([len(s) for s in sequences], len(sequences), block)
    order = torch.from_numpy(batch.indices).to(weights.b_out.device)
    state = state.select(order)
    nats, symbols = weights.b_out.new_zeros(()), 0
    ended: list[State] = []  # the shortest rows first
    for start, stop, active in batch.spans:
        if active < state.lanes:
            ended.append(state.select(slice(active, None)))
        rows = [sequences[row] for row in batch.indices[:active]]
        tokens = torch.from_numpy(np.stack([r[start:stop] for r in rows]).astype(np.int64))
        h, state = model.hidden(tokens.to(order.device), state.select(slice(active)), weights)
        if predicts:
            targets = _targets(rows, start, stop)  # [active, T]
            symbols += int((targets != IGNORED).sum())
            flat = targets.t().flatten().to(order.device)
            nats = nats + linear_cross_entropy(h.flatten(0, 1), weights.w_out, weights.b_out, flat)
    state = State.join([state, *reversed(ended)])
    return state.select(torch.argsort(order)), nats, symbols


def _targets(rows: Sequence[np.ndarray], start: int, stop: int) -> Tensor:
    """Return the symbol after each of start to stop, [B, T]; the last of a text has none."""
    targets = np.full((len(rows), stop - start), IGNORED, dtype=np.int64)
    for target, row in zip(targets, rows, strict=True):
        following = row[start + 1 : stop + 1]
        target[: len(following)] = following
    return torch.from_numpy(targets)
