"""torch's LSTM as a layer."""

from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn

from ..state import State, accumulation_dtype
from .gate_leaves import GateLeaves
from .layer import RecurrentLayer

if TYPE_CHECKING:
    from ..language_model import ModelConfig


class LstmLayer(RecurrentLayer):
    """torch's LSTM, which the papers compare the mLSTM with. It has no weight norm."""

    title = "LSTM"
    feature = "cell state"

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size)

    @classmethod
    def make(cls, config: "ModelConfig", index: int) -> Self:
        """Return a layer of the config's sizes."""
        return cls(config.input_size(index), config.hidden_size)

    def reset_parameters(self, forget_gate_bias: float) -> None:
        """Draw as nn.LSTM does; half of the forget bias goes on each of its two biases."""
        self.lstm.reset_parameters()
        H = self.lstm.hidden_size
        with torch.no_grad():
            for name in ("bias_ih_l0", "bias_hh_l0"):
                self.lstm.get_parameter(name)[H : 2 * H] += forget_gate_bias / 2

    def fold(
        self, dtype: torch.dtype, *, integers: bool = False, leaves: GateLeaves | None = None
    ) -> list[Tensor]:
        """Cast the four weights to the compute dtype."""
        return [parameter.to(dtype) for parameter in self.lstm.parameters()]

    def implementation(self, dtype: torch.dtype, *, integers: bool = False) -> str:
        """Name the one implementation there is."""
        return "torch.nn.LSTM"

    def initial_state(self, lanes: int, dtype: torch.dtype, device: torch.device) -> State:
        """Return h in the dtype of the products and c in the wider one."""
        h = torch.zeros(lanes, self.lstm.hidden_size, dtype=dtype, device=device)
        return State(h, h.to(accumulation_dtype(dtype)))

    def run(self, x: Tensor, state: State, weights: list[Tensor]) -> tuple[Tensor, State]:
        """Hand the window to torch. x: [T, B, E]; returns h [T, B, H] and the state after.

        torch keeps its cell state in the compute dtype, so c is cast on the way in and out. train
        is true where a gradient is wanted, in eval mode too: cuDNN has no backward pass for what it
        ran with train=False, and fine-tuning learns in eval mode. Nothing else depends on it: there
        is no dropout.
        """
        hx = [state.h.unsqueeze(0), state.c.to(x.dtype).unsqueeze(0)]
        train = torch.is_grad_enabled()
        h, last_h, last_c = torch.lstm(x, hx, weights, True, 1, 0.0, train, False, False)
        return h, State(last_h[0], last_c[0].to(state.c.dtype))
