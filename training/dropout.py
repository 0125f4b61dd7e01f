"""Which units the decoder sees: drawn for each lane of a window, the same on however many ranks."""

import numpy as np
import torch
from torch import Tensor


def draw_kept(dropout: float, *, seed: int, window: int, lanes: slice, units: int) -> Tensor:
    """Return which units of some lanes are kept in a window, bool [B, H]: all but this part.

    A lane's numbers are in the same place of the window's stream whichever lanes are asked for: it
    is begun at the first of them. A double takes one step of PCG64.
    """
    stream = np.random.PCG64([seed, window]).advance(lanes.start * units)
    random = np.random.Generator(stream).random((lanes.stop - lanes.start, units))
    return torch.from_numpy(random >= dropout)
