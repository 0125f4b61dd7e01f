"""A rank whose computing is sleep: gradients come when a recorded profile says, then travel.

Started by experiments.exchange.replay; the first one prints a line of JSON for every case.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from model.state import State
from training.parallel.distributed import launched
from training.parallel.exchange import Exchange, ParallelConfig

WARM_UP = 3  # steps that are not counted: DDP lays its buckets anew after the first


class Stage(torch.autograd.Function):
    """A leaf's gradient, some seconds after the one before it."""

    @staticmethod
    def forward(
        ctx: Any, passed: Tensor, leaf: Tensor, gradient: Tensor, wait: Callable[[], None]
    ) -> Tensor:
        ctx.gradient, ctx.wait = gradient, wait
        return passed.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        ctx.wait()
        return grad, ctx.gradient, None, None


class Sleeper(nn.Module):
    """Stands for an objective and its model: leaves of given shapes, ready at given moments."""

    def __init__(self, leaves: list[dict[str, Any]], seconds: float, backward: float):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.leaves = nn.ParameterList(torch.zeros(row["shape"]) for row in leaves)
        self.gradients = [torch.randn(row["shape"], generator=generator) * 1e-3 for row in leaves]
        moments = [0.0, *(row["ready"] for row in leaves)]
        self.pauses = [(late - early) * backward * seconds for early, late in pairwise(moments)]
        self.forward_seconds = (1 - backward) * seconds

    @property
    def model(self) -> "Sleeper":
        """Return what an objective's model is to the exchange."""
        return self

    def split_leaves(self) -> list[nn.Parameter]:
        """Return the leaves, as a language model does."""
        return list(self.leaves)

    def gather_gradients(self) -> None:
        """Do nothing: the leaves are the parameters."""

    def pause(self, seconds: float) -> None:
        """Compute for so long."""
        time.sleep(seconds)

    def forward(self) -> tuple[Tensor, State]:
        """Sleep for the forward pass; the first to be ready is the last in the chain."""
        self.pause(self.forward_seconds)
        passed = torch.zeros((), requires_grad=True)
        stages = list(zip(self.leaves, self.gradients, self.pauses, strict=True))
        for leaf, gradient, pause in reversed(stages):
            passed = Stage.apply(passed, leaf, gradient, partial(self.pause, pause))
        return passed, State(passed, passed)


def main() -> None:
    """Take steps as the JSON on the command line says, case after case."""
    request = json.loads(sys.argv[1])
    with launched("cpu") as world:
        torch.set_num_threads(1)
        for case in request["cases"]:
            sleeper = Sleeper(case["leaves"], request["seconds"], request["backward"])
            exchange = Exchange(sleeper, ParallelConfig(**case["parallel"]), world)  # type: ignore[arg-type]
            rows = [step(sleeper, exchange) for _ in range(WARM_UP + request["steps"])][WARM_UP:]
            if world.is_main:
                print(json.dumps({key: median_of(rows, key) for key in rows[0]}), flush=True)


def step(sleeper: Sleeper, exchange: Exchange) -> dict[str, float]:
    """Take one step; return its seconds, those exposed to communication, and the bytes sent."""
    dist.barrier()
    sleeper.zero_grad(set_to_none=True)
    sent, started = exchange.sent_bytes, time.perf_counter()
    with exchange.round(last=True):
        nats, _ = exchange.compute()
        nats.backward()
    return {
        "seconds": time.perf_counter() - started,
        "exposed_seconds": exchange.clock.take(),
        "sent_bytes": exchange.sent_bytes - sent,
    }


def median_of(rows: list[dict[str, float]], key: str) -> float:
    """Return the median of a key."""
    return statistics.median(row[key] for row in rows)


if __name__ == "__main__":
    main()
