"""How a rank's gradients leave it: bucket by bucket as DDP fills them, or all in one piece."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd

from .clock import Clock
from .rank_groups import RankGroups


class Sender:
    """Makes gradients the mean of a group's, and counts what it sends and waits for.

    DDP keeps it as the state of its hook, in C++, where Python's collector does not look. It must
    therefore not lead back to DDP: the two would stay for good, and with them the process group
    and gloo's threads, which abort now and then when the interpreter goes.
    """

    def __init__(self, groups: RankGroups, dtype: torch.dtype, device: torch.device):
        self.groups, self.dtype, self.device = groups, dtype, device
        self.clock = Clock(device)
        self.payload = 0  # bytes that this rank has put into all-reduces
        self.powersgd: powersgd.PowerSGDState | None = None

    def compress(self, rank: int, start: int) -> None:
        """Send factors of that rank instead of gradients, from exchange `start` on."""
        self.powersgd = powersgd.PowerSGDState(
            None, matrix_approximation_rank=rank, start_powerSGD_iter=start
        )

    def send(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Put a bucket on its way: what DDP calls when all gradients in it are there."""
        self.clock.begin()  # again with every bucket: what counts is the wait after the last
        if self.powersgd is not None:
            return self._send_factors(self.powersgd, bucket)
        buffer, size = bucket.buffer(), self.groups.size
        travelling = buffer.to(self.dtype)
        self.payload += travelling.nbytes
        work = dist.all_reduce(travelling, async_op=True, group=self.groups.within)
        assert work is not None
        future = work.get_future()
        # Divided in fp32: a gradient of 1e-5 over 128 ranks is nothing to fp16.
        return future.then(lambda done: buffer.copy_(done.value()[0]).div_(size))

    def send_flat(self, gradients: Sequence[Tensor]) -> None:
        """Make the gradients of all ranks their mean, in place, in one piece."""
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        travelling = flat.to(self.dtype)
        self.payload += travelling.nbytes
        dist.all_reduce(travelling, group=self.groups.within)
        flat.copy_(travelling).div_(self.groups.size)
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, part in zip(gradients, flat.split(sizes), strict=True):
            gradient.copy_(part.view_as(gradient))

    def _send_factors(
        self, state: powersgd.PowerSGDState, bucket: GradBucket
    ) -> torch.futures.Future[Tensor]:
        before = state.total_numel_after_compression
        buffer = bucket.buffer()
        compressing = state.iter >= state.start_powerSGD_iter
        future = powersgd.powerSGD_hook(state, bucket)
        sent = state.total_numel_after_compression - before if compressing else buffer.numel()
        self.payload += sent * buffer.element_size()
        if self.device.type == "cpu":
            # PowerSGD reduces again in callbacks, which gloo runs as they come: those of two
            # buckets under way would meet in another order on each rank. NCCL keeps a stream's.
            future.wait()
            self.clock.end()
        return future
