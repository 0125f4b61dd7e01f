"""The values of single units after every byte of a text."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..engine.kinds import FeatureKind, StateName
from ..layers.language_model import LanguageModel
from ..text.split import ragged_batches
from ..text.tokenizer import Tokenizer

BATCH_SIZE = 64  # sequences read at once


class ByteState(NamedTuple):
    """Every unit's value after one more byte of some sequences."""

    indices: np.ndarray  # indices of its rows' sequences in the caller's list
    position: int  # of the byte in each of them
    values: Tensor  # fp32 [len(indices), H]


def iter_states(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    *,
    state: StateName = "cell",
    layer: int = -1,
) -> Iterator[ByteState]:
    """Yield the state after every byte of every sequence, read from the zero state.

    sequences: tokens [n] each. Memory does not grow with their length. The values are those of
    `model.step`, byte by byte: reading a window would give the cell state only after its last byte.
    """
    model.config.check_unit(0, layer)
    FeatureKind(state=state)  # refuses any other word
    device = model.embedding.weight.device
    weights = model.prepare_weights()
    for batch in ragged_batches([len(sequence) for sequence in sequences], BATCH_SIZE, block=128):
        now = model.initial_state(len(batch.indices))
        for start, stop, active in batch.spans:
            indices, now = batch.indices[:active], now.select(slice(active))
            window = np.stack([sequences[index][start:stop] for index in indices]).astype(np.int64)
            tokens = torch.from_numpy(window).to(device)  # [active, stop - start]
            for offset in range(stop - start):
                _, now = model.hidden(tokens[:, offset : offset + 1], now, weights)
                yield ByteState(indices, start + offset, now.features(state)[layer].float())


@torch.inference_mode()
def trace(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    units: Sequence[int] | None = None,
    *,
    state: StateName = "cell",
    layer: int = -1,
    advance: Callable[[int], object] = lambda bytes_read: None,
) -> list[np.ndarray]:
    """Return the units' values after every byte: float32 [n, U] for each sequence.

    units: in the order wanted; None: all H. advance: called with the number of bytes read since
    its last call, for a progress bar. Raises InputError for a unit that the model lacks, and for a
    state other than "cell" and "hidden".
    """
    units = range(model.config.hidden_size) if units is None else units
    for unit in units:
        model.config.check_unit(unit, layer)
    index = torch.tensor(list(units), dtype=torch.long, device=model.embedding.weight.device)
    values = [np.empty((len(sequence), len(index)), np.float32) for sequence in sequences]
    for step in iter_states(model, sequences, state=state, layer=layer):
        chosen = step.values[:, index].cpu().numpy()  # [active, U]
        for row, row_values in zip(step.indices, chosen, strict=True):
            values[row][step.position] = row_values
        advance(len(step.indices))
    return values


@torch.inference_mode()
def highest_variance_units(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    count: int,
    *,
    state: StateName = "cell",
    layer: int = -1,
    advance: Callable[[int], object] = lambda bytes_read: None,
) -> list[int]:
    """Return the `count` units whose values vary most, the largest variance first; see `trace`."""
    bytes_read = 0
    mean = torch.zeros(model.config.hidden_size, dtype=torch.float64, device="cpu")
    squares = torch.zeros_like(mean)  # sum of squared distances from the mean
    for step in iter_states(model, sequences, state=state, layer=layer):
        values = step.values.cpu().double()  # [active, H]
        # Chan et al. 1979: combines the moments of two sets without cancellation.
        added, batch_mean = len(values), values.mean(dim=0)
        difference = batch_mean - mean
        total = bytes_read + added
        squares += (values - batch_mean).square().sum(dim=0)
        squares += difference.square() * (bytes_read * added / total)
        mean += difference * (added / total)
        bytes_read = total
        advance(added)
    order = torch.argsort(squares, descending=True, stable=True)
    return [int(unit) for unit in order[:count]]


def values_per_byte(tokenizer: Tokenizer, tokens: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the values of each byte, [bytes, U], from those after each of the tokens [n, U].

    A byte gets the values after its token, but white space that begins a token those before it.
    """
    zero = np.zeros_like(values[:1])  # the state before the text
    return np.concatenate([zero, values])[_steps_of_bytes(tokenizer, tokens)]


def _steps_of_bytes(tokenizer: Tokenizer, tokens: np.ndarray) -> np.ndarray:
    """Return for each byte after how many of the tokens [n] its values come, int64 [bytes]."""
    spellings = [tokenizer.spellings[token] for token in tokens.tolist()]
    steps = [
        [step] * len(blank) + [step + 1] * (len(spelling) - len(blank))
        for step, (spelling, blank) in enumerate(zip(spellings, map(_lead, spellings), strict=True))
    ]
    return np.array(list(chain.from_iterable(steps)), dtype=np.int64)


def _lead(spelling: bytes) -> bytes:
    """Return the white space before the letters of a token; none if there are no letters."""
    letters = spelling.lstrip()
    return spelling[: len(spelling) - len(letters)] if letters else b""
