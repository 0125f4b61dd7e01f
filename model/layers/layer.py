"""What the language model asks of a layer, whatever its cell."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..state import State


class RecurrentLayer(nn.Module):
    """What the language model asks of a layer."""

    def reset_parameters(self, forget_gate_bias: float) -> None:
        """Draw every parameter anew from torch's global generator."""
        raise NotImplementedError

    def split_leaves(self) -> list[nn.Parameter]:
        """Return what takes gradients: the parameters, or parts of them that share their memory."""
        return list(self.parameters())

    def gather_gradients(self) -> None:
        """Give parameters the gradients that parts of them have taken."""

    def fold(self, dtype: torch.dtype) -> Any:
        """Return the weights as `run` reads them, in the compute dtype."""
        raise NotImplementedError

    def initial_state(self, lanes: int, dtype: torch.dtype, device: torch.device) -> State:
        """Return the state before the first byte, all zeros; dtype: of the products."""
        raise NotImplementedError

    def run(self, x: Tensor, state: State, weights: Any) -> tuple[Tensor, State]:
        """Read x [T, B, E] from a state [B, H]; return h [T, B, H] and the state after it."""
        raise NotImplementedError

    def implementation(self, dtype: torch.dtype) -> str:
        """Name what computes the recurrence with products in this dtype."""
        raise NotImplementedError

    def tabulate(self, embedding: Tensor, weights: Any) -> Tensor:
        """Return what `read` looks symbols up in, one row per symbol of embedding [V, E]."""
        return embedding

    def read(
        self, tokens: Tensor, table: Tensor, state: State, weights: Any
    ) -> tuple[Tensor, State]:
        """Do what `run` does with x = embedding[tokens], for tokens [T, B]."""
        return self.run(F.embedding(tokens, table), state, weights)
