"""The arguments of every implementation of the recurrence: input, state and weights of a window."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch.nn.functional as F
from torch import Tensor

from ..fused.weight_gradients import PostponedProducts
from ..state import State, accumulation_dtype


@dataclass(frozen=True)
class RecurrentWeights:
    """The weights that every byte is multiplied by, with the weight norm applied."""

    w_mh: Tensor  # [H, H], compute dtype
    w_h: Tensor  # [4H, H], compute dtype; the gates i f u o
    b: Tensor  # [4H], accumulation dtype
    packed: Tensor | None = None
    """w_mh and w_h in the layout of one implementation, as its `pack` returned them. That
    implementation then need not pack them in every window; the others ignore it."""
    integers: bool = False
    """Whether products are of 8-bit integers, which have no gradient."""
    postponed: PostponedProducts | None = None
    """Where backward puts the postponed products of the gradients of w_mh and w_h. If absent,
    backward computes the gradients itself."""


@dataclass(frozen=True)
class Window:
    """T bytes of B lanes, the state before them and the weights."""

    x_proj: Tensor  # [T, B, 5H], the input's part of m and of the gates i f u o; or a table
    state: State  # h [B, H] in the compute dtype, c [B, H] in the accumulation dtype
    weights: RecurrentWeights
    indices: Tensor | None = None
    """Whole numbers [T, B] below R. With them, x_proj is a table [R, 5H] of which each byte reads
    one row."""

    def looked_up(self) -> "Window":
        """Return the same window with x_proj [T, B, 5H], read from the table, if any.

        In backward, the gradients of a row add up in the accumulation dtype.
        """
        if self.indices is None:
            return self
        table = self.x_proj.to(accumulation_dtype(self.x_proj.dtype))
        x_proj = F.embedding(self.indices, table).to(self.x_proj.dtype)
        return replace(self, x_proj=x_proj, indices=None)

    def segments(self, count: int) -> Iterator["Window"]:
        """Yield at most `count` windows of successive bytes, all with this window's state."""
        if self.indices is None:
            yield from (replace(self, x_proj=chunk) for chunk in self.x_proj.chunk(count))
        else:
            yield from (replace(self, indices=chunk) for chunk in self.indices.chunk(count))
