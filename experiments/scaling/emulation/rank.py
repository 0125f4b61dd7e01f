"""A node's rank: takes requests from standard input, and turns with the other ranks.

Started by ranks.py in a namespace. A request is a line of JSON: of how many ranks, on which port
they meet, and the cases, which take turns. The first rank answers each with a line: for every case
a list of turns.
"""

import json
import os
import sys
import time
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from experiments.exchange.rank import WARM_UP
from training.parallel.distributed import World, launched
from training.parallel.exchange import Exchange, ParallelConfig

from .sleeper import Punctual, sleep_until

MARGIN = 0.03  # seconds until all ranks know when to begin


class Trial(Protocol):
    """A case, laid out on this rank."""

    def take(self, *, counts: bool) -> dict[str, float]:
        """Take one turn; where it does not count, the exchange is all that matters."""


class Step:
    """Some windows of computing, and an exchange."""

    def __init__(self, case: dict[str, Any], world: World):
        self.world, self.windows, self.seconds = world, case["windows"], case["seconds"]
        self.sleeper = Punctual(case["numbers"], case["ready"], self.seconds, case["backward"])
        config = ParallelConfig(**case["parallel"])
        self.exchange = Exchange(self.sleeper, config, world)  # type: ignore[arg-type]

    def take(self, *, counts: bool) -> dict[str, float]:
        """Compute and exchange; the slowest rank's seconds are the step's."""
        windows = self.windows if counts else 1
        self.sleeper.zero_grad(set_to_none=True)
        sent, begun = self.exchange.sent_bytes, agreed_start(self.world)
        for number in range(windows):
            self.sleeper.begin(begun + number * self.seconds)
            with self.exchange.round(last=number == windows - 1):
                nats, _ = self.exchange.compute()
                nats.backward()
        seconds, late = slowest(self.world, time.perf_counter() - begun, self.sleeper.late)
        return {"seconds": seconds, "late": late, "sent_bytes": self.exchange.sent_bytes - sent}


class AllReduce:
    """All-reduces of equal tensors, all of them begun at once."""

    def __init__(self, case: dict[str, Any], world: World):
        self.world = world
        self.tensors = [torch.zeros(case["numbers"]) for _ in range(case["operations"])]

    def take(self, *, counts: bool) -> dict[str, float]:
        """Reduce; the slowest rank's seconds count."""
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
    """Wait for a moment that the first rank sets; return it.

    All ranks are processes of one machine and read one clock.
    """
    start = torch.tensor(time.perf_counter() + MARGIN, dtype=torch.float64)
    if world.size > 1:
        dist.broadcast(start, src=0)
    sleep_until(float(start))
    return float(start)


def slowest(world: World, *seconds: float) -> list[float]:
    """Return the largest of all ranks, of each."""
    mine: Tensor = torch.tensor(seconds, dtype=torch.float64)
    largest: list[float] = world.gather(mine).amax(dim=0).tolist()
    return largest


def take_turns(request: dict[str, Any], world: World) -> list[list[dict[str, float]]]:
    """Let the cases take turns until each has had its own; return these, of each case."""
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
