"""Memory for a window's activations, reused by the next window.

A fresh allocation of hundreds of megabytes is mapped page by page as it is first written, four
times slower than writing to memory that is already mapped. torch keeps a cache for CUDA, none for
the CPU. A tensor made here returns its memory when its last reference is gone, so nothing is reused
too early.
"""

import ctypes
import mmap
import threading
import weakref
from math import prod

import torch
from torch import Tensor

SMALLEST = 1 << 20  # bytes; the allocator itself keeps smaller blocks
# How much may be kept, as a multiple of the most that was ever in use at once. A smaller tensor may
# get a larger block, and then another block of that size is needed. Without slack, that block was
# dropped and mapped again in every step on Intel AMX.
_SLACK = 1.25
_HUGE_PAGE = 1 << 21  # bytes, on x86


class MemoryPool:
    """Blocks of memory that are not in use."""

    def __init__(self, smallest: int = SMALLEST) -> None:
        """smallest: bytes of the smallest tensor whose memory is kept."""
        self.smallest = smallest
        # Reentrant: the garbage collector may return a block while one is being taken.
        self.lock = threading.RLock()
        self.idle: list[Tensor] = []  # uint8; the longest idle block is first
        self.used = self.most_used = 0  # bytes

    def allocate(self, size: int) -> Tensor:
        """Return the smallest idle block that fits and is not twice too large, or a new one."""
        with self.lock:
            fitting = [block for block in self.idle if size <= block.numel() <= 2 * size]
            block = min(fitting, key=Tensor.numel, default=None)
            self.idle = [other for other in self.idle if other is not block]
        if block is None:
            block = _new_block(size)
        with self.lock:  # only now: the allocation may have failed
            self.used += block.numel()
            self.most_used = max(self.used, self.most_used)
        return block

    def release(self, block: Tensor) -> None:
        """Keep a block for the next `allocate`; drop the longest idle blocks beyond the limit."""
        with self.lock:
            self.used -= block.numel()
            self.idle.append(block)
            while sum(map(Tensor.numel, self.idle)) > _SLACK * self.most_used:
                del self.idle[0]

    def empty(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Return an uninitialised CPU tensor; its memory is returned when nothing refers to it."""
        size = prod(shape) * dtype.itemsize
        if size < self.smallest:
            return torch.empty(shape, dtype=dtype, device="cpu")
        block = self.allocate(size)
        lease = block.numpy()  # lives exactly as long as the storage of the tensor made from it
        weakref.finalize(lease, self.release, block).atexit = False
        return torch.from_numpy(lease)[:size].view(dtype).view(shape)


def _new_block(size: int) -> Tensor:
    """Return new memory, on huge pages if it is large and the system has them.

    The kernels stream through hundreds of megabytes: with pages of 4 KB, much of their time goes
    into looking up pages, most of all on a virtual machine.
    """
    if size < _HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(size, dtype=torch.uint8, device="cpu")
    # A huge page begins at a multiple of its size. What is not written is never mapped.
    longer = torch.empty(size + _HUGE_PAGE, dtype=torch.uint8, device="cpu")
    start = -longer.data_ptr() % _HUGE_PAGE
    block = longer[start : start + size]
    whole_pages = ctypes.c_size_t(size // _HUGE_PAGE * _HUGE_PAGE)
    # A wish: it may fail.
    ctypes.CDLL(None).madvise(ctypes.c_void_p(block.data_ptr()), whole_pages, mmap.MADV_HUGEPAGE)
    return block


_pool = MemoryPool()


def pooled_empty(*shape: int, dtype: torch.dtype) -> Tensor:
    """Return an uninitialised CPU tensor, in memory of this process's pool."""
    return _pool.empty(*shape, dtype=dtype)


def empty_like(tensor: Tensor) -> Tensor:
    """Return an uninitialised tensor of the same shape, dtype and device."""
    if tensor.device.type != "cpu":
        return torch.empty_like(tensor)
    return pooled_empty(*tensor.shape, dtype=tensor.dtype)
