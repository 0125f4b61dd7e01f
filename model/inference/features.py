"""Texts through the network in PyTorch: the same states, features and bits as the engine's."""

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mlstm_sentiment.engine.interface import Reading
from mlstm_sentiment.engine.kinds import (
    FINAL_CELL,
    FeatureKind,
    Pooling,
    StateName,
    check_tokens,
    checked_request,
)
from mlstm_sentiment.engine.request import Clamp
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.split import RaggedBatch, ragged_batches

from ..layers.language_model import LanguageModel, Weights
from ..state import IGNORED, State, dtype_name


@torch.inference_mode()
def read(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    pooling: Sequence[Pooling] = (),
    *,
    state: StateName = "hidden",
    layers: Sequence[int] | None = None,
    tanh: bool = False,
    units: Sequence[int] | None = None,
    bits: bool = False,
    initial: State | None = None,
    final: bool = False,
    clamp: Clamp | None = None,
    batch_size: int = 128,
    block: int = 128,
    weights: Weights | None = None,
    advance: Callable[[int], object] | None = None,
) -> Reading:
    """Process N texts, tokens [n] each, as `Engine.read` does.

    batch_size, block: rows and tokens processed together; they change the speed, not the results.
    weights: prepared in inference mode; None: prepared for this call. Memory does not grow with the
    lengths, but for `units` and `bits`.
    """
    L, H = model.config.layers, model.config.hidden_size
    check_tokens(sequences, model.config)
    chosen, units = checked_request(model.config, pooling, state, layers, units)
    if initial is not None and initial.lanes != len(sequences):
        raise InputError(f"the state is of {initial.lanes} texts, not of {len(sequences)}")
    if clamp is not None:
        model.config.check_clamp(clamp.unit, clamp.layer)
    lengths = [len(sequence) for sequence in sequences]
    shape = len(sequences), len(chosen) * H
    pooled = {name: np.zeros(shape, np.float32) for name in pooling}
    shown = None
    if units is not None:
        shown = [np.empty((length, len(chosen) * len(units)), np.float32) for length in lengths]
    costs = [np.empty(length, np.float32) for length in lengths] if bits else None
    weights = weights or model.prepare_weights()
    states = []
    batches = list(ragged_batches(lengths, batch_size, block))
    for batch in batches:
        rows = torch.from_numpy(batch.indices).to(model.embedding.weight.device)
        begin = model.initial_state(len(rows)) if initial is None else initial.select(rows)
        process = Batch(model, weights, sequences, batch, begin, clamp, costs)
        pools = {name: Pool(name, len(rows), shape[1], rows.device) for name in pooling}
        of_window = clamp is None and chosen == [L - 1] and begin.is_output(state)
        is_whole = of_window or (clamp is None and units is None and set(pooling) <= {"last"})
        for start, h, now in process.windows(None if is_whole else 1):
            if pools or units is not None:
                values = h
                if not of_window:
                    of_layers = [now.features(state)[layer] for layer in chosen]
                    values = torch.cat(of_layers, dim=-1)[None]
                values = values.to(torch.promote_types(values.dtype, torch.float32))
                values = values.tanh() if tanh else values
                for pool in pools.values():
                    pool.add(values)
                if shown is not None and units is not None:
                    columns = [place * H + unit for place in range(len(chosen)) for unit in units]
                    parts = values[..., columns].float().transpose(0, 1).cpu().numpy()
                    for row, part in zip(batch.indices, parts, strict=False):
                        shown[row][start : start + len(h)] = part
            if advance is not None:
                advance(len(h) * h.shape[1])
        for name, pool in pools.items():
            pooled[name][batch.indices] = pool.features().float().cpu().numpy()
        states.append(process.final())
    if final:
        order = np.argsort(list(chain.from_iterable(batch.indices for batch in batches)))
        after = State.join(states) if states else model.initial_state(0)
        final_state = after.select(torch.from_numpy(order).to(after.h.device))
    return Reading(
        lengths=np.array(lengths, np.int64),
        unit_states=shown,
        token_bits=costs,
        bits=None if costs is None else np.array([cost.sum(dtype=np.float64) for cost in costs]),
        state=final_state if final else None,
        **pooled,
    )


class Batch:
    """Some rows of similar length, the longest first, through the model together."""

    def __init__(
        self,
        model: LanguageModel,
        weights: Weights,
        sequences: Sequence[np.ndarray],
        batch: RaggedBatch,
        state: State,
        clamp: Clamp | None = None,
        costs: list[np.ndarray] | None = None,
    ):
        self._model, self._weights, self._clamp, self._costs = model, weights, clamp, costs
        self._indices, self._spans = batch.indices, batch.spans
        self._sequences = [sequences[index] for index in batch.indices]
        self._state, self._ended = state, list[State]()

    def windows(self, piece: int | None) -> Any:
        """Yield (start, the last layer's h [T, active, H], the state) after the next T tokens.

        piece: T; None: as many as a span has.
        """
        if self._costs is not None:
            h = self._state.h[-1:]
            self._add_costs(h, -1, len(self._sequences))
        for start, stop, active in self._spans:
            read = np.stack([tokens[start:stop] for tokens in self._sequences[:active]])
            self._keep(active)
            tokens = torch.from_numpy(read.astype(np.int64)).to(self._state.h.device)
            for place, part in enumerate(tokens.split(piece or stop - start, dim=1)):
                h, state = self._model.hidden(part, self._state, self._weights)
                self._state = clamped(state, self._clamp)
                h = h if self._clamp is None else self._state.h[-1:]
                first = start + place * (piece or 0)
                if self._costs is not None:
                    self._add_costs(h, first, active)
                yield first, h, self._state

    def final(self) -> State:
        """Return the state after the last token of every row."""
        return State.join([self._state, *reversed(self._ended)])

    def _keep(self, active: int) -> None:
        if active < self._state.lanes:
            self._ended.append(self._state.select(slice(active, None)))
            self._state = self._state.select(slice(active))

    def _add_costs(self, h: Tensor, start: int, active: int) -> None:
        """Note what the tokens after each of h [T, active, H] cost, of which one is at `start`."""
        assert self._costs is not None
        for piece, logits in self._model.decode_in_pieces(h, self._weights):
            first = start + piece.start + 1
            targets = np.full((active, len(logits)), IGNORED, dtype=np.int64)
            following = [tokens[first : first + len(logits)] for tokens in self._sequences[:active]]
            for target, tokens in zip(targets, following, strict=True):
                target[: len(tokens)] = tokens
            nats = F.cross_entropy(
                logits.permute(1, 2, 0),
                torch.from_numpy(targets).to(logits.device),
                ignore_index=IGNORED,
                reduction="none",
            )
            each = (nats / math.log(2)).float().cpu().numpy()  # [active, T]
            for index, bits, tokens in zip(self._indices, each, following, strict=False):
                self._costs[index][first : first + len(tokens)] = bits[: len(tokens)]


def clamped(state: State, clamp: Clamp | None) -> State:
    """Return the state [L, B, n] with a unit at its values."""
    if clamp is not None:
        for name, value in (("cell", clamp.cell), ("hidden", clamp.hidden)):
            if value is not None:
                state = state.clamp(name, clamp.layer, clamp.unit, value)  # type: ignore[arg-type]
    return state


class Pool:
    """Pools the states of rows while the model reads them; those of a row without tokens are 0."""

    def __init__(self, pooling: Pooling, rows: int, width: int, device: torch.device):
        self.pooling = pooling
        # A mean in fp32 would stop growing after some millions of tokens. Apple's GPUs lack fp64.
        is_wide = pooling == "mean" and device.type != "mps"
        dtype = torch.float64 if is_wide else torch.float32
        self._values = torch.zeros(rows, width, dtype=dtype, device=device)
        self._counts = torch.zeros(rows, 1, dtype=dtype, device=device)
        self._begun = False

    def add(self, values: Tensor) -> None:
        """Take states [T, active, width] of the first `active` rows after their next T tokens."""
        T, active, _ = values.shape
        pooled = self._values[:active]
        if self.pooling == "mean":
            pooled += values.sum(0, dtype=pooled.dtype)
        elif self.pooling == "last":
            pooled.copy_(values[-1])
        else:
            extreme = values.amax(0) if self.pooling == "max" else values.amin(0)
            choose = torch.maximum if self.pooling == "max" else torch.minimum
            # All rows that have tokens are active at the first one.
            pooled.copy_(choose(pooled, extreme) if self._begun else extreme)
        self._counts[:active] += T
        self._begun = True

    def features(self) -> Tensor:
        if self.pooling == "mean":
            return (self._values / self._counts.clamp(min=1)).float()
        return self._values


def features_in_order(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    *,
    kind: FeatureKind = FINAL_CELL,
    **options: Any,
) -> np.ndarray:
    """Return the features of every sequence, float32 [N, F], in order.

    options: those of `read`. Raises InputError if a feature is not finite.
    """
    layers = kind.layers_of(model.config)
    reading = read(
        model,
        sequences,
        kind.poolings,
        state=kind.state,
        layers=layers,
        tanh=kind.tanh,
        **options,
    )
    return kind.chosen(model.config, reading, dtype_name(model.dtype))
