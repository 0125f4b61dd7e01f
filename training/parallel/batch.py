"""A window of tokens on a rank's device, prepared while the step on the one before runs."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from data_utils.lanes import Lanes, WindowBatch
from model.state import IGNORED


class Batch(NamedTuple):
    """A window on the device."""

    inputs: Tensor  # int64 [B, T]
    targets: Tensor  # int64 [B, T]; padding is IGNORED
    reset: Tensor  # bool [B]
    transitions: int  # targets that count, over all ranks
    characters: int  # bytes of text that these predict
    active_fraction: float = 1.0  # of the window, over all ranks, that is not padding


def as_batch(window: WindowBatch, device: torch.device) -> Batch:
    """Copy a window to the device; a rank without lanes gets padding: peers await its gradient."""
    if not len(window.tokens):
        window = _idle(window)
    tokens = copied(torch.from_numpy(window.tokens), device).long()
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    if (window.lengths < targets.shape[1]).any():
        lengths = copied(torch.from_numpy(window.lengths), device)
        padding = torch.arange(targets.shape[1], device=device) >= lengths.unsqueeze(1)
        targets = targets.masked_fill(padding, IGNORED)
    reset = copied(torch.from_numpy(window.reset), device)
    return Batch(
        inputs, targets, reset, window.transitions, window.characters, window.active_fraction
    )


def copied(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy to a device; to a GPU from pinned memory, so that the caller need not wait for it."""
    pinned = device.type == "cuda"
    return (tensor.pin_memory() if pinned else tensor).to(device, non_blocking=True)


def _idle(window: WindowBatch) -> WindowBatch:
    return window._replace(
        tokens=np.zeros((1, window.tokens.shape[1]), window.tokens.dtype),
        lengths=np.zeros(1, window.lengths.dtype),
        reset=np.ones(1, bool),
    )


class Prefetcher:
    """Provides the batches from `first_window` on; a thread prepares the next one in advance.

    end: stop before this window. The window after a run's last one may begin an epoch, and
    shuffling it would cost every rank time and memory.
    """

    def __init__(self, lanes: Lanes, device: torch.device, first_window: int, end: int):
        self.lanes, self.device, self.window, self.end = lanes, device, first_window, end
        self.waited = 0.0  # seconds in which steps waited for their batch
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __enter__(self) -> "Prefetcher":
        self.thread = ThreadPoolExecutor(
            1, "feed", initializer=_use_device, initargs=(self.device,)
        )
        self._prepare()
        return self

    def __exit__(self, *error: object) -> None:
        self.thread.shutdown(cancel_futures=True)

    def next(self) -> Batch:
        """Return the batch of this window and start the next one."""
        assert self.coming is not None, "the last batch was returned already"
        started = perf_counter()
        batch = self.coming.result()
        self.waited += perf_counter() - started
        if self.stream is not None:  # wait now, since the next batch is copied on this stream too
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(self.stream)
            for tensor in batch:
                if isinstance(tensor, Tensor):
                    tensor.record_stream(current)
        self.window += 1
        self._prepare()
        return batch

    def assign(self, own: slice) -> None:
        """Read these lanes from now on; make the prefetched batch again from them."""
        if self.coming is not None:
            self.coming.result()
        self.lanes.assign(own)
        self._prepare()

    def _prepare(self) -> None:
        over = self.window >= self.end
        self.coming: Future[Batch] | None = (
            None if over else self.thread.submit(self._make, self.window)
        )

    def _make(self, number: int) -> Batch:
        window = self.lanes[number]
        # torch.cuda.stream(None) would look for a GPU.
        with nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
            return as_batch(window, self.device)


def _use_device(device: torch.device) -> None:
    """Make the GPU of this rank the current one of a new thread.

    CUDA gives every thread GPU 0, where each rank would then allocate a context of 0.5 GB.
    """
    if device.type == "cuda":
        torch.cuda.set_device(device)
