"""One byte of the multiplicative LSTM: the definition that every fast path is tested against.

Letters used in the whole repository:

    B  batch: lanes in training, texts in transfer      E  embedding size
    T  bytes in a window                                H  hidden units
    V  tokens: 256 bytes, or a vocabulary's             L  layers
    h  hidden state    c  cell state    m  multiplicative state    gates: i f u o

Source: Krause et al. 2016 (arXiv 1609.07959) with the output gate outside the tanh, as in
Radford et al. 2017 and in Puri et al. 2018.
"""

import torch.nn.functional as F
from torch import Tensor

from .state import State, accumulation_dtype


def mlstm_step(
    x_proj: Tensor,
    state: State,
    w_mh: Tensor,
    w_h: Tensor,
    b: Tensor,
) -> State:
    """Process one token and return the state after it.

    x_proj: [B, 5H], the input's terms of m (first H) and of the gates i f u o (last 4H).
    state: before the token; h [B, H] in the compute dtype, c [B, H] in the accumulation dtype.
    w_mh: [H, H], w_h: [4H, H], compute dtype. b: [4H], accumulation dtype.

    The products are in the compute dtype, everything between them in the accumulation dtype.
    """
    H = state.h.shape[-1]
    x_m, x_gates = x_proj.to(accumulation_dtype(x_proj.dtype)).split([H, 4 * H], dim=-1)
    m = x_m * F.linear(state.h, w_mh)  # [B, H]  the transition depends on the input
    z = x_gates + F.linear(m.to(state.h.dtype), w_h) + b  # [B, 4H]
    i, f, u, o = z.chunk(4, dim=-1)  # [B, H] each
    c = f.sigmoid() * state.c + i.sigmoid() * u.tanh()
    h = o.sigmoid() * c.tanh()
    return State(h.to(state.h.dtype), c)
