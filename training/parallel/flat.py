"""The mean of all ranks' gradients, sent in one piece after backward, as in 2018."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from model.layers.language_model import LanguageModel

from .distributed import World
from .strategy import Exchange, broadcast_parameters, gradients_of, ring_bytes


class FlatExchange(Exchange):
    """Nothing is sent while backward computes."""

    def __init__(self, model: LanguageModel, world: World, dtype: torch.dtype):
        """Take the dtype in which gradients travel."""
        super().__init__(model, world)
        self.dtype = dtype
        self.payload = 0  # bytes that this rank has put into all-reduces
        broadcast_parameters(model)

    @property
    def sent_bytes(self) -> float:
        """The bytes that this rank has sent so far, in a ring."""
        return ring_bytes(self.world.size, self.payload)

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        """Send all gradients when they are complete."""
        yield
        self.clock.begin()
        self._send()
        self.clock.end()

    def _send(self) -> None:
        gradients = gradients_of(self.model)
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        travelling = flat.to(self.dtype)
        self.payload += travelling.nbytes
        dist.all_reduce(travelling)
        flat.copy_(travelling).div_(self.world.size)
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, part in zip(gradients, flat.split(sizes), strict=True):
            gradient.copy_(part.view_as(gradient))
