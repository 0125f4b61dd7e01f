"""Skips fp16 steps that overflowed, without waiting for the GPU to report it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class SkipsOverflows:
    """An optimizer that skips overflowed steps itself, so that its GradScaler need not wait."""

    _step_supports_amp_scaling = True  # a GradScaler sets what follows
    grad_scale: Tensor | None = None  # stays None: gradients are unscaled before
    found_inf: Tensor | None = None  # above 0 if the step must change nothing

    def overflowed(self) -> bool | Tensor:
        """Return whether the step must change nothing; on a GPU as a tensor, without waiting."""
        assert self.grad_scale is None
        overflow = self.found_inf
        if overflow is None:
            return False
        return bool(overflow) if overflow.device.type == "cpu" else overflow > 0


@contextmanager
def undone_if(overflow: bool | Tensor, tensors: Sequence[Tensor]) -> Iterator[None]:
    """Undo changes to the tensors made in this context if `overflow` is a tensor that is true."""
    if not isinstance(overflow, Tensor):
        yield
        return
    before = [tensor.clone() for tensor in tensors]
    yield
    for tensor, old in zip(tensors, before, strict=True):
        tensor.copy_(torch.where(overflow, old, tensor))
