"""Train replicas of a model, each in a thread of its own; threads may share a process.

A host is a process that trains several replicas at once. Each has a thread that loads its data, as
in main.py. Replicas exchange nothing; those of one process share only the interpreter.
"""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection

import torch

from data_utils.embedded import embedded_corpus
from data_utils.lanes import Lanes
from model.errors import InputError
from model.language_model import ModelConfig, build_model
from model.recurrence import Backend
from model.text.split import Split
from training.feeding import Prefetcher
from training.optimizers.optim import OptimConfig
from training.parallel.distributed import World
from training.trainer import TrainConfig, Trainer

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Work:
    """The model, the data and the steps of a replica."""

    backend: Backend
    hidden_size: int
    lanes: int
    window: int
    steps: int = 1

    @property
    def characters(self) -> int:
        """The characters of all steps."""
        return self.lanes * self.window * self.steps


@cache
def text() -> Split:
    """Return the text that every replica reads."""
    return embedded_corpus().splits["train"]


class Replica:
    """A model in training, with its data."""

    def __init__(self, work: Work):
        config = ModelConfig(hidden_size=work.hidden_size, backend=work.backend)
        self.windows = Lanes(text(), lanes=work.lanes, window=work.window)
        self.trainer = Trainer(
            build_model(config, seed=0),
            optim=OptimConfig(clip_norm=1.0, decay="constant"),
            train=TrainConfig(precision="fp32"),
            world=World(0, 1, CPU),
            lanes=work.lanes,
            steps=1,
            seed=0,
        )

    def train(self, steps: int) -> None:
        """Take so many steps."""
        with Prefetcher(self.windows, CPU, self.trainer.progress.step) as prefetcher:
            for _ in range(steps):
                self.trainer.train(prefetcher.next())


class Host:
    """The replicas of this process, created when they are first needed."""

    def __init__(self) -> None:
        self.replicas: dict[tuple[Work, int], Replica] = {}

    def train(self, work: Work, count: int) -> float:
        """Train so many replicas at once; return the seconds of processor time."""
        kind = Work(work.backend, work.hidden_size, work.lanes, work.window)
        chosen = [self._replica(kind, number) for number in range(count)]
        began = time.process_time()
        with ThreadPoolExecutor(count) as threads:
            list(threads.map(lambda replica: replica.train(work.steps), chosen))
        return time.process_time() - began

    def _replica(self, kind: Work, number: int) -> Replica:
        if (kind, number) not in self.replicas:
            self.replicas[kind, number] = Replica(kind)
        return self.replicas[kind, number]


def serve(requests: Connection) -> None:
    """Answer requests until there are no more, as the process of a host."""
    torch.set_num_threads(1)
    host = Host()
    while (request := requests.recv()) is not None:
        requests.send(host.train(*request))


@contextmanager
def hosts(count: int) -> Iterator[list[Connection]]:
    """Start so many hosts, each a new interpreter whose products use one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"  # the hosts inherit it
    context = multiprocessing.get_context("spawn")
    ends = [context.Pipe() for _ in range(count)]
    processes = [context.Process(target=serve, args=(theirs,), daemon=True) for _, theirs in ends]
    for process in processes:
        process.start()
    for _, theirs in ends:
        theirs.close()  # so that reading fails when a host has ended
    ours = [mine for mine, _ in ends]
    try:
        yield ours
        for connection in ours:
            connection.send(None)
        for process in processes:
            process.join()
    finally:
        for process in processes:
            process.kill()


def train_together(connections: Sequence[Connection], work: Work, replicas: int) -> float:
    """Train so many replicas on every host at once; return the seconds of processor time."""
    try:
        for connection in connections:
            connection.send((work, replicas))
        return sum(connection.recv() for connection in connections)
    except (EOFError, ConnectionError) as error:
        raise InputError("a process with replicas ended; its message stands above") from error
