"""How well the model predicts: the bits that every token costs."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError
from ..layers.language_model import LanguageModel, Weights
from ..text.split import RaggedBatch, Split, ragged_batches, shard_bounds

Reset = Literal["strip", "review"]
_STRIP_TOKENS = 20_000  # a cold start costs some tens of bits: negligible in a strip of this length
# Tokens before a shorter strip that are processed but not scored. With them, a score differs from
# that of one lane by less than 1e-5 bits.
_WARM_UP = 500
_SHORTEST_STRIP = 500  # tokens
_MAX_STRIPS = 64


class Evaluation(NamedTuple):
    """A score and its uncertainty."""

    bits_per_character: float
    characters: int
    standard_error: float | None  # of the bits per character, over reviews
    cold_starts: int  # how often the state was zero


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
    # The last token is predicted but never read.
    lengths = [max(len(sequence) - 1, 0) for sequence in sequences]
    with torch.inference_mode():
        weights = model.prepare_weights()
        for batch in ragged_batches(lengths, batch_size, block):
            yield batch.indices, _process_batch(model, weights, sequences, batch, advance)


def _process_batch(
    model: LanguageModel,
    weights: Weights,
    sequences: Sequence[np.ndarray],
    batch: RaggedBatch,
    advance: Callable[[int], object],
) -> list[np.ndarray]:
    device = model.embedding.weight.device
    first = (-F.log_softmax(weights.b_out, dim=0) / math.log(2)).float().cpu().numpy()  # [V]
    costs = [np.empty(len(sequences[row]), dtype=np.float32) for row in batch.indices]
    for row, cost in zip(batch.indices, costs, strict=True):
        cost[:1] = first[sequences[row][:1]]
    state = model.initial_state(len(batch.indices))
    for start, stop, active in batch.spans:
        read = [sequences[row][start : stop + 1] for row in batch.indices[:active]]
        tokens = torch.from_numpy(np.stack(read).astype(np.int64)).to(device)  # [active, T + 1]
        h, state = model.hidden(tokens[:, :-1], state.select(slice(active)), weights)
        nats = _nats(model, weights, h, tokens[:, 1:])
        bits = (nats / math.log(2)).float().cpu().numpy()  # [active, T]
        for cost, row_bits in zip(costs[:active], bits, strict=True):
            cost[start + 1 : stop + 1] = row_bits
        advance(active * (stop - start))
    return costs


def _nats(model: LanguageModel, weights: Weights, h: Tensor, targets: Tensor) -> Tensor:
    """Return what predicting targets [B, T] from h [T, B, H] costs, [B, T]."""
    costs = [
        F.cross_entropy(logits.permute(1, 2, 0), targets[:, piece], reduction="none")
        for piece, logits in model.decode_in_pieces(h, weights)
    ]
    return torch.cat(costs, dim=1)


def score_split(
    model: LanguageModel,
    split: Split,
    *,
    lanes: int | None = None,
    reset: Reset = "strip",
    advance: Callable[[float], object] = lambda tokens: None,
) -> Evaluation:
    """Score a split in one process, with a standard error over reviews; see `split_costs`."""
    costs, pieces = split_costs(model, split, lanes=lanes, reset=reset, advance=advance)
    per_review = sums_between(costs.astype(np.float64), split.offsets)
    lengths = split.tokenizer.byte_lengths(split.tokens)
    per_review_bytes = sums_between(lengths.astype(np.int64), split.offsets)
    characters = int(per_review_bytes.sum())
    if characters == 0:
        raise InputError("nothing to score: the texts are empty after the model's text profile")
    ratio = float(per_review.sum() / characters)
    error = None  # of a ratio of sums over reviews
    if len(per_review) > 1:
        residuals = per_review - ratio * per_review_bytes
        error = float(np.sqrt(len(per_review) * residuals.var(ddof=1)) / characters)
    return Evaluation(ratio, characters, error, pieces)


def split_costs(
    model: LanguageModel,
    split: Split,
    *,
    lanes: int | None = None,
    reset: Reset = "strip",
    advance: Callable[[float], object] = lambda tokens: None,
) -> tuple[np.ndarray, int]:
    """Return the bits of every token of a split, float32 [n], and how many zero states it took.

    reset: "strip" cuts the split into `lanes` strips, and carries the state from review to review
    within each; one lane is the whole split in file order. If `lanes` is None, the number is
    chosen, and short strips begin with the state after the text before them. "review" starts every
    review from the zero state, `lanes` of them in parallel. advance: as for `token_costs`.
    """
    if lanes is not None and lanes < 1:
        raise InputError(f"--lanes is {lanes}; it must be at least 1")
    split.check()
    starts, firsts, ends = _pieces(split, lanes, reset)
    sequences = [split.tokens[a:b] for a, b in zip(starts, ends, strict=True)]
    costs: list[np.ndarray] = [np.empty(0)] * len(sequences)
    # token_costs reports the text before a strip, too, but no first tokens: scaled to the split.
    read = sum(max(len(sequence) - 1, 0) for sequence in sequences)
    scale = len(split.tokens) / max(read, 1)

    def report(tokens: int) -> None:
        split.check()
        advance(scale * tokens)

    scored = token_costs(model, sequences, batch_size=lanes or _MAX_STRIPS, advance=report)
    for rows, batch in scored:
        for row, cost in zip(rows, batch, strict=True):
            costs[row] = cost[firsts[row] - starts[row] :]
    return np.concatenate(costs), int((starts == firsts).sum())


def _pieces(
    split: Split, lanes: int | None, reset: Reset
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each piece the starts of reading and of scoring, and its end: int64 [N] each."""
    if reset == "review":
        return split.offsets[:-1], split.offsets[:-1], split.offsets[1:]
    size = len(split.tokens)
    strips = lanes or min(max(1, size // _SHORTEST_STRIP), _MAX_STRIPS)
    bounds = shard_bounds(split, min(strips, split.reviews))
    is_short = lanes is None and size < _MAX_STRIPS * _STRIP_TOKENS
    starts = np.maximum(bounds[:-1] - _WARM_UP, 0) if is_short else bounds[:-1]
    return starts, bounds[:-1], bounds[1:]


def sums_between(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the sum of values [n] from each of the bounds [N + 1] to the next, [N].

    `reduceat` alone would give an empty review (which a text profile may leave) the first value of
    its neighbour.
    """
    sums = np.zeros(len(bounds) - 1, dtype=values.dtype)
    full = np.diff(bounds) > 0
    sums[full] = np.add.reduceat(values, bounds[:-1][full])
    return sums
