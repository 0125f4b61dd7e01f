"""The interface that every cell's layer implements for the language model."""

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..state import State, accumulation_dtype, look_up
from .config import ModelConfig


class PerGateParameters:
    """Receives the gradients of some matrices gate by gate, instead of all at once.

    With it, one gate's gradient is sent while backward computes the next. The exchange of gradients
    makes one and passes it to every `prepare_weights`. The gates share the matrices' memory.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], split: Iterable[nn.Parameter]):
        """Split some of the parameters into their four gates."""
        self._gates = {p: [nn.Parameter(gate) for gate in p.detach().chunk(4)] for p in split}
        self.all = [leaf for p in parameters for leaf in self._gates.get(p, [p])]
        """The tensors that receive gradients: the gates, and the parameters not split, in order."""

    def of(self, parameter: nn.Parameter) -> list[nn.Parameter]:
        """Return the four gates of a matrix; none if it is not split."""
        return self._gates.get(parameter, [])

    def gather_gradients(self) -> None:
        """Move the gates' gradients to their matrices, after a backward pass."""
        for parameter, gates in self._gates.items():
            parameter.grad = torch.cat([gate.grad for gate in gates if gate.grad is not None])
            for gate in gates:
                gate.grad = None


class RecurrentLayer(nn.Module):
    """A layer that processes a window of T tokens and carries its state into the next window."""

    title: ClassVar[str]
    """Name of the cell in tables."""
    feature: ClassVar[str] = "hidden state"
    """What `state="cell"` means for this layer."""

    def __init__(self, config: ModelConfig, index: int):
        """Make layer number `index` of a model; its parameters have no values yet."""
        super().__init__()
        self.config = config

    def reset_parameters(self) -> None:
        """Draw every parameter from torch's global generator."""
        raise NotImplementedError

    def splittable(self) -> list[nn.Parameter]:
        """Return the matrices whose gradients can be computed, and sent, gate by gate."""
        return []

    def prepare_weights(
        self, dtype: torch.dtype, *, leaves: PerGateParameters | None = None
    ) -> Any:
        """Apply weight norm and cast to the compute dtype.

        dtype: of the products. leaves: tensors that receive the gradients in place of `splittable`.
        Returns what `forward` takes.
        """
        raise NotImplementedError

    def initial_state(self, lanes: int, dtype: torch.dtype, device: torch.device) -> State:
        """Return the state before the first token: zeros, [lanes, n]; dtype: of the products.

        An LSTM's: h in the dtype of the products and c in the wider one.
        """
        h = torch.zeros(lanes, self.config.hidden_size, dtype=dtype, device=device)
        return State(h, h.to(accumulation_dtype(dtype)))

    def forward(self, x: Tensor, state: State, weights: Any) -> tuple[Tensor, State]:
        """Process a window.

        x: [T, B, E], or h [T, B, H] of the layer below, in the compute dtype. state: before the
        window, [B, n] each. weights: from `prepare_weights`. Returns h [T, B, H] and the state
        after the window.
        """
        raise NotImplementedError

    def implementation(self, dtype: torch.dtype) -> str:
        """Return the name of what computes the recurrence; arguments as in `prepare_weights`."""
        raise NotImplementedError

    def project_vocabulary(self, embedding: Tensor, weights: Any) -> Tensor:
        """Return the table, a row for each of embedding [V, E], that `forward_tokens` looks up."""
        return embedding

    def forward_tokens(
        self, tokens: Tensor, table: Tensor, state: State, weights: Any
    ) -> tuple[Tensor, State]:
        """Same as forward(embedding[tokens]) for tokens [T, B]; table: of `project_vocabulary`."""
        return self.forward(look_up(tokens, table), state, weights)
