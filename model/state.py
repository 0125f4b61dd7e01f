"""What the model remembers between bytes."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class State(NamedTuple):
    """Hidden and cell state, [L, B, H] each (one cell alone: [B, H]).

    `c` is fp32 (fp64 in an fp64 model); `h` has exactly the dtype that the recurrence consumes,
    so that handing a state on between windows rounds nothing.
    """

    h: Tensor
    c: Tensor

    def detach(self) -> "State":
        """Cut the gradient: truncated back-propagation through time."""
        return State(self.h.detach(), self.c.detach())

    def reset(self, rows: Tensor) -> "State":
        """Zero the rows where the bool mask [B] is true."""
        keep = ~rows.unsqueeze(-1)
        # where, not a product: a product keeps the NaN of a state that has overflowed.
        return State(self.h.where(keep, 0), self.c.where(keep, 0))

    def narrow(self, count: int) -> "State":
        """Keep the first `count` rows."""
        return State(self.h[..., :count, :], self.c[..., :count, :])

    @staticmethod
    def join(parts: "Sequence[State]") -> "State":
        """Put states of some rows each together again."""
        if len(parts) == 1:
            return parts[0]
        return State(
            torch.cat([p.h for p in parts], dim=-2), torch.cat([p.c for p in parts], dim=-2)
        )

    def clone(self) -> "State":
        """Copy, so that a later in-place step cannot touch it."""
        return State(self.h.clone(), self.c.clone())

    def to(self, device: torch.device) -> "State":
        """Move to a device, keeping each dtype."""
        return State(self.h.to(device), self.c.to(device))


def summation_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype of sums over a whole text: fp64, which Apple's devices lack."""
    return torch.float32 if device.type == "mps" else torch.float64


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of gates, cell state and loss for products in `dtype`."""
    return torch.promote_types(dtype, torch.float32)
