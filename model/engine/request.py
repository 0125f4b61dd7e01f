"""What is to be computed for some texts, and the arrays for the results."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

POOLINGS = ("last", "mean", "highest", "lowest")


class State(NamedTuple):
    """What a model carries from token to token, of B texts: float32 [B, L, H] each."""

    h: np.ndarray
    c: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Hold:
    """One unit held at a value after every token; None: that part of it is free."""

    unit: int
    layer: int = -1
    cell: float | None = None
    hidden: float | None = None


class Familiarity(NamedTuple):
    """What a text of a familiar kind costs at most: bits_per_byte for each byte, and bits more.

    The cost is summed token by token, until it is `margin` bits above or below that: what comes
    later changes the answer in two of a thousand texts, and need not be decoded.
    """

    bits_per_byte: float
    bits: float
    margin: float = 60.0


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
    hold: Hold | None
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
    hold: Hold | None = None,
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
        hold=hold,
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
