"""Every compiled kernel of the recurrence, each in the dtypes that it multiplies in."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from model.kernels.amx import mlstm
from model.kernels.amx.library import runs_on_tiles
from model.kernels.compilation import window_library
from model.kernels.cpp import mlstm as cpp
from model.layers.recurrence import Recurrence
from tests.model.layers.windows import EPS, tolerance


class Kernel(NamedTuple):
    """A compiled kernel and its dtype."""

    run: Recurrence
    pack: Callable[[Tensor, Tensor], Tensor]
    dtype: torch.dtype
    emulated: bool = False

    def tolerance(self, T: int, H: int) -> float:
        """Return the relative error that the kernel's roundings explain."""
        return tolerance(self.dtype, T, H)

    @property
    def rounding(self) -> float:
        """The error of a number kept in the dtype."""
        return 0.0 if self.dtype == torch.float32 else EPS[self.dtype]


KERNELS = {
    "fp32": Kernel(cpp.compiled_mlstm, cpp.pack, torch.float32),
    "bf16": Kernel(cpp.compiled_mlstm, cpp.pack, torch.bfloat16),
    "bf16, tiles": Kernel(mlstm.tiled_mlstm, mlstm.pack, torch.bfloat16),
    "bf16, tiles emulated": Kernel(mlstm.tiled_mlstm, mlstm.pack, torch.bfloat16, emulated=True),
}


def skip_unless_it_runs(kernel: Kernel) -> None:
    """Skip a test of a kernel that this processor has no instructions for."""
    if window_library() is None:
        pytest.skip("no compiler")
    weight = torch.empty(2, 2, dtype=kernel.dtype)
    on_tiles = kernel.run is mlstm.tiled_mlstm
    runs = runs_on_tiles(weight) if on_tiles else cpp.runs_compiled(weight)
    if not runs:
        assert kernel.dtype != torch.float32
        pytest.skip("this processor has no such products")
