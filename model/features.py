"""Texts to features: the state of the model after it has read them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Literal

import numpy as np
import torch

from .errors import InputError
from .language_model import LanguageModel, Weights
from .ragged import Batch, ragged_batches
from .state import State

StateName = Literal["cell", "hidden"]


def final_states(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    *,
    state: StateName = "cell",
    batch_size: int = 128,
    block: int = 128,
    skip: int = 0,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (rows, features) batch by batch, longest sequences first.

    sequences: uint8 [n] each. rows: indices into them; features: float32 [len(rows), H], the last
    layer's state after the last byte; raw, without the tanh of Radford et al.'s text, as both
    released codes have it. Independent of `batch_size` and of the order of the sequences.
    The first `skip` batches are left out: somebody has them already.
    """
    if batch_size < 1:
        raise InputError(f"batch size is {batch_size}; it must be at least 1")
    lengths = [len(sequence) for sequence in sequences]
    with torch.inference_mode():
        weights = model.fold()
        for batch in islice(ragged_batches(lengths, batch_size, block), skip, None):
            yield batch.rows, _walk(model, weights, sequences, batch, state)


def features_in_order(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    *,
    state: StateName = "cell",
    batch_size: int = 128,
    advance: Callable[[int], object] | None = None,
) -> np.ndarray:
    """Return float32 [N, H], the final state of every sequence in the order given.

    `advance` is told how many sequences each batch has finished, for a progress bar.
    """
    features = np.zeros((len(sequences), model.config.hidden_size), dtype=np.float32)
    for rows, values in final_states(model, sequences, state=state, batch_size=batch_size):
        features[rows] = values
        if advance is not None:
            advance(len(rows))
    return features


def _walk(
    model: LanguageModel,
    weights: Weights,
    sequences: Sequence[np.ndarray],
    batch: Batch,
    state_name: StateName,
) -> np.ndarray:
    device = model.embedding.weight.device
    state = model.initial_state(len(batch.rows))
    features = np.zeros((len(batch.rows), model.config.hidden_size), dtype=np.float32)
    for start, stop, active in batch.spans:
        rows = batch.rows[:active]
        tokens = np.stack([sequences[row][start:stop] for row in rows]).astype(np.int64)
        _, state = model.hidden(
            torch.from_numpy(tokens).to(device), state.narrow(active), weights
        )  # [L, active, H]
        features[:active] = _last_layer(state, state_name)
    return features


def _last_layer(state: State, name: StateName) -> np.ndarray:
    chosen = state.c if name == "cell" else state.h
    return chosen[-1].float().cpu().numpy()
