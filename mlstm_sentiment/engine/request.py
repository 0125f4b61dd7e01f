"""What is to be computed for some texts, and the arrays for the results."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..bounds import check_bounds
from ..errors import InputError


class State(NamedTuple):
    """What a model carries from token to token, of B texts: float32 [B, L, H] each."""

    h: np.ndarray
    c: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Clamp:
    """Holds a unit's cell, its hidden value, or both while the model processes and writes text.

    Raises InputError unless at least one value is given, finite and representable.

        continue_text("amazon_1024", "I", clamp=Clamp(unit=388, cell=1.0))
    """

    unit: int
    """Counted from 0."""
    layer: int = -1
    """In the stack; -1 is the last one, from which features come."""
    cell: float | None = None
    """The value of its cell state, with the model's own sign; None: it is free."""
    hidden: float | None = None
    """The value of its hidden state; None: it is free."""

    def __post_init__(self) -> None:
        values = {"cell": self.cell, "hidden": self.hidden}
        numbers = {name: _number(value) for name, value in values.items() if value is not None}
        if not numbers or not all(abs(number) <= _LARGEST for number in numbers.values()):
            raise InputError(
                f"unit {self.unit} is to be clamped to cell {self.cell}, hidden {self.hidden}; "
                f"give a finite value, within {_LARGEST:,.0f} of zero, for at least one"
            )
        for name, number in numbers.items():
            object.__setattr__(self, name, number)  # the dataclass is frozen


_LARGEST = 65504.0  # fp16's largest number, which every dtype of the state has


def _number(value: object) -> float:
    """Return Python's float for a number, NumPy's or torch's too; NaN for anything else."""
    if isinstance(value, str | bool):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):  # torch raises the last
        return math.nan


@dataclass(frozen=True)
class Familiarity:
    """The most bits that a model needs for a text of the kind that it was trained on.

    The cost is summed token by token, until it is `margin` bits above or below that: what comes
    later changes the answer in two of a thousand texts, and need not be decoded.
    """

    bits_per_character: float
    """For each byte of the encoded text."""
    bits: float
    """Added to that for a text of any length, since the cost of a short text varies widely."""
    margin: float = 60.0

    def __post_init__(self) -> None:
        check_bounds(self, "familiarity.")


def excess_of(
    bits: Sequence[np.ndarray], sizes: Sequence[np.ndarray], familiarity: Familiarity
) -> np.ndarray:
    """Return the bits of each text above what a familiar one costs, when it is decided: [N].

    bits, sizes: what each token costs, and its bytes, for every text.
    """
    result = np.full(len(bits), -familiarity.bits)
    for text, (costs, lengths) in enumerate(zip(bits, sizes, strict=True)):
        steps = costs.astype(np.float64) - familiarity.bits_per_character * lengths
        sums = np.cumsum(np.concatenate([[-familiarity.bits], steps]))[1:]
        decided = np.flatnonzero(np.abs(sums) > familiarity.margin)
        if len(sums):
            result[text] = sums[decided[0] if len(decided) else -1]
    return result


class Request:
    """N texts, what is wanted of them, and the arrays that are filled with it.

    sizes: L and H. familiarity: only where bits are not wanted; token_bytes: int32 [V].
    """

    def __init__(
        self,
        sequences: Sequence[np.ndarray],
        sizes: tuple[int, int],
        *,
        pooling: Sequence[str],
        cell: bool,
        tanh: bool,
        layers: Sequence[int],
        units: Sequence[int] | None,
        bits: bool,
        clamp: Clamp | None,
        initial: State | None,
        final: bool,
        familiarity: Familiarity | None,
        token_bytes: np.ndarray,
    ):
        N, (L, H), chosen = len(sequences), sizes, len(layers)
        lengths = np.array(list(map(len, sequences)), np.int64)
        tokens = np.concatenate([np.empty(0, np.int32), *sequences]).astype(np.int32)
        self.tokens, self.texts = tokens, N  # of all texts, end to end
        self.offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])  # [N + 1]
        self.order = np.argsort(-lengths, kind="stable")  # the longest first
        self.cell, self.tanh, self.layers, self.units = cell, tanh, layers, units or ()
        self.clamp, self.initial = clamp, initial
        self.familiarity, self.token_bytes = familiarity, token_bytes

        def zeros(*shape: int, wanted: object) -> np.ndarray | None:
            return np.zeros(shape, np.float32) if wanted else None

        self.pooled = {name: np.zeros((N, chosen, H), np.float32) for name in pooling}
        self.unit_states = zeros(len(tokens), chosen, len(self.units), wanted=units is not None)
        self.nats = zeros(len(tokens), wanted=bits)
        self.excess = zeros(N, wanted=familiarity)  # bits above what a familiar text costs
        self.final = State(*np.zeros((2, N, L, H), np.float32)) if final else None
