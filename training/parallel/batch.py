"""A window of tokens on a rank's device."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from data_utils.lanes import WindowBatch
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
