"""PowerSGD: two factors of low rank travel instead of a gradient.

Vogels et al. 2019 (arXiv:1905.13727), as torch has it.
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
        "PowerSGD's memory of what it has left out is not saved: it begins anew, after the first "
        "parallel.powersgd_start exchanges in full"
    )

    def __init__(self, groups: RankGroups, device: torch.device, *, rank: int, start: int):
        """Take the rank of the factors, and from which exchange on they are sent."""
        super().__init__(groups, torch.float32, device)
        self.device = device
        self.state = powersgd.PowerSGDState(
            None, matrix_approximation_rank=rank, start_powerSGD_iter=start
        )

    def send(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Put a bucket, or its factors, on the way."""
        self.clock.begin()
        state, before = self.state, self.state.total_numel_after_compression
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
