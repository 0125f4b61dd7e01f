"""Encodes texts to features with a gradient; texts are neither cut nor padded.

If a text is longer than the window, all but its last `window` tokens are read without a gradient
(truncated back-propagation). So features are those of `model.inference.features` whatever the
length, and memory is bounded. Rows of a batch are processed together and removed as they end, so a
text's features do not depend on the others.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from mlstm_sentiment.errors import TimeIsUp
from mlstm_sentiment.reading.progress import ProgressBar
from mlstm_sentiment.text.split import ragged_batches
from model.inference.features import Batch, features_in_order
from model.kernels.triton.graphs import without_graphs
from model.layers.language_model import LanguageModel, Weights
from model.state import State

BLOCK = 128  # tokens per call without a gradient


def features_of(
    model: LanguageModel,
    name: str,
    sequences: Sequence[np.ndarray],
    is_time_up: Callable[[], bool] = lambda: False,
) -> np.ndarray:
    """Return the features float32 [N, F], without a gradient, and show progress under a name.

    Raises TimeIsUp once `is_time_up()`.
    """

    def advance(tokens: int) -> None:
        progress.advance(tokens)
        if is_time_up():
            raise TimeIsUp

    with ProgressBar(name, sum(map(len, sequences))) as progress:
        return features_in_order(model, sequences, advance=advance)


@without_graphs()  # captured graphs are for a few recurring sizes
def encode(sequences: Sequence[np.ndarray], model: LanguageModel, window: int) -> Tensor:
    """Return the features [B, F] of sequences, tokens [n] each, in the order given.

    They are read from the zero state; gradients flow back `window` tokens.
    """
    weights = model.prepare_weights()
    starts = [max(len(sequence) - window, 0) for sequence in sequences]
    state = model.initial_state(len(sequences))
    if any(starts):
        heads = [sequence[:start] for sequence, start in zip(sequences, starts, strict=True)]
        with torch.no_grad():
            state = _read(heads, model, weights, state, BLOCK)
    tails = [sequence[start:] for sequence, start in zip(sequences, starts, strict=True)]
    features = _read(tails, model, weights, state, window).features("cell")[-1]
    return features.to(torch.promote_types(features.dtype, torch.float32))


def _read(
    sequences: Sequence[np.ndarray],
    model: LanguageModel,
    weights: Weights,
    state: State,
    block: int,
) -> State:
    """Return every row's state after its last token."""
    (batch,) = ragged_batches([len(s) for s in sequences], len(sequences), block)
    order = torch.from_numpy(batch.indices).to(weights.b_out.device)
    process = Batch(model, weights, sequences, batch, state.select(order))
    for _ in process.windows(None):
        pass
    return process.final().select(torch.argsort(order))
