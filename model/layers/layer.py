"""The interface between the language model and a layer of any cell."""

from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from ..fused.window import look_up
from ..state import State
from .config import ModelConfig
from .gate_leaves import GateLeaves


class RecurrentLayer(nn.Module):
    """A layer that reads a window of T bytes and carries a state into the next one."""

    title: ClassVar[str]
    """The name of its cell in tables."""
    feature: ClassVar[str] = "hidden state"
    """The name of its units' values when read as "cell"."""
    takes_integers: ClassVar[bool] = False
    """Whether its products can be of 8-bit integers."""

    @classmethod
    def make(cls, config: ModelConfig, index: int) -> Self:
        """Return layer number `index` of a model; its parameters have no values yet."""
        raise NotImplementedError

    def reset_parameters(self, forget_gate_bias: float) -> None:
        """Draw every parameter from torch's global generator.

        forget_gate_bias: added to the bias of the forget gate, or of the gate that replaces it.
        """
        raise NotImplementedError

    def splittable(self) -> list[nn.Parameter]:
        """Return the matrices whose gradients backward can compute gate by gate."""
        return []

    def fold(
        self, dtype: torch.dtype, *, integers: bool = False, leaves: GateLeaves | None = None
    ) -> Any:
        """Return the weights as `run` reads them.

        dtype: of the products. integers: whether those of an mLSTM's recurrence are of 8-bit
        integers, for inference. leaves: tensors that receive the gradients in place of
        `splittable`.
        """
        raise NotImplementedError

    def initial_state(self, lanes: int, dtype: torch.dtype, device: torch.device) -> State:
        """Return the state before the first byte: zeros, [lanes, n]; dtype: of the products."""
        raise NotImplementedError

    def run(self, x: Tensor, state: State, weights: Any) -> tuple[Tensor, State]:
        """Read a window.

        x: [T, B, E], or h [T, B, H] of the layer before, in the compute dtype. state: before the
        window, [B, n] each. weights: from `fold`. Returns h [T, B, H] and the state after.
        """
        raise NotImplementedError

    def implementation(self, dtype: torch.dtype, *, integers: bool = False) -> str:
        """Name what computes the recurrence with such products; as for `fold`."""
        raise NotImplementedError

    def tabulate(self, embedding: Tensor, weights: Any) -> Tensor:
        """Return the table in which `read` looks tokens up: a row for each of embedding [V, E]."""
        return embedding

    def read(
        self, tokens: Tensor, table: Tensor, state: State, weights: Any
    ) -> tuple[Tensor, State]:
        """Read a window of tokens, as `run` does with x = embedding[tokens].

        tokens: integers below V, [T, B]. table: from `tabulate`.
        """
        return self.run(look_up(tokens, table), state, weights)
