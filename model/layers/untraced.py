"""What torch.compile has to call, not trace; imported only while it traces.

The kernels get the addresses of tensors. In a traced function these tensors may be freed before the
kernels use them, which then write into memory that belongs to others.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..state import State
from .recurrence import pack, recur

# Importing torch's compiler takes longer than loading a model. Here it is already imported.
pack_untraced: Callable[..., Tensor | None] = torch.compiler.disable(pack)
recur_untraced: Callable[..., tuple[Tensor, State]] = torch.compiler.disable(recur)
