"""How well the model predicts: the cost of every symbol, in bits."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F

from .language_model import LanguageModel, Weights
from .text.ragged import Batch, ragged_batches


def token_costs(
    model: LanguageModel, sequences: Sequence[np.ndarray], *, batch_size: int, block: int = 128
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Yield (rows, costs) batch by batch: bits for every symbol of every sequence.

    sequences: symbols [n] each, read from the zero state. costs: one float32 [n] per row. The first
    one is predicted too, by the zero state, that is by the decoder's bias alone.
    """
    # The last symbol is predicted and never read.
    lengths = [max(len(sequence) - 1, 0) for sequence in sequences]
    with torch.inference_mode():
        weights = model.fold()
        for batch in ragged_batches(lengths, batch_size, block):
            yield batch.rows, _walk(model, weights, sequences, batch)


def _walk(
    model: LanguageModel, weights: Weights, sequences: Sequence[np.ndarray], batch: Batch
) -> list[np.ndarray]:
    device = model.embedding.weight.device
    first = (-F.log_softmax(weights.b_out, dim=0) / math.log(2)).float().cpu().numpy()  # [V]
    costs = [np.empty(len(sequences[row]), dtype=np.float32) for row in batch.rows]
    for row, cost in zip(batch.rows, costs, strict=True):
        cost[:1] = first[sequences[row][:1]]
    state = model.initial_state(len(batch.rows))
    for start, stop, active in batch.spans:
        read = [sequences[row][start : stop + 1] for row in batch.rows[:active]]
        tokens = torch.from_numpy(np.stack(read).astype(np.int64)).to(device)  # [active, T + 1]
        logits, state = model(tokens[:, :-1], state.narrow(active), weights)
        nats = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
        bits = (nats / math.log(2)).float().cpu().numpy()  # [active, T]
        for cost, row_bits in zip(costs[:active], bits, strict=True):
            cost[start + 1 : stop + 1] = row_bits
    return costs
