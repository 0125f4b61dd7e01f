"""The recurrence as it is defined, under autograd."""

import torch
from torch import Tensor

from ...cell import mlstm_step
from ...state import State
from ..window import RecurrenceInput


def reference_mlstm(window: RecurrenceInput) -> tuple[Tensor, State]:
    """Apply `mlstm_step` T times under autograd, on any device: h [T, B, H] and the state after."""
    weights, state, outputs = window.weights, window.state, []
    for x_proj_t in window.looked_up().x_proj:
        state = mlstm_step(x_proj_t, state, weights.w_mh, weights.w_h, weights.b)
        outputs.append(state.h)
    return torch.stack(outputs), state
