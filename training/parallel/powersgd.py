"""PowerSGD: two factors of low rank are sent instead of a gradient.

Vogels et al. 2019 (arXiv:1905.13727), as in torch.
"""

import torch
from torch import Tensor
from torch.distributed import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd

from .buckets import BucketSender
from .rank_groups import RankGroups


class PowerSgdSender(BucketSender):
    """Sends a bucket's factors, in fp32."""

    forgets = (
        "PowerSGD's memory of what it left out is not saved: it starts again, after the first "
        "parallel.powersgd_start exchanges in full"
    )

    def __init__(self, groups: RankGroups, device: torch.device, *, rank: int, start: int):
        """Take the rank of the factors, and the exchange from which on they are sent."""
        super().__init__(groups, torch.float32, device)
        self.device = device
        self.state = powersgd.PowerSGDState(
            None, matrix_approximation_rank=rank, start_powerSGD_iter=start
        )

    def send(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Send a bucket, or its factors."""
        self.clock.begin()
        state, before = self.state, self.state.total_numel_after_compression
        buffer = bucket.buffer()
        compressing = state.iter >= state.start_powerSGD_iter
        future = powersgd.powerSGD_hook(state, bucket)
        sent = state.total_numel_after_compression - before if compressing else buffer.numel()
        self.payload += sent * buffer.element_size()
        if self.device.type == "cpu":
            # PowerSGD reduces again in callbacks, which gloo runs in any order: those of two
            # buckets could run in different orders on different ranks. NCCL keeps a stream's order.
            future.wait()
            self.clock.end()
        return future
