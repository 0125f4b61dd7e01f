"""Time the parts of a training step: of one process, of DDP's ranks, of DataParallel's threads.

python -m torch.distributed.run --standalone --nproc-per-node 2 -m experiments.scaling.step_parts \\
    --corpus PART --output F.json

torch.nn.DataParallel refuses CPUs: without a GPU it calls the module, and its parts raise. So the
steps that it takes are taken here: copy the weights to every replica, run the replicas forward as
threads, run them backward, add up their gradients, update. DDP is the trainer itself.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any

import torch

from configs import command
from data_utils.corpus import open_corpus
from data_utils.lanes import Lanes
from data_utils.provenance import describe_origin
from model.files.storage import write_json
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from training.feeding import Prefetcher
from training.objective import Objective
from training.optimizers.optim import OptimConfig
from training.parallel.batch import Batch
from training.parallel.distributed import World, launched
from training.parallel.exchange import ParallelConfig
from training.trainer import TrainConfig, Trainer

Row = Mapping[str, float]  # seconds of each part
REPLICAS = 2  # ranks, or threads of one of them
WAYS: dict[str, dict[str, Any]] = {  # with the settings of the exchange
    "alone": {},
    "threads": {},
    "ddp": {},
    "ddp fp16": {"compression": "fp16"},
    "flat fp16": {"compression": "fp16", "flat": True},
}
ALONE = ("alone", "threads")  # in one process, while the other one waits
WARM_UP = 3  # steps
TIMEOUT = 600.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time the steps of every case, in turns."""

    corpus: Path
    """A prepared corpus of bytes."""
    output: Path
    """File of the results."""
    units: tuple[int, ...] = (64, 256)
    """H, units."""
    lanes: int = 32
    """Lanes of a replica."""
    window: int = 64
    """T, bytes of a lane in a window."""
    steps: int = 8
    """Steps of a case in a round."""
    rounds: int = 7
    """Rounds in which every case has its turn."""


@dataclass(frozen=True)
class Case:
    """One way to train one model."""

    way: str  # of WAYS
    units: int
    backend: str  # auto, or reference: a loop over bytes in Python


def main() -> None:
    options = command.parse(Options, __doc__)
    with launched("cpu", TIMEOUT) as world:
        found = measure(options, world)
        if world.is_main:
            settings = {**asdict(options), "corpus": options.corpus.name}
            result = {
                "cases": [described(options, case, rounds) for case, rounds in found.items()],
                "load": os.getloadavg(),
                "config": {**settings, "output": options.output.name},
                "origin": describe_origin(),
            }
            write_json(options.output, result)


def measure(options: Options, world: World) -> dict[Case, list[Row]]:
    """Return the medians of each case's parts in every round; the cases take turns."""
    found: dict[Case, list[Row]] = {}
    for turn in range(options.rounds):
        for case in cases_of(options):
            world.barrier()
            if case.way in ALONE and not world.is_main:
                continue
            one = World(0, 1, world.device) if case.way in ALONE else world
            rows = steps_of(options, case, one)
            parts = {name: median(row[name] for row in rows) for name in rows[0]}
            found.setdefault(case, []).append(parts)
            if world.is_main:
                print(turn, case, {n: round(1000 * s, 2) for n, s in parts.items()}, flush=True)
    return found


def cases_of(options: Options) -> list[Case]:
    """Return every case; the loop over bytes only of the fewest units, without other exchanges."""
    compiled = [Case(way, units, "auto") for units in options.units for way in WAYS]
    return compiled + [Case(way, min(options.units), "reference") for way in (*ALONE, "ddp")]


def described(options: Options, case: Case, rounds: Sequence[Row]) -> dict[str, Any]:
    """Return the median of each part over the rounds, and the extremes of the whole step."""
    replicas = 1 if case.way == "alone" else REPLICAS
    parts = {name: median(row[name] for row in rounds) for name in rounds[0]}
    seconds = [row["step"] for row in rounds]
    return {
        **asdict(case),
        "replicas": replicas,
        "milliseconds": {name: 1000 * value for name, value in parts.items()},
        "step_range": [1000 * min(seconds), 1000 * max(seconds)],
        "rounds": [dict(row) for row in rounds],
        "characters_per_second": replicas * options.lanes * options.window / parts["step"],
    }


class Parts:
    """Seconds of each part of a step, by the clock and of the processor."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the seconds within to a part."""
        began, processor = time.perf_counter(), time.process_time()
        yield
        for key, now, then in (
            (name, time.perf_counter(), began),
            (f"{name} processor", time.process_time(), processor),
        ):
            self.seconds[key] = self.seconds.get(key, 0.0) + now - then

    def timing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that adds its seconds to a part."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.timed(name):
                return call(*args, **kwargs)

        return timed


def steps_of(options: Options, case: Case, world: World) -> list[Row]:
    """Return the parts of every step after the warm-up, on this rank."""
    threads = REPLICAS if case.way == "threads" else 1
    lanes = options.lanes * world.size * threads
    trainer = make_trainer(options, case, world, lanes)
    parts = Parts()
    rows: list[Row] = []
    step = Threads(trainer, parts).step if case.way == "threads" else ranks(trainer, parts)
    read = Lanes(
        open_corpus(options.corpus).splits["train"],
        lanes=lanes,
        window=options.window,
        own=world.own_slice(lanes),
    )
    with Prefetcher(read, world.device, 0) as prefetcher:
        for number in range(WARM_UP + options.steps):
            parts.seconds = {}
            trainer.exchange.clock.lap()
            began, processor = time.perf_counter(), time.process_time()
            with parts.timed("data"):
                batch = prefetcher.next()
            step(batch)
            row = {**parts.seconds, "step": time.perf_counter() - began}
            row["processor"] = time.process_time() - processor  # of this process, all threads
            row["exposed"] = trainer.exchange.clock.lap()
            row["backward"] -= row["exposed"]
            if number >= WARM_UP:
                rows.append(row)
    return rows


def make_trainer(options: Options, case: Case, world: World, lanes: int) -> Trainer:
    """Return the trainer of the case."""
    config = ModelConfig(hidden_size=case.units, backend=case.backend)  # type: ignore[arg-type]
    return Trainer(
        build_model(config, seed=0),
        optim=OptimConfig(lr=1e-3, clip_norm=1.0),
        train=TrainConfig(precision="fp32"),
        world=world,
        lanes=lanes,
        steps=WARM_UP + options.steps + 1,
        seed=0,
        parallel=ParallelConfig(**WAYS[case.way]),
    )


def ranks(trainer: Trainer, parts: Parts) -> Callable[[Batch], None]:
    """Return the trainer's own step, its parts timed."""
    during = trainer.exchange.during_backward

    @contextmanager
    def timed_backward() -> Iterator[None]:
        with parts.timed("backward"), during():
            yield

    trainer.objective.forward = parts.timing("forward", trainer.objective.forward)  # type: ignore
    trainer.exchange.during_backward = timed_backward  # type: ignore
    trainer._update = parts.timing("update", trainer._update)  # type: ignore
    return trainer.train


class Threads:
    """DataParallel's step: replicas of a model as threads of one process."""

    def __init__(self, trainer: Trainer, parts: Parts):
        self.trainer, self.parts = trainer, parts
        self.replicas = [deepcopy(trainer.model) for _ in range(REPLICAS)]
        self.objectives = [Objective(replica) for replica in self.replicas]
        lanes = trainer.lanes // REPLICAS
        self.states = [trainer.model.initial_state(lanes) for _ in range(REPLICAS)]

    def step(self, batch: Batch) -> None:
        """Take one step."""
        parts, weights = self.parts, list(self.trainer.model.parameters())
        with parts.timed("copy"), torch.no_grad():
            for replica in self.replicas:
                torch._foreach_copy_([*replica.parameters()], weights)
                replica.zero_grad(set_to_none=True)
        with parts.timed("forward"):
            losses = self._together(lambda number: self._forward(batch, number))
        with parts.timed("backward"):
            self._together(lambda number: losses[number].backward())
        with parts.timed("gather"):
            gradients = [[p.grad for p in replica.parameters()] for replica in self.replicas]
            for weight, *of_replicas in zip(weights, *gradients, strict=True):
                weight.grad = torch.stack(of_replicas).sum(0)
        with parts.timed("update"):
            self.trainer._update(1.0)
        self.trainer.progress.step += 1

    def _forward(self, batch: Batch, number: int) -> torch.Tensor:
        own = slice(*(len(batch.inputs) * n // REPLICAS for n in (number, number + 1)))
        state = self.states[number].reset(batch.reset[own])
        nats, ended = self.objectives[number](
            batch.inputs[own], batch.targets[own], state, gradient_scale=1 / batch.transitions
        )
        self.states[number] = ended.detach()
        return nats

    def _together(self, work: Callable[[int], Any]) -> list[Any]:
        results: list[Any] = [None] * REPLICAS
        threads = [
            Thread(target=lambda n=number: results.__setitem__(n, work(n)))
            for number in range(REPLICAS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results


if __name__ == "__main__":
    command.run(main)
