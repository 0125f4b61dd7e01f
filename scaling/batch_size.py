"""The largest number of lanes that fits into a device's memory, found by training."""

import multiprocessing
import os
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from data_utils.lanes import WindowBatch
from model.errors import InputError
from model.fused.cores import ROOT, cgroups
from model.language_model import ModelConfig, build_model
from model.state import DTYPES
from training.feeding import as_batch
from training.optimizers.optim import OptimConfig
from training.parallel.adasum import check_pairs
from training.parallel.distributed import World, device_of_rank
from training.parallel.exchange import ParallelConfig
from training.precision import resolve_precision
from training.trainer import TrainConfig, Trainer

STEPS = 2  # only in the second step is the optimiser's state in memory
FIRST = 8  # lanes
GRANULE = 8  # the answer is a multiple of this
TRIES = 4  # number of smaller tries if one does not fit
SHRINK = 0.95  # of the lanes, from one try to the next
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class SearchedJob:
    """The training whose largest number of lanes is sought."""

    model: ModelConfig
    optim: OptimConfig
    train: TrainConfig
    parallel: ParallelConfig
    window: int


@dataclass(frozen=True)
class LargestBatch:
    """The answer, with the measurements that led to it."""

    lanes: int
    peak_bytes: int
    available_bytes: int
    measured: dict[int, int]  # lanes to peak bytes

    @property
    def headroom(self) -> float:
        """The fraction of the memory that stays free at the peak."""
        return 1 - self.peak_bytes / self.available_bytes


def largest_batch(
    peak_of: Callable[[int], int | None], available: int, headroom: float, limit: int
) -> LargestBatch:
    """Return the most lanes, up to `limit`, that leave the fraction `headroom` of memory free.

    peak_of: returns the peak in bytes for a number of lanes, None if they do not fit. Memory grows
    linearly with the lanes. So the lanes are doubled until a line through two measurements predicts
    the answer, and the answer is then tried. Raises InputError if not even the first few fit.
    """
    budget = int(available * (1 - headroom))
    measured: dict[int, int] = {}
    lanes = FIRST
    while len(measured) < 2 or lanes <= _predicted_lanes(measured, budget) // 4:
        peak = peak_of(lanes) if lanes <= limit else None
        if peak is None or peak > budget:
            break
        measured[lanes] = peak
        lanes *= 2
    if not measured:
        raise InputError(
            f"not even {FIRST} lanes fit into {budget:,} bytes; give a shorter data.window or more "
            "parallel.lane_groups"
        )
    most = min(_predicted_lanes(measured, budget) if len(measured) > 1 else FIRST, limit)
    for _ in range(TRIES):
        most = max(most // GRANULE * GRANULE, max(measured))
        peak = measured.get(most) or peak_of(most)
        if peak is not None and peak <= budget:
            return LargestBatch(most, peak, available, {**measured, most: peak})
        most = int(most * SHRINK)
    best = max(measured)
    return LargestBatch(best, measured[best], available, measured)


def _predicted_lanes(measured: dict[int, int], budget: int) -> int:
    """Return the lanes at which the line through the last two measurements reaches the budget."""
    (few, low), (many, high) = sorted(measured.items())[-2:]
    slope = max(high - low, 1) / (many - few)
    return int(many + (budget - high) / slope)


def measured_peak(job: SearchedJob, lanes: int) -> int | None:
    """Train some steps in a separate process; return its peak, None if memory ran out."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        try:
            return pool.submit(_peak, job, lanes).result()
        except BrokenProcessPool:  # the system killed it for lack of memory
            return None


def _peak(job: SearchedJob, lanes: int) -> int | None:
    device = device_of_rank(job.train.device)
    try:
        _train(job, lanes, device)
    except (torch.OutOfMemoryError, MemoryError):
        return None
    except RuntimeError as error:
        if "memory" not in str(error):  # torch's CPU allocator raises no class of its own
            raise
        return None
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    return _peak_of_process()


def _peak_of_process() -> int:
    """Return the largest resident memory so far, in bytes."""
    if STATUS.exists():  # getrusage would include the peak of the parent process
        (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _train(job: SearchedJob, lanes: int, device: torch.device) -> None:
    precision = resolve_precision(job.train.precision, device)
    trainer = Trainer(
        build_model(job.model, 0, DTYPES[precision]),
        # Of a run this short, the cooldown would be longer than all of it.
        optim=job.optim.without_cooldown(),
        train=job.train,
        world=World(0, 1, device),
        lanes=lanes,
        steps=STEPS,
        seed=0,
        parallel=job.parallel,
    )
    random = np.random.default_rng(0)
    vocabulary = job.model.symbols
    for _ in range(STEPS):
        tokens = random.integers(0, vocabulary, (lanes, job.window + 1)).astype(np.uint16)
        lengths, reset = np.full(lanes, job.window), np.zeros(lanes, bool)
        count = int(lengths.sum())
        trainer.train(as_batch(WindowBatch(tokens, lengths, reset, count, count), device))
    trainer.row_nats()  # waits for the device


def available_bytes(device: torch.device, root: Path = ROOT) -> int:
    """Return a GPU's free memory, or the machine's, of which a container may allow only a part.

    root: the folder that has proc and sys.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_memory_limits(root)])


def _memory_limits(root: Path) -> Iterator[int]:
    """Yield the bytes that each cgroup of this process allows; none where there is no limit."""
    with suppress(OSError):
        for folder in cgroups("memory", root):
            for name in ("memory.max", "memory.limit_in_bytes"):  # of version 2, of version 1
                with suppress(OSError, ValueError):  # not there; "max", which is no limit
                    yield int((folder / name).read_text())


def rate_groups(parallel: ParallelConfig, ranks: int) -> int:
    """Return by how many the rate's rule divides the lanes: under Adasum the ranks, else one.

    Raises InputError for a number of ranks that Adasum cannot pair.
    """
    if parallel.combine == "mean":
        return 1
    check_pairs(ranks)
    return ranks


def describe(fit: LargestBatch, optim: OptimConfig, ranks: int, groups: int) -> dict[str, Any]:
    """Return the answer, with the learning rate of the published rule for this many ranks.

    groups: those of `rate_groups`; the rule counts the lanes of one.
    """
    return {
        "lanes_per_rank": fit.lanes,
        "peak_gigabytes": fit.peak_bytes / 1e9,
        "available_gigabytes": fit.available_bytes / 1e9,
        "headroom": fit.headroom,
        "ranks": ranks,
        "learning_rate": optim.peak(fit.lanes * ranks / groups),
    }
