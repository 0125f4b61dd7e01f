"""Steps of fp16 that overflowed, skipped without waiting for the GPU to say so."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class SkipsOverflows:
    """An optimizer of which a GradScaler does not ask, in every step, whether it overflowed."""

    _step_supports_amp_scaling = True  # a GradScaler sets what follows
    grad_scale: Tensor | None = None  # never: gradients are unscaled before
    found_inf: Tensor | None = None  # above 0 if the step is to change nothing

    def overflowed(self) -> bool | Tensor:
        """Return whether the step is to change nothing; on a GPU a tensor, not waited for."""
        assert self.grad_scale is None
        overflow = self.found_inf
        if overflow is None:
            return False
        return bool(overflow) if overflow.device.type == "cpu" else overflow > 0


@contextmanager
def undone_if(overflow: bool | Tensor, tensors: Sequence[Tensor]) -> Iterator[None]:
    """Let tensors change within; if `overflow` is a tensor that is true, put them back after it."""
    if not isinstance(overflow, Tensor):
        yield
        return
    before = [tensor.clone() for tensor in tensors]
    yield
    for tensor, old in zip(tensors, before, strict=True):
        tensor.copy_(torch.where(overflow, old, tensor))
