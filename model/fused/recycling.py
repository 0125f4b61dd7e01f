"""Memory for a window's activations, taken up again by the next window.

A fresh allocation of hundreds of megabytes is mapped page by page as it is first written, four
times slower than writing to memory that is already there. torch keeps a cache for CUDA, none for
the CPU. A tensor made here gives its memory back when the last reference to it is gone, wherever
that is held, so nothing is ever reused too early.
"""

import weakref
from math import prod

import torch
from torch import Tensor

SMALLEST = 1 << 20  # bytes; below this the allocator keeps memory itself
MOST_IDLE = 16  # blocks
_idle: list[Tensor] = []


def recycled_empty(*shape: int, dtype: torch.dtype) -> Tensor:
    """Return an uninitialised CPU tensor."""
    size = prod(shape) * dtype.itemsize
    if size < SMALLEST:
        return torch.empty(shape, dtype=dtype)
    block = _take(size)
    lease = block.numpy()  # lives exactly as long as the storage of the tensor made from it
    weakref.finalize(lease, _give_back, block).atexit = False
    return torch.from_numpy(lease)[:size].view(dtype).view(shape)


def empty_like(tensor: Tensor) -> Tensor:
    """Return an uninitialised tensor of the same shape, dtype and device."""
    if tensor.device.type != "cpu":
        return torch.empty_like(tensor)
    return recycled_empty(*tensor.shape, dtype=tensor.dtype)


def _take(size: int) -> Tensor:
    """Return the smallest idle block that fits and is not twice too large, or a new one."""
    fitting = [block for block in _idle if size <= block.numel() <= 2 * size]
    if not fitting:
        return torch.empty(size, dtype=torch.uint8)
    best = min(fitting, key=Tensor.numel)
    _idle[:] = [block for block in _idle if block is not best]
    return best


def _give_back(block: Tensor) -> None:
    _idle.append(block)
    del _idle[:-MOST_IDLE]
