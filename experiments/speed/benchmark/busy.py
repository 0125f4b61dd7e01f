"""Measures our work next to busy processes, relative to what a fair scheduler would give."""

import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from data_utils.corpus import embedded_corpus
from data_utils.lanes import Lanes
from data_utils.provenance import describe_origin
from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.bounds import PositiveFloat, PositiveInt, check_bounds
from mlstm_sentiment.engine.cores import usable_cores
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.sentiment_classifier import SentimentClassifier
from model.inference.features import features_in_order
from model.inference.weights import load_model
from model.kernels.cores import own_process
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from training.optimizers.optim import OptimConfig
from training.parallel.batch import as_batch
from training.parallel.distributed import launched
from training.trainer import TrainConfig, Trainer

LANES, WINDOW, UNITS = 32, 128, 128  # as in configs/tour.toml
TEXTS = 16  # of a batch
WorkPiece = Callable[[], int]  # does some work, returns its characters


@dataclass(frozen=True, kw_only=True)
class BusyOptions:
    """Train, classify and featurize, alone and next to busy processes, interleaved.

    A speed of 1 is what a fair scheduler would give to as many threads as there are cores. Each
    kind of work is measured with and without our adaptation to other programs.
    """

    others: PositiveInt = 4
    """Busy processes that run next to ours."""
    rounds: PositiveInt = 3
    """Rounds; in each, every kind of work runs once alone and once next to the busy processes."""
    seconds: PositiveFloat = 5.0
    """Seconds that each measurement in a round takes, at least."""
    work: tuple[str, ...] = ("train", "classify", "featurize")
    """Kinds of work to measure."""
    output: Path | None = None
    """JSON file for the result."""

    def __post_init__(self) -> None:
        check_bounds(self, "--")
        for name in set(self.work) - PIECES.keys():
            raise InputError(f"--work {name}: unknown; known: {', '.join(PIECES)}")
        if len(set(self.work)) < max(1, len(self.work)):
            raise InputError(
                f"--work: name at least one kind, and none twice; known: {', '.join(PIECES)}"
            )


def measure_busy(options: BusyOptions) -> dict[str, Any]:
    """Return characters per second and, as `ratios`, the speed relative to the fair share."""
    with _workers(options.work) as workers:
        speeds = take_turns(workers, options, _busy_processes)
    return {**describe_turns(speeds, options, usable_cores()), "origin": describe_origin()}


def describe_turns(
    speeds: dict[str, tuple[list[float], list[float]]], options: BusyOptions, cores: int
) -> dict[str, Any]:
    """Return the medians and ratios of the speeds that `take_turns` measured on some cores."""
    fair = cores / (cores + options.others)
    relative = {
        name: [busy / alone / fair for alone, busy in zip(*both, strict=True)]
        for name, both in speeds.items()
    }
    named = {
        f"{name} {how}": rates
        for name, both in speeds.items()
        for how, rates in zip(("alone", "busy"), both, strict=True)
    }
    medians = {name: statistics.median(rates) for name, rates in named.items()}
    return {
        "chars_per_second": medians,
        "spread": {
            name: (max(rates) - min(rates)) / medians[name] for name, rates in named.items()
        },
        "ratios": {name: statistics.median(values) for name, values in relative.items()},
        "ratio_ranges": {name: [min(values), max(values)] for name, values in relative.items()},
        "fair_share": fair,
        "options": {name: value for name, value in asdict(options).items() if name != "output"},
        "turns": named,
    }


def take_turns(
    workers: Mapping[str, Connection],
    options: BusyOptions,
    busy_processes: Callable[[int], AbstractContextManager[None]],
) -> dict[str, tuple[list[float], list[float]]]:
    """Return each worker's characters per second in every round, alone and next to the others.

    workers: each is sent seconds to work for, and answers with its characters per second.
    busy_processes: a context in which so many of them run.
    """
    speeds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in workers}
    names = list(workers)
    for index in range(options.rounds):
        first = index % len(names)
        for loaded, others in enumerate((0, options.others)):
            with busy_processes(others):
                for name in names[first:] + names[:first]:
                    workers[name].send(options.seconds)
                    speeds[name][loaded].append(workers[name].recv())
    return speeds


@contextmanager
def _workers(work: tuple[str, ...]) -> Iterator[dict[str, Connection]]:
    """Start a process for each kind of work, with and without our adaptation to others."""
    context = multiprocessing.get_context("spawn")
    workers, processes = {}, []
    for kind, adapting in product(work, (True, False)):
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(kind, adapting, theirs), daemon=True)
        process.start()
        workers[kind if adapting else f"{kind}_without"] = ours
        processes.append(process)
        ours.recv()  # ready
    try:
        yield workers
    finally:
        for process in processes:
            process.kill()


@contextmanager
def _busy_processes(count: int) -> Iterator[None]:
    """Keep this many processes busy, in our own session: Linux may divide cores by session."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        time.sleep(0.5 if count else 0.0)  # they have started
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _serve(kind: str, adapting: bool, pipe: Connection) -> None:
    """Work for as long as asked, again and again; answer with characters per second."""
    if adapting:
        own_process()
    torch.set_num_threads(usable_cores())
    piece = PIECES[kind]()
    piece()  # what is compiled or allocated once
    pipe.send(None)
    while True:
        seconds, characters, started = pipe.recv(), 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            characters += piece()
        pipe.send(characters / (time.perf_counter() - started))


def _train() -> WorkPiece:
    with launched("cpu") as world:
        trainer = Trainer(
            build_model(ModelConfig(hidden_size=UNITS), seed=0),
            optim=OptimConfig(clip_norm=1.0),
            train=TrainConfig(precision="fp32"),
            world=world,
            lanes=LANES,
            steps=1 << 20,
            seed=0,
        )
    windows = Lanes(embedded_corpus().splits["train"], lanes=LANES, window=WINDOW)

    def piece() -> int:
        batch = as_batch(windows[trainer.progress.step], world.device)
        trainer.train(batch)
        return batch.characters

    return piece


def _texts() -> list[str]:
    return [review.text for review in synthetic_reviews(TEXTS, seed=0)]


def _classify() -> WorkPiece:
    classifier, texts = SentimentClassifier.from_pretrained(), _texts()

    def piece() -> int:
        classifier.predict_all(texts)
        return sum(map(len, texts))

    return piece


def _featurize() -> WorkPiece:
    loaded = load_model("default")
    sequences = [loaded.encode(text) for text in _texts()]

    def piece() -> int:
        features_in_order(loaded.model, sequences)
        return sum(map(len, sequences))

    return piece


PIECES: dict[str, Callable[[], WorkPiece]] = {
    "train": _train,
    "classify": _classify,
    "featurize": _featurize,
}
