"""The mean of all ranks' gradients, sent bucket by bucket while backward computes the rest."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import GradBucket
from torch.nn.parallel import DistributedDataParallel

from model.layers.language_model import LanguageModel
from model.layers.per_gate_parameters import PerGateParameters

from ..feeding import Batch
from ..objective import Objective
from .clock import Clock
from .distributed import World
from .optimizer_states import OptimizerStates


class Exchange:
    """The part of a training step that involves other ranks; for a single process, nothing.

    The trainer computes forward and backward itself and calls the methods in this order:
    `gradient_scale` before the first loss, `during_backward` around the last backward pass of a
    step, `on_any_rank` if losses are scaled, `update` around the optimisers.
    """

    leaves: PerGateParameters | None = None
    """Tensors that receive the gradients in backward; if absent, the parameters."""

    def __init__(self, model: LanguageModel, world: World):
        self.model, self.world = model, world
        self.clock = Clock(world.device)  # seconds of only the exchange
        self.states = OptimizerStates()

    @property
    def sent_bytes(self) -> float:
        """The bytes that this rank has sent so far."""
        return 0.0

    def lanes_averaged(self, lanes: int) -> float:
        """Return how many of the lanes an optimiser's gradient averages: its rate depends on it."""
        return lanes

    def gradient_scale(self, batches: Sequence[Batch]) -> float | Tensor:
        """Return the factor of a step's nats that makes the mean of all ranks per token."""
        return self.world.size / sum(batch.transitions for batch in batches)

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        """Within it, run a step's last backward pass; then every gradient is the ranks' mean."""
        yield

    def on_any_rank(self, found: Tensor) -> Tensor:
        """Return whether something was found on any rank, given whether it was on this one.

        found: 0 or 1, fp32 []. After `during_backward` all ranks have the same gradient.
        """
        return found

    @contextmanager
    def update(self) -> Iterator[None]:
        """Within this context, run the step of the optimisers."""
        yield


class BucketSender:
    """Sends buckets of gradients and counts what it sends and waits for.

    DDP keeps it as the state of its hook, in C++, which Python's collector does not see. It must
    therefore hold no reference to DDP: neither would be freed, nor the process group and gloo's
    threads, which sometimes abort when the interpreter exits.
    """

    def __init__(self, world: World, dtype: torch.dtype):
        """Take the dtype in which gradients travel."""
        self.ranks, self.dtype = world.size, dtype
        self.clock = Clock(world.device)
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
        self, model: LanguageModel, world: World, sender: BucketSender, bucket_cap_mb: float
    ):
        super().__init__(model, world)
        self.sender, self.clock = sender, sender.clock
        self.leaves = model.per_gate_parameters()
        self.ddp = DistributedDataParallel(
            _Leaves(self.leaves.all),
            bucket_cap_mb=bucket_cap_mb,
            gradient_as_bucket_view=True,
        )
        self._rehearse()
        # From here on: the sender does not count DDP's first gradients.
        self.ddp.register_comm_hook(sender, type(sender).send)

    def _rehearse(self) -> None:
        """Send the gradients of one token, so that every step has the same layout of buckets.

        DDP changes the layout, to the order of the first gradients, after it has sent those. gloo
        adds three ranks' numbers in an order that depends on their place in a bucket: without this,
        the first step after a resume would differ from that of an uninterrupted run.
        """
        token = torch.zeros(1, 1, dtype=torch.int64, device=self.world.device)
        state = self.model.initial_state(1)
        self.ddp()
        nats, _ = Objective(self.model)(token, token, state, leaves=self.leaves)
        nats.backward()
        self.ddp.zero_grad()

    @property
    def sent_bytes(self) -> float:
        """The bytes that this rank has sent so far, in a ring."""
        return ring_bytes(self.sender.ranks, self.sender.payload)

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        """Let DDP send every bucket that the backward pass fills, and wait for the last."""
        self.ddp()
        yield
        self.clock.end()
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


def ring_bytes(ranks: int, payload: int) -> float:
    """Return what a rank sends in a ring all-reduce of a payload, in bytes."""
    return 2 * (ranks - 1) / ranks * payload


def begin_as_one(model: LanguageModel) -> None:
    """Give every rank the main rank's parameters, as DDP does by itself."""
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), src=0)


def gradients_of(model: LanguageModel) -> list[Tensor]:
    """Return the existing gradients, in the order of the parameters."""
    return [p.grad for p in model.parameters() if p.grad is not None]
