"""The bits that every token costs, from the network in PyTorch, batch by batch."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mlstm_sentiment.text.split import ragged_batches

from ..layers.language_model import LanguageModel
from .features import prepare_weights, read


def token_costs(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    *,
    batch_size: int,
    block: int = 128,
    advance: Callable[[int], object] = lambda tokens: None,
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Yield (indices, costs) batch by batch: the bits of every token of every sequence.

    sequences: tokens [n] each, processed from the zero state; `indices` are positions in this list.
    batch_size, block: rows and tokens processed together. advance: called with the number of tokens
    scored since its last call, for a progress bar. Yields costs, one float32 [n] per row. The first
    token is predicted from the zero state, that is by the decoder's bias alone.
    """
    weights = prepare_weights(model)
    for batch in ragged_batches([len(sequence) for sequence in sequences], batch_size, block):
        rows = [sequences[index] for index in batch.indices]
        reading = read(
            model,
            rows,
            bits=True,
            batch_size=batch_size,
            block=block,
            weights=weights,
            advance=advance,
        )
        assert reading.token_bits is not None
        yield batch.indices, reading.token_bits
