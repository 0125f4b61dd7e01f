"""The mean of all ranks' gradients, sent during backward in buckets, or after it in one piece."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import GradBucket
from torch.nn.parallel import DistributedDataParallel

from model.layers.layer import PerGateParameters

from .distributed import World
from .exchange import Clock, Exchange, gradients_of, ring_bytes

_LossOfOneToken = Callable[[PerGateParameters], Tensor]  # leaves: what receives the gradients


class _BucketSender:
    """Sends buckets of gradients and counts what it sends and waits for.

    DDP keeps the sender in C++, as the state of its hook, where Python's garbage collector does not
    see it. If the sender held a reference to DDP, neither would be freed, nor would the process
    group and gloo's threads, which sometimes abort when the interpreter exits.
    """

    def __init__(self, ranks: int, dtype: torch.dtype, clock: Clock):
        self.ranks, self.dtype, self.clock = ranks, dtype, clock
        self.payload = 0  # bytes that this rank has put into all-reduces

    def send(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Send a bucket; DDP calls this when all its gradients are ready."""
        self.clock.begin()  # again for every bucket: only the wait after the last counts
        buffer = bucket.buffer()
        travelling = buffer.to(self.dtype)
        self.payload += travelling.nbytes
        work = dist.all_reduce(travelling, async_op=True)
        assert work is not None
        future = work.get_future()
        # Divided in fp32: a gradient of 1e-5 over 128 ranks is zero in fp16.
        return future.then(lambda done: buffer.copy_(done.value()[0]).div_(self.ranks))


class BucketedExchange(Exchange):
    """torch's DDP sends a bucket as soon as backward has filled it."""

    leaves: PerGateParameters

    def __init__(
        self,
        leaves: PerGateParameters,
        world: World,
        dtype: torch.dtype,
        bucket_cap_mb: float,
        loss_of_one_token: _LossOfOneToken,
    ):
        super().__init__(world)
        self.sender, self.leaves = _BucketSender(world.size, dtype, self.clock), leaves
        self.ddp = DistributedDataParallel(
            _Leaves(self.leaves.all), bucket_cap_mb=bucket_cap_mb, gradient_as_bucket_view=True
        )
        self._rehearse(loss_of_one_token)
        # Registered only now, so that the sender does not count DDP's first gradients.
        self.ddp.register_comm_hook(self.sender, _BucketSender.send)

    def _rehearse(self, loss_of_one_token: _LossOfOneToken) -> None:
        """Send the gradients of one token, so that every step has the same layout of buckets.

        After sending the first gradients, DDP changes the layout to their order. gloo adds three
        ranks' numbers in an order that depends on their place in a bucket. Without this rehearsal,
        the first step after a resume would differ from the same step of an uninterrupted run.
        """
        self.ddp()
        loss_of_one_token(self.leaves).backward()
        self.ddp.zero_grad()

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        """Let DDP send every bucket that the backward pass fills, and wait for the last."""
        self.ddp()
        yield
        self.clock.end()
        self.sent_bytes = ring_bytes(self.world.size, self.sender.payload)
        self.leaves.gather_gradients()


class _Leaves(nn.Module):
    """The parameters whose gradients DDP sends.

    DDP starts waiting for gradients when its module is called. The call computes nothing, so the
    loss may be computed elsewhere.
    """

    def __init__(self, leaves: list[nn.Parameter]):
        super().__init__()
        self.leaves = nn.ParameterList(leaves)

    def forward(self) -> None:
        """Compute nothing."""


class FlatExchange(Exchange):
    """Nothing is sent while backward computes."""

    def __init__(self, parameters: Sequence[nn.Parameter], world: World, dtype: torch.dtype):
        super().__init__(world)
        self._parameters, self.dtype = parameters, dtype

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        yield
        self.clock.begin()
        self._send()
        self.clock.end()

    def _send(self) -> None:
        gradients = gradients_of(self._parameters)
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        travelling = flat.to(self.dtype)
        self.sent_bytes += ring_bytes(self.world.size, travelling.nbytes)
        dist.all_reduce(travelling)
        flat.copy_(travelling).div_(self.world.size)
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, part in zip(gradients, flat.split(sizes), strict=True):
            gradient.copy_(part.view_as(gradient))
