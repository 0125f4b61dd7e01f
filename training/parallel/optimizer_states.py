"""The optimiser states of a run: one that all ranks share, or one of each rank."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from model.errors import InputError

from .distributed import World


class OptimizerStates:
    """How many optimiser states there are, and which is this rank's."""

    def __init__(self, count: int = 1, index: int = 0):
        self.count, self.index = count, index

    def describe(self) -> dict[str, Any]:
        """Return a checkpoint's description of them, for `check_saved`."""
        return {"optimizer_states": self.count} if self.count > 1 else {}

    def check_saved(self, description: Mapping[str, Any], path: Path) -> None:
        """Raise InputError, naming the file, if a checkpoint has another number of states."""
        saved = description.get("optimizer_states", 1)
        if not isinstance(saved, int) or saved < 1:
            raise InputError(f"{path}: optimizer_states is {saved!r}; it should be a number")
        if saved != self.count:
            raise InputError(f"{path}: {self.reason_against(saved)}")

    def reason_against(self, saved: int) -> str:
        """Return why this run cannot continue with another number of states."""
        return f"optimizer_states is {saved}; this run has {self.count}"

    def send_to_main(self, tensors: Mapping[str, Tensor], world: World) -> None:
        """Send this rank's tensors to the main rank's `receive`; called by all other ranks."""
        if self.index:
            for tensor in tensors.values():
                sent = tensor.to(world.device).contiguous()
                world.finish(dist.isend(sent, dst=0))

    def receive(
        self, tensors: Mapping[str, Tensor], world: World
    ) -> Iterator[Mapping[str, Tensor]]:
        """Yield every state's tensors on the main rank, one state at a time, the given ones first.

        In all states the tensors have the same names, shapes and dtypes.
        """
        yield tensors
        for index in range(1, self.count):
            received = {}
            for name, own in tensors.items():
                buffer = torch.empty(own.shape, dtype=own.dtype, device=world.device)
                world.finish(dist.irecv(buffer, src=index))
                received[name] = buffer.cpu()
            yield received
