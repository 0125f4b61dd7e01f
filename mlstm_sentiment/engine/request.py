"""What is to be computed for some texts, and the arrays for the results."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

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


class Familiarity(NamedTuple):
    """What a text of a familiar kind costs at most: bits_per_byte for each byte, and bits more.

    The cost is summed token by token, until it is `margin` bits above or below that: what comes
    later changes the answer in two of a thousand texts, and need not be decoded.
    """

    bits_per_byte: float
    bits: float
    margin: float = 60.0


def excess_of(
    bits: Sequence[np.ndarray], sizes: Sequence[np.ndarray], familiarity: Familiarity
) -> np.ndarray:
    """Return the bits of each text above what a familiar one costs, when it is decided: [N].

    bits, sizes: what each token costs, and its bytes, for every text.
    """
    result = np.full(len(bits), -familiarity.bits)
    for text, (costs, lengths) in enumerate(zip(bits, sizes, strict=True)):
        steps = costs.astype(np.float64) - familiarity.bits_per_byte * lengths
        sums = np.cumsum(np.concatenate([[-familiarity.bits], steps]))[1:]
        decided = np.flatnonzero(np.abs(sums) > familiarity.margin)
        if len(sums):
            result[text] = sums[decided[0] if len(decided) else -1]
    return result


@dataclass(frozen=True, kw_only=True)
class Request:
    """N texts, and what to keep of them. The arrays of results are filled in place."""

    tokens: np.ndarray  # int32, of all texts, end to end
    offsets: np.ndarray  # int64 [N + 1]
    order: np.ndarray  # int64 [N], the longest first
    cell: bool
    tanh: bool
    layers: Sequence[int]
    units: Sequence[int]
    clamp: Clamp | None
    initial: State | None
    pooled: dict[str, np.ndarray] = field(default_factory=dict)  # float32 [N, layers chosen, H]
    unit_states: np.ndarray | None = None  # float32 [tokens, layers chosen, units]
    nats: np.ndarray | None = None  # float32 [tokens]
    familiarity: Familiarity | None = None  # only where nats are not wanted
    token_bytes: np.ndarray | None = None  # int32 [V]
    excess: np.ndarray | None = None  # float32 [N], bits above what a familiar text costs
    final: State | None = None

    @property
    def texts(self) -> int:
        """N."""
        return len(self.order)


def request_for(
    sequences: Sequence[np.ndarray],
    sizes: tuple[int, int],
    *,
    pooling: Sequence[str] = (),
    cell: bool = False,
    tanh: bool = False,
    layers: Sequence[int] = (),
    units: Sequence[int] | None = None,
    bits: bool = False,
    clamp: Clamp | None = None,
    initial: State | None = None,
    final: bool = False,
    familiarity: Familiarity | None = None,
    token_bytes: np.ndarray | None = None,
) -> Request:
    """Return a request with empty results; sizes: L and H."""
    lengths = np.array(list(map(len, sequences)), np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    tokens = np.concatenate([np.empty(0, np.int32), *sequences]).astype(np.int32)
    N, (L, H) = len(sequences), sizes
    total = len(tokens)
    return Request(
        tokens=tokens,
        offsets=offsets,
        order=np.argsort(-lengths, kind="stable"),
        cell=cell,
        tanh=tanh,
        layers=layers,
        units=units or (),
        clamp=clamp,
        initial=initial,
        pooled={name: np.zeros((N, len(layers), H), np.float32) for name in pooling},
        unit_states=None
        if units is None
        else np.zeros((total, len(layers), len(units)), np.float32),
        nats=np.zeros(total, np.float32) if bits else None,
        familiarity=familiarity,
        token_bytes=token_bytes,
        excess=None if familiarity is None else np.zeros(N, np.float32),
        final=State(*np.zeros((2, N, L, H), np.float32)) if final else None,
    )
