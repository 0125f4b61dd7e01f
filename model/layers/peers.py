"""torch's LSTM and GRU as layers, with which the mLSTM is compared."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from ..state import State
from .config import ModelConfig
from .layer import PerGateParameters, RecurrentLayer


class _TorchLayer(RecurrentLayer):
    """A layer that lets torch compute its windows, with the weights of a torch module.

    If a gradient is needed, torch runs in training mode even in eval mode: otherwise cuDNN has no
    backward pass, and fine-tuning learns in eval mode. Nothing else changes, since there is no
    dropout.
    """

    kind: ClassVar[type[nn.LSTM] | type[nn.GRU]]

    def __init__(self, config: ModelConfig, index: int):
        super().__init__(config, index)
        module = self.kind(config.input_size(index), config.hidden_size)
        self.add_module(self.kind.__name__.lower(), module)

    def reset_parameters(self) -> None:
        """Draw as torch does; each of the gate's two biases gets half of the extra bias."""
        (module,) = self.children()
        module.reset_parameters()  # type: ignore[operator]
        H = self.config.hidden_size
        with torch.no_grad():
            for name in ("bias_ih_l0", "bias_hh_l0"):  # an LSTM's second gate, and a GRU's
                module.get_parameter(name)[H : 2 * H] += self.config.forget_gate_bias / 2

    def prepare_weights(
        self, dtype: torch.dtype, *, leaves: PerGateParameters | None = None
    ) -> list[Tensor]:
        """Cast the four weights to the compute dtype, in the order that torch reads."""
        (module,) = self.children()
        return [weight.to(dtype) for weight in module.parameters()]

    def implementation(self, dtype: torch.dtype) -> str:
        return f"torch.nn.{self.kind.__name__}"


class LstmLayer(_TorchLayer):
    """torch's LSTM, the papers' control."""

    title = "LSTM"
    feature = "cell state"
    kind = nn.LSTM

    def forward(self, x: Tensor, state: State, weights: list[Tensor]) -> tuple[Tensor, State]:
        """Let torch compute the window.

        x: [T, B, E]; returns h [T, B, H] and the state after. torch keeps its cell state in the
        compute dtype, so c is cast on the way in and out.
        """
        hx = [state.h.unsqueeze(0), state.c.to(x.dtype).unsqueeze(0)]
        train = torch.is_grad_enabled()
        h, last_h, last_c = torch.lstm(x, hx, weights, True, 1, 0.0, train, False, False)
        return h, State(last_h[0], last_c[0].to(state.c.dtype))


class GruLayer(_TorchLayer):
    """torch's GRU (Cho et al. 2014). Its state is h alone, in the dtype of the products.

    Its update gate z is the part of h that stays, like the forget gate of an LSTM.
    """

    title = "GRU"
    kind = nn.GRU

    def initial_state(self, lanes: int, dtype: torch.dtype, device: torch.device) -> State:
        return State(torch.zeros(lanes, self.config.hidden_size, dtype=dtype, device=device))

    def forward(self, x: Tensor, state: State, weights: list[Tensor]) -> tuple[Tensor, State]:
        """Hand the window to torch. x: [T, B, E]; returns h [T, B, H] and the state after."""
        train = torch.is_grad_enabled()
        h, last_h = torch.gru(x, state.h.unsqueeze(0), weights, True, 1, 0.0, train, False, False)
        return h, State(last_h[0])
