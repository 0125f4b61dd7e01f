"""Encodes texts to features with a gradient; texts are neither cut nor padded.

If a text is longer than the window, all but its last `window` tokens are read without a gradient
(truncated back-propagation). So features are those of `model.inference.features` whatever the
length, and memory is bounded. Rows of a batch are processed together and removed as they end, so a
text's features do not depend on the others.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mlstm_sentiment.engine.kinds import FINAL_CELL, FeatureKind
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.progress import ProgressBar
from mlstm_sentiment.text.split import ragged_batches
from model.inference.features import features_in_order
from model.kernels.triton.graphs import without_graphs
from model.layers.language_model import LanguageModel, Weights
from model.state import IGNORED, State
from training.objective import linear_cross_entropy

BLOCK = 128  # tokens per call without a gradient


class Encoded(NamedTuple):
    """The result of reading a batch of texts."""

    features: Tensor  # [B, F], in the order given
    nats: Tensor  # summed over all predicted tokens; zero unless asked for
    tokens: int  # how many tokens were predicted, as the encoder counts them


class LearningEncoder:
    """A model that learns while it reads.

    kind: the features: the last state, the mean of the last layer's hidden states, or both;
    InputError for others. count: counts predicted tokens; the language model's loss is divided by
    it, and a tokenizer's `count_bytes` makes it nats per byte.
    """

    def __init__(
        self,
        model: LanguageModel,
        window: int,
        *,
        predicts: bool,
        kind: FeatureKind = FINAL_CELL,
        count: Callable[[np.ndarray], int] = len,
    ):
        is_last = kind.layers_of(model.config) == [model.config.layers - 1]
        of_window = is_last and model.initial_state(1).is_output(kind.state)
        if not set(kind.poolings) <= ({"last", "mean"} if of_window else {"last"}):
            raise InputError(f"{kind}: fine-tuning cannot learn such features")
        self.model, self.window, self.predicts = model, window, predicts
        self.kind, self.count = kind, count

    def encode(self, sequences: Sequence[np.ndarray], rows: np.ndarray) -> Encoded:
        """Read sequences[rows], tokens [n] each."""
        texts = [sequences[row] for row in rows]
        with without_graphs():  # captured graphs are for a few recurring sizes
            return encode(texts, self.model, self.window, self.predicts, self.kind, self.count)

    def features(self, name: str, sequences: Sequence[np.ndarray]) -> np.ndarray:
        """Return float32 [N, F], without a gradient."""
        return read_features(self.model, name, sequences, self.kind)


class FrozenEncoder:
    """A frozen model: every text is encoded once."""

    def __init__(
        self, compute: Callable[[str, Sequence[np.ndarray]], np.ndarray], device: torch.device
    ):
        self._compute, self._device = compute, device
        self._cache: dict[str, np.ndarray] = {}

    def encode(self, sequences: Sequence[np.ndarray], rows: np.ndarray) -> Encoded:
        """Look up the features of training texts."""
        features = torch.from_numpy(self.features("train", sequences)[rows]).to(self._device)
        return Encoded(features, features.new_zeros(()), 0)

    def features(self, name: str, sequences: Sequence[np.ndarray]) -> np.ndarray:
        """Return float32 [N, F] of the split with this name."""
        if name not in self._cache:
            self._cache[name] = self._compute(name, sequences)
        return self._cache[name]


def read_features(
    model: LanguageModel, name: str, sequences: Sequence[np.ndarray], kind: FeatureKind = FINAL_CELL
) -> np.ndarray:
    """Return float32 [N, F], without a gradient, and show the progress under a name."""
    with ProgressBar(name, sum(map(len, sequences))) as progress:
        return features_in_order(model, sequences, kind=kind, advance=progress.advance)


def encode(
    sequences: Sequence[np.ndarray],
    model: LanguageModel,
    window: int,
    predicts: bool,
    kind: FeatureKind = FINAL_CELL,
    count: Callable[[np.ndarray], int] = len,
) -> Encoded:
    """Read sequences, tokens [n] each, from the zero state; gradients flow back `window` tokens.

    predicts: also score every token of the window but its first.
    """
    weights = model.prepare_weights()
    starts = [max(len(sequence) - window, 0) for sequence in sequences]
    state = model.initial_state(len(sequences))
    total = weights.b_out.new_zeros(len(sequences), kind.width(model.config))
    if any(starts):
        heads = [sequence[:start] for sequence, start in zip(sequences, starts, strict=True)]
        with torch.no_grad():
            state, total, _ = _read(heads, model, weights, state, total, BLOCK, kind)
    tails = [sequence[start:] for sequence, start in zip(sequences, starts, strict=True)]
    state, total, nats = _read(tails, model, weights, state, total, window, kind, predicts)
    lengths = torch.tensor([[max(len(sequence), 1)] for sequence in sequences])  # [B, 1]
    states = state.features(kind.state)[kind.layers_of(model.config)]
    pooled = {"last": _features(kind, model, states), "mean": total / lengths.to(total.device)}
    features = torch.cat([pooled[pooling] for pooling in kind.poolings], dim=1)
    return Encoded(features, nats, sum(count(tail[1:]) for tail in tails if predicts))


def _read(
    sequences: Sequence[np.ndarray],
    model: LanguageModel,
    weights: Weights,
    state: State,
    total: Tensor,
    block: int,
    kind: FeatureKind,
    predicts: bool = False,
) -> tuple[State, Tensor, Tensor]:
    """Return every row's state after its last token, `total`, and the cost of predicting.

    total: [B, F'], the sum of the features over the states that `kind` averages.
    """
    (batch,) = ragged_batches([len(s) for s in sequences], len(sequences), block)
    order = torch.from_numpy(batch.indices).to(weights.b_out.device)
    state, total = state.select(order), total[order]
    nats = weights.b_out.new_zeros(())
    ended: list[State] = []  # the shortest rows first
    for start, stop, active in batch.spans:
        if active < state.lanes:
            ended.append(state.select(slice(active, None)))
        rows = [sequences[row] for row in batch.indices[:active]]
        tokens = torch.from_numpy(np.stack([r[start:stop] for r in rows]).astype(np.int64))
        h, state = model.hidden(tokens.to(order.device), state.select(slice(active)), weights)
        if "mean" in kind.poolings:
            summed = _features(kind, model, h[None]).sum(0)
            total = torch.cat([total[:active] + summed, total[active:]])
        if predicts:
            flat = _targets(rows, start, stop).t().flatten().to(order.device)
            nats = nats + linear_cross_entropy(h.flatten(0, 1), weights.w_out, weights.b_out, flat)
    state, back = State.join([state, *reversed(ended)]), torch.argsort(order)
    return state.select(back), total[back], nats


def _features(kind: FeatureKind, model: LanguageModel, states: Tensor) -> Tensor:
    """Return the features [..., F'] of the states of some layers, [layers, ..., H]."""
    values = torch.cat(list(states[..., kind.units_of(model.config)]), dim=-1)
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    return values.tanh() if kind.tanh else values


def _targets(rows: Sequence[np.ndarray], start: int, stop: int) -> Tensor:
    """Return the token after each of start to stop, [B, T]; a text's last token has none."""
    targets = np.full((len(rows), stop - start), IGNORED, dtype=np.int64)
    for target, row in zip(targets, rows, strict=True):
        following = row[start + 1 : stop + 1]
        target[: len(following)] = following
    return torch.from_numpy(targets)
