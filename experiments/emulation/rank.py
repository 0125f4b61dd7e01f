"""The rank of an emulated node: its computing is sleep, its exchange of gradients is real.

`Ranks` starts one on each node. A rank reads requests from standard input, one line of JSON each:
how many ranks work together, the port where they meet, and the cases, which take turns. The first
rank answers a request with one line: for each case a list of turns.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from model.state import State
from training.parallel.distributed import World, launched
from training.parallel.exchange import ParallelConfig, make_exchange

WARM_UP = 3  # turns that do not count: DDP rebuilds its buckets after the first
MARGIN = 0.03  # seconds within which all ranks learn when to begin


class Stage(torch.autograd.Function):
    """Hand over the gradient of a leaf after a pause in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, passed: Tensor, leaf: Tensor, gradient: Tensor, pause: Callable[[], None]
    ) -> Tensor:
        ctx.gradient, ctx.pause = gradient, pause
        return passed.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        ctx.pause()
        return grad, ctx.gradient, None, None


class Sleeper(nn.Module):
    """Take the place of an objective and its model; sleep where they would compute.

    Each leaf has a shape and the moment at which its gradient is ready, as a part of backward.
    """

    def __init__(self, leaves: list[dict[str, Any]], seconds: float, backward: float):
        """seconds: of computing; backward: the part of them that is backward.

        Every pause ends at a moment counted from the start of the window. What the exchange does
        on this machine's cores delays nothing, as on a GPU, where it has a stream of its own.
        """
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        shapes = [leaf["shape"] for leaf in leaves]
        self.leaves = nn.ParameterList(torch.zeros(shape) for shape in shapes)
        self.gradients = [torch.randn(shape, generator=generator) * 1e-3 for shape in shapes]
        moments = [0.0, *(leaf["ready"] for leaf in leaves)]
        self.pauses = [(late - early) * backward * seconds for early, late in pairwise(moments)]
        self.forward_seconds = (1 - backward) * seconds
        self.due = self.late = 0.0  # when the last pause had to end, and how late it ended

    def split_leaves(self) -> list[nn.Parameter]:
        """Return the leaves, as a language model does."""
        return list(self.leaves)

    def gather_gradients(self) -> None:
        """Do nothing: here the leaves are the parameters."""

    def begin(self, moment: float) -> None:
        """Let the next window begin at a moment of `time.perf_counter`."""
        self.due = moment

    def pause(self, seconds: float) -> None:
        """Sleep where computing would take so many seconds."""
        self.due += seconds
        sleep_until(self.due)
        self.late = time.perf_counter() - self.due

    def forward(self) -> tuple[Tensor, State]:
        """Sleep for the forward pass; the leaf that is ready first is the last in the chain."""
        self.pause(self.forward_seconds)
        passed = torch.zeros((), requires_grad=True)
        stages = list(zip(self.leaves, self.gradients, self.pauses, strict=True))
        for leaf, gradient, pause in reversed(stages):
            passed = Stage.apply(passed, leaf, gradient, partial(self.pause, pause))
        return passed, State(passed, passed)


class Trial(Protocol):
    """A case that this rank is ready to measure."""

    def take(self, *, counts: bool) -> dict[str, float]:
        """Take one turn; one that does not count needs the exchange alone."""


class Step:
    """Some windows of computing, then an exchange."""

    def __init__(self, case: dict[str, Any], world: World):
        self.world, self.windows, self.seconds = world, case["windows"], case["seconds"]
        self.sleeper = Sleeper(case["leaves"], self.seconds, case["backward"])
        config = ParallelConfig(**case["parallel"])
        self.exchange = make_exchange(self.sleeper, config, world)

    def take(self, *, counts: bool) -> dict[str, float]:
        """Compute and exchange; the seconds are those of the slowest rank."""
        windows = self.windows if counts else 1
        self.sleeper.zero_grad(set_to_none=True)
        sent, begun = self.exchange.sent_bytes, agreed_start(self.world)
        for number in range(windows):
            self.sleeper.begin(begun + number * self.seconds)
            nats, _ = self.sleeper()
            with self.exchange.during_backward() if number == windows - 1 else nullcontext():
                nats.backward()
        ended, exposed = time.perf_counter(), self.exchange.clock.take()
        seconds, late = slowest(self.world, ended - begun, self.sleeper.late)
        return {
            "seconds": seconds,
            "late": late,
            "exposed_seconds": exposed,
            "sent_bytes": self.exchange.sent_bytes - sent,
        }


class AllReduce:
    """All-reduces of equal tensors, all begun at once."""

    def __init__(self, case: dict[str, Any], world: World):
        self.world = world
        self.tensors = [torch.zeros(case["numbers"]) for _ in range(case["operations"])]

    def take(self, *, counts: bool) -> dict[str, float]:
        """Reduce; the seconds are those of the slowest rank."""
        begun = agreed_start(self.world)
        under_way = [dist.all_reduce(tensor, async_op=True) for tensor in self.tensors]
        for work in under_way:
            assert work is not None
            work.wait()
        (seconds,) = slowest(self.world, time.perf_counter() - begun)
        size = sum(tensor.nbytes for tensor in self.tensors)
        sent = 2 * (self.world.size - 1) / self.world.size * size
        return {"seconds": seconds, "late": 0.0, "sent_bytes": sent}


KINDS: dict[str, type[Step] | type[AllReduce]] = {"step": Step, "all_reduce": AllReduce}


def agreed_start(world: World) -> float:
    """Wait for a moment that the first rank chooses, and return it.

    All ranks are processes of one machine, so they read one clock.
    """
    start = torch.tensor(time.perf_counter() + MARGIN, dtype=torch.float64)
    if world.size > 1:
        dist.broadcast(start, src=0)
    sleep_until(float(start))
    return float(start)


def sleep_until(moment: float) -> None:
    """Sleep until a moment of `time.perf_counter`."""
    remaining = moment - time.perf_counter()
    if remaining > 0:
        time.sleep(remaining)


def slowest(world: World, *seconds: float) -> list[float]:
    """Return the largest value among all ranks, for each argument."""
    mine: Tensor = torch.tensor(seconds, dtype=torch.float64)
    largest: list[float] = world.gather(mine).amax(dim=0).tolist()
    return largest


def take_turns(request: dict[str, Any], world: World) -> list[list[dict[str, float]]]:
    """Measure the cases in turns; return the turns of each case that count."""
    cases = request["cases"]
    trials: list[Trial] = [KINDS[case["kind"]](case, world) for case in cases]
    rows: list[list[dict[str, float]]] = [[] for _ in cases]
    for turn in range(WARM_UP + max(case["turns"] for case in cases)):
        for case, trial, own in zip(cases, trials, rows, strict=True):
            if turn < WARM_UP:
                trial.take(counts=False)
            elif len(own) < case["turns"]:
                own.append(trial.take(counts=True))
    return rows


def main() -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin:
        request = json.loads(line)
        if int(os.environ["RANK"]) >= request["ranks"]:
            continue
        os.environ["WORLD_SIZE"] = str(request["ranks"])
        os.environ["MASTER_PORT"] = str(request["port"])
        with launched("cpu") as world:
            torch.set_num_threads(1)
            rows = take_turns(request, world)
            if world.is_main:
                print(json.dumps(rows), flush=True)


if __name__ == "__main__":
    main()
