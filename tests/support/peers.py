"""One rank of many, without the others: a process group of torch whose peers a test plays."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

# Does to this rank's tensor, in place, what the peers would; how many ranks exchange it.
Hears = Callable[[Tensor, int], object]


def nothing(tensor: Tensor, ranks: int) -> None:
    """Stand for peers that add zeros and already have the tensors that are sent."""


_heard: dict[str, Hears] = {}


class Peers(dist.ProcessGroup):
    """Exchanges that are over immediately."""

    def getBackendName(self) -> str:
        """Say what torch is to call the group."""
        return "peers"

    def allreduce(self, tensors: list[Tensor], options: object = None) -> dist.Work:
        """Sum over the ranks."""
        return self._exchange("all_reduce", tensors)

    def broadcast(self, tensors: list[Tensor], options: dist.BroadcastOptions) -> dist.Work:
        """Take what the main rank has."""
        assert options.rootRank == 0
        return self._exchange("broadcast", tensors)

    def allgather(
        self, outputs: list[list[Tensor]], tensors: list[Tensor], options: object = None
    ) -> dist.Work:
        """Take what every rank has: the same as this one."""
        for own, parts in zip(tensors, outputs, strict=True):
            for part in parts:
                part.copy_(own)
        return self._exchange("all_gather", tensors)

    def _exchange(self, name: str, tensors: list[Tensor]) -> dist.Work:
        for tensor in tensors:
            _heard.get(name, nothing)(tensor, self.size())
        future: torch.futures.Future[list[Tensor]] = torch.futures.Future()
        future.set_result(tensors)
        return torch._C._distributed_c10d._create_work_from_future(future)


dist.Backend.register_backend(
    "peers", lambda store, rank, size, timeout: Peers(rank, size), devices=["cpu"]
)


@contextmanager
def among_peers(rank: int, size: int, **heard: Hears) -> Iterator[None]:
    """Be this rank of so many. heard: what is heard in an `all_reduce` and in a `broadcast`."""
    _heard.update(heard)
    dist.init_process_group("peers", store=dist.HashStore(), rank=rank, world_size=size)
    try:
        yield
    finally:
        dist.destroy_process_group()
        _heard.clear()
