"""The interface between the language model and a layer of any cell."""

from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..state import State
from .gate_leaves import GateLeaves

if TYPE_CHECKING:
    from ..language_model import ModelConfig


class RecurrentLayer(nn.Module):
    """A layer that reads a window of T bytes and carries a state into the next one."""

    title: ClassVar[str]
    """How its cell is written in tables."""
    feature: ClassVar[str] = "hidden state"
    """What its units' values are called where they are read as "cell"."""
    described_by: ClassVar[frozenset[str]] = frozenset()
    """Fields of `ModelConfig` that the weights of this cell alone depend on."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Fields of `ModelConfig` that change this cell alone, but not what weights there are."""
    takes_integers: ClassVar[bool] = False
    """Whether its products can be of 8-bit integers."""

    @classmethod
    def check(cls, config: "ModelConfig") -> None:
        """Raise InputError where the cell cannot be as the config asks for."""

    @classmethod
    def check_clamp(cls, config: "ModelConfig", layer: int) -> None:
        """Raise InputError where a unit of that layer, clamped, would change no prediction."""

    @classmethod
    def make(cls, config: "ModelConfig", index: int) -> Self:
        """Return layer number `index` of a model; its parameters have no values yet."""
        raise NotImplementedError

    def reset_parameters(self, forget_gate_bias: float) -> None:
        """Draw every parameter anew from torch's global generator.

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
        integers, for inference. leaves: what takes the gradients in place of `splittable`.
        """
        raise NotImplementedError

    def initial_state(self, lanes: int, dtype: torch.dtype, device: torch.device) -> State:
        """Return the state before the first byte: zeros, [lanes, n]; dtype: of the products."""
        raise NotImplementedError

    def run(self, x: Tensor, state: State, weights: Any) -> tuple[Tensor, State]:
        """Read a window.

        x: [T, B, E], or the layer before's h [T, B, H], in the compute dtype. state: before the
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
        return self.run(F.embedding(tokens, table), state, weights)
