"""Long texts in pieces that are processed side by side, several times as fast as one by one.

A text alone takes the time in which all weights come from memory, once for every token; pieces of
it share that. Each piece but the first begins from the zero state, since these models forget most
within some thousand tokens. Then the beginnings of the pieces are processed again, from the states
in which the pieces before them ended, part by part until the new state is within CLOSE of the one
there before. So what is not forgotten costs time, and no accuracy.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from .engine import Engine
from .interface import Reading, TextModel
from .kinds import POOLINGS, Pooling
from .request import Familiarity, State, excess_of

_LONG = 8192  # tokens of a text; what is not longer is processed in one piece
PIECES, PARTS = 16, 4  # of a text, and of a piece
_CLOSE = 1e-3  # the largest difference of a unit's value between two states that count as equal
_BLOCK = 256  # tokens between two looks at whether a text is unfamiliar


def in_pieces(model: TextModel) -> TextModel:
    """Return a model that processes long texts in pieces; one in PyTorch as it is."""
    return _InPieces(model) if isinstance(model, Engine) else model


class _InPieces(Engine):
    """An engine that processes texts of more than LONG tokens in pieces.

    Their states differ from the engine's by about CLOSE at most.
    """

    def __init__(self, engine: Engine):
        vars(self).update(vars(engine))

    def read(
        self,
        texts: Sequence[str] | Sequence[np.ndarray],
        pooling: Sequence[Pooling] = ("last", "mean"),
        **options: Any,
    ) -> Reading:
        sequences = self._sequences(texts)
        others = {"bits", "initial", "final", "clamp"}
        is_plain = not any(options.get(name) for name in others)
        if not is_plain or all(len(tokens) <= _LONG for tokens in sequences):
            return super().read(sequences, pooling, **options)
        short = [n for n, tokens in enumerate(sequences) if len(tokens) <= _LONG]
        together = super().read([sequences[n] for n in short], pooling, **options)
        alone = {n: _row(together, row) for row, n in enumerate(short)}
        readings = [
            alone[n] if n in alone else self._read_long(tokens, pooling, **options)
            for n, tokens in enumerate(sequences)
        ]
        states = [part for each in readings for part in each.unit_states or ()]
        flags = [each.unfamiliar for each in readings if each.unfamiliar is not None]
        pooled: dict[str, Any] = {
            name: np.concatenate([getattr(each, name) for each in readings]) for name in pooling
        }
        return Reading(
            lengths=np.array(list(map(len, sequences)), np.int64),
            unit_states=states if options.get("units") is not None else None,
            unfamiliar=np.concatenate(flags) if flags else None,
            **pooled,
        )

    def _read_long(
        self,
        tokens: np.ndarray,
        pooling: Sequence[Pooling],
        *,
        familiarity: Familiarity | None = None,
        advance: Any = None,
        **options: Any,
    ) -> Reading:
        parts = self._read_parts(tokens, pooling, advance, **options)
        states = [values for part in parts for values in part.unit_states or ()]
        is_unfamiliar = familiarity is not None and self._decided_excess(tokens, familiarity) > 0
        pooled = _pooled(parts, pooling)
        return Reading(
            lengths=np.array([len(tokens)]),
            unfamiliar=None if familiarity is None else np.array([is_unfamiliar]),
            unit_states=[np.concatenate(states)] if states else None,
            **pooled,
        )

    def _read_parts(
        self, tokens: np.ndarray, pooling: Sequence[Pooling], advance: Any, **options: Any
    ) -> list[Reading]:
        """Return what was read of all parts of a text, each as one text."""
        count = PIECES * PARTS
        bounds = np.linspace(0, len(tokens), count + 1).astype(int)
        parts = [tokens[first:last] for first, last in pairwise(bounds)]
        begun, ended = self.initial_state(count), self.initial_state(count)
        result: dict[int, Reading] = {}

        def process(pending: list[int], advance: Any = None) -> None:
            reading = super(_InPieces, self).read(
                [parts[k] for k in pending],
                pooling,
                initial=State(*(half[pending] for half in begun)),
                final=True,
                advance=advance,
                **options,
            )
            result.update((k, _row(reading, row)) for row, k in enumerate(pending))
            for half, new in zip(ended, reading.state, strict=True):
                half[pending] = new

        def follow(pending: list[int]) -> None:
            """Let parts begin where those before them ended."""
            for start, end in zip(begun, ended, strict=True):
                start[pending] = end[[k - 1 for k in pending]]

        for part in range(PARTS):
            pending = list(range(part, count, PARTS))
            if part:
                follow(pending)
            process(pending, advance)
        while True:
            gaps = [abs(a[:-1] - b[1:]).max((1, 2)) for a, b in zip(ended, begun, strict=True)]
            pending = (np.flatnonzero(np.maximum(*gaps) > _CLOSE) + 1).tolist()
            if not pending:
                return [result[k] for k in range(count)]
            follow(pending)
            process(pending)

    def _decided_excess(self, tokens: np.ndarray, familiarity: Familiarity) -> float:
        """Return the bits above what a familiar text costs, as soon as they are decided."""
        excess, state = -familiarity.bits, self.initial_state()
        for first in range(0, len(tokens), _BLOCK):
            block = tokens[first : first + _BLOCK]
            reading = super().read([block], (), bits=True, initial=state, final=True)
            assert reading.token_bits is not None
            rest, sizes = replace(familiarity, bits=-excess), [self._token_bytes[block]]
            excess = float(excess_of(reading.token_bits, sizes, rest)[0])
            if abs(excess) > familiarity.margin:
                break
            state = reading.state
        return excess


def _row(reading: Reading, row: int) -> Reading:
    names = ("lengths", "unit_states", "unfamiliar", *POOLINGS)
    each = {name: getattr(reading, name) for name in names}
    return Reading(**{name: v[row : row + 1] for name, v in each.items() if v is not None})


def _pooled(parts: Sequence[Reading], pooling: Sequence[Pooling]) -> dict[str, Any]:
    """Return a text's poolings, float32 [1, F], from those of its parts."""
    lengths = [int(part.lengths[0]) for part in parts]
    pool = {
        "last": lambda values: values[-1],
        "mean": lambda values: np.average(values, axis=0, weights=lengths),
        "max": lambda values: values.max(axis=0),
        "min": lambda values: values.min(axis=0),
    }
    each = {name: np.concatenate([getattr(part, name) for part in parts]) for name in pooling}
    return {name: np.asarray(pool[name](values), np.float32)[None] for name, values in each.items()}
