"""Long texts in pieces that are processed side by side, several times as fast as one by one.

A text alone takes the time in which all weights come from memory, once for every token; pieces of
it share that. A piece begins from the state after the tokens before it, which are read from the
zero state: these models forget most within a thousand tokens. Whether that state was right is seen
when the piece before has ended. If the two differ by more than CLOSE, the piece is processed again,
from the right one. So what is not forgotten costs time, and no accuracy.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .engine import Engine
from .interface import Reading, TextModel
from .kinds import POOLINGS, Pooling
from .request import Familiarity, State

LONG = 8192  # tokens of a text; what is not longer is processed in one piece
PIECES = 16
WARM_UP = 2048  # tokens before a piece from which its first state is estimated
CLOSE = 1e-3  # the largest difference of a unit's value between two states that count as equal
_BLOCK = 256  # tokens between two looks at whether a text is unfamiliar


def in_pieces(model: TextModel) -> TextModel:
    """Return a model that processes long texts in pieces; one in PyTorch as it is."""
    is_other = isinstance(model, InPieces) or not isinstance(model, Engine)
    return model if is_other else InPieces(model)


class InPieces(Engine):
    """An engine that processes texts of more than LONG tokens in pieces.

    Their states differ from the engine's by about CLOSE at most. What is pooled of a long text is
    kept, so that to ask for its features after its units, or again, costs nothing.

        engine = InPieces(Engine.load("default"))
    """

    def __init__(self, engine: Engine):
        vars(self).update(vars(engine))
        self._kept: dict[tuple[Any, ...], dict[Pooling, np.ndarray]] = {}

    def read(
        self,
        texts: Sequence[str] | Sequence[np.ndarray],
        pooling: Sequence[Pooling] = ("last", "mean"),
        **options: Any,
    ) -> Reading:
        """Process N texts; see `Engine.read`."""
        sequences = self._sequences(texts)
        others = {"bits", "initial", "final", "clamp"}
        is_plain = not any(options.get(name) for name in others)
        if not is_plain or all(len(tokens) <= LONG for tokens in sequences):
            return super().read(sequences, pooling, **options)
        readings = [
            self._read_long(tokens, pooling, **options)
            if len(tokens) > LONG
            else super(InPieces, self).read([tokens], pooling, **options)
            for tokens in sequences
        ]
        states = [part for each in readings for part in each.unit_states or ()]
        flags = [each.unfamiliar for each in readings if each.unfamiliar is not None]
        return Reading(
            lengths=np.array(list(map(len, sequences)), np.int64),
            unit_states=states if options.get("units") is not None else None,
            unfamiliar=np.concatenate(flags) if flags else None,
            **{
                name: np.concatenate([getattr(each, name) for each in readings]) for name in pooling
            },
        )

    def _read_long(
        self,
        tokens: np.ndarray,
        pooling: Sequence[Pooling],
        *,
        units: Sequence[int] | None = None,
        familiarity: Familiarity | None = None,
        advance: Any = None,
        **options: Any,
    ) -> Reading:
        kind = [options.get(name) for name in ("state", "layers", "tanh")]
        key = (tokens.tobytes(), *map(str, kind))
        states = None
        if units is not None or key not in self._kept:
            parts = self._read_pieces(tokens, units=units, advance=advance, **options)
            self._kept[key] = _pooled(parts)
            states = [values for part in parts for values in part.unit_states or ()]
        is_unfamiliar = familiarity is not None and self._decided_excess(tokens, familiarity) > 0
        return Reading(
            lengths=np.array([len(tokens)]),
            unfamiliar=None if familiarity is None else np.array([is_unfamiliar]),
            unit_states=[np.concatenate(states)] if states else None,
            **{name: self._kept[key][name] for name in pooling},
        )

    def _read_pieces(self, tokens: np.ndarray, advance: Any, **options: Any) -> list[Reading]:
        """Return what was read of a text's pieces, each as one text, with all poolings."""
        bounds = np.linspace(0, len(tokens), PIECES + 1).astype(int)
        pieces = [tokens[first:last] for first, last in pairwise(bounds)]
        before = [tokens[max(0, first - WARM_UP) : first] for first in bounds[:-1]]
        begun: State = super().read(before, (), final=True).state
        ended = State(*map(np.zeros_like, begun))
        result: dict[int, Reading] = {}
        pending = list(range(PIECES))
        while pending:
            reading = super().read(
                [pieces[k] for k in pending],
                POOLINGS,
                initial=State(*(half[pending] for half in begun)),
                final=True,
                advance=advance,
                **options,
            )
            advance = None  # the first time, every token was counted
            result |= {k: _row(reading, row) for row, k in enumerate(pending)}
            for half, new in zip(ended, reading.state, strict=True):
                half[pending] = new
            gaps = [abs(a[:-1] - b[1:]).max((1, 2)) for a, b in zip(ended, begun, strict=True)]
            pending = (np.flatnonzero(np.maximum(*gaps) > CLOSE) + 1).tolist()
            for start, end in zip(begun, ended, strict=True):
                start[pending] = end[[k - 1 for k in pending]]
        return [result[k] for k in range(PIECES)]

    def _decided_excess(self, tokens: np.ndarray, familiarity: Familiarity) -> float:
        """Return the bits above what a familiar text costs, as soon as they are decided."""
        excess, state = -familiarity.bits, self.initial_state()
        for first in range(0, len(tokens), _BLOCK):
            block = tokens[first : first + _BLOCK]
            reading = super().read([block], (), bits=True, initial=state, final=True)
            assert reading.token_bits is not None
            steps = reading.token_bits[0] - familiarity.bits_per_byte * self._token_bytes[block]
            for step in steps.tolist():
                excess += step
                if abs(excess) > familiarity.margin:
                    return excess
            state = reading.state
        return excess


def _row(reading: Reading, row: int) -> Reading:
    """Return the reading of one of the texts."""
    states = reading.unit_states
    return Reading(
        lengths=reading.lengths[row : row + 1],
        unit_states=None if states is None else [states[row]],
        **{name: getattr(reading, name)[row] for name in POOLINGS},
    )


def _pooled(parts: Sequence[Reading]) -> dict[Pooling, np.ndarray]:
    """Return a text's poolings, float32 [1, F], from those of its pieces."""
    lengths = [int(part.lengths[0]) for part in parts]
    means = np.average([part.mean for part in parts], axis=0, weights=lengths)
    last, largest = parts[-1].last, np.max([part.max for part in parts], axis=0)
    smallest = np.min([part.min for part in parts], axis=0)
    values = {"last": last, "mean": means, "max": largest, "min": smallest}
    return {name: np.asarray(values[name], np.float32)[None] for name in POOLINGS}
