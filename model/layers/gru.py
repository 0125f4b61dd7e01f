"""torch's GRU as a layer."""

from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn

from ..state import State
from .gate_leaves import GateLeaves
from .layer import RecurrentLayer

if TYPE_CHECKING:
    from ..language_model import ModelConfig


class GruLayer(RecurrentLayer):
    """torch's GRU (Cho et al. 2014), a peer of the mLSTM. It has no weight norm.

    Its state is h alone, in the dtype of the products; h is its feature, too.
    """

    title = "GRU"

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.gru = nn.GRU(input_size, hidden_size)

    @classmethod
    def make(cls, config: "ModelConfig", index: int) -> Self:
        """Return a layer of the config's sizes."""
        return cls(config.input_size(index), config.hidden_size)

    def reset_parameters(self, forget_gate_bias: float) -> None:
        """Draw as nn.GRU does; half of the bias goes on each of the update gate's two.

        torch's update gate z is the part of h that stays: what a forget gate is to an LSTM.
        """
        self.gru.reset_parameters()
        H = self.gru.hidden_size
        with torch.no_grad():
            for name in ("bias_ih_l0", "bias_hh_l0"):  # gates: reset, update, new
                self.gru.get_parameter(name)[H : 2 * H] += forget_gate_bias / 2

    def fold(
        self, dtype: torch.dtype, *, integers: bool = False, leaves: GateLeaves | None = None
    ) -> list[Tensor]:
        """Cast the four weights to the compute dtype."""
        return [parameter.to(dtype) for parameter in self.gru.parameters()]

    def implementation(self, dtype: torch.dtype, *, integers: bool = False) -> str:
        """Name the one implementation there is."""
        return "torch.nn.GRU"

    def initial_state(self, lanes: int, dtype: torch.dtype, device: torch.device) -> State:
        """Return h, zeros."""
        return State(torch.zeros(lanes, self.gru.hidden_size, dtype=dtype, device=device))

    def run(self, x: Tensor, state: State, weights: list[Tensor]) -> tuple[Tensor, State]:
        """Hand the window to torch. x: [T, B, E]; returns h [T, B, H] and the state after.

        train is true where a gradient is wanted, in eval mode too: cuDNN has no backward pass
        for what it ran with train=False, and fine-tuning learns in eval mode. Nothing else depends
        on it: there is no dropout.
        """
        train = torch.is_grad_enabled()
        h, last_h = torch.gru(x, state.h.unsqueeze(0), weights, True, 1, 0.0, train, False, False)
        return h, State(last_h[0])
