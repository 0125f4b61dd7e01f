"""A cell over a window: one signature, a ladder of implementations."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from .cell import mlstm_step
from .deferred import deferred_mlstm
from .state import State

Backend = Literal["auto", "reference", "fused"]
Recurrence = Callable[[Tensor, State, Tensor, Tensor, Tensor], tuple[Tensor, State]]


def reference_mlstm(
    x_proj: Tensor, state: State, w_mh: Tensor, w_h: Tensor, b: Tensor
) -> tuple[Tensor, State]:
    """Apply `mlstm_step` T times under autograd: any device, any dtype.

    x_proj: [T, B, 5H]; the rest as in `mlstm_step`. Returns h [T, B, H] and the last state.
    """
    outputs = []
    for x_proj_t in x_proj:
        state = mlstm_step(x_proj_t, state, w_mh, w_h, b)
        outputs.append(state.h)
    return torch.stack(outputs), state


RECURRENCES: dict[str, Recurrence] = {
    "reference": reference_mlstm,
    "fused": deferred_mlstm,
    "auto": deferred_mlstm,
}
