"""Several pieces of work timed against each other, round by round, in one process."""

import gc
import statistics
from collections.abc import Callable, Mapping
from time import perf_counter, process_time

import torch
from tqdm import tqdm

TRIALS = 3  # of each candidate for the fastest; the best one counts

Timings = dict[str, list[float]]


def interleave(
    work: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = perf_counter,
) -> Timings:
    """Return each piece's seconds in each round; one more round before them is not counted.

    A round runs every piece once and starts with a different one each time. So other work on the
    machine affects all pieces alike, and a ratio compares pieces that ran shortly after each other.
    clock: returns the seconds that have passed.
    """
    names = list(work)
    seconds: Timings = {name: [] for name in names}
    gc.collect()
    gc.disable()
    try:
        for index in tqdm(range(rounds + 1), desc="rounds", disable=None, leave=False):
            first = index % len(names)
            for name in names[first:] + names[:first]:
                elapsed = _time(work[name], clock)
                if index > 0:
                    seconds[name].append(elapsed)
    finally:
        gc.enable()
    return seconds


def _time(piece: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    _synchronize()
    started = clock()
    piece()
    _synchronize()
    return clock() - started


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class CpuTimed:
    """Work that records the CPU seconds of this process in each call, over all its threads."""

    def __init__(self, work: Callable[[], object]):
        self.work = work
        self.seconds: list[float] = []

    def __call__(self) -> None:
        """Do the work."""
        started = process_time()
        self.work()
        self.seconds.append(process_time() - started)


def fastest(candidates: list[Callable[[], object]]) -> Callable[[], object]:
    """Return the candidate with the lowest time; candidates that do not run here are skipped."""
    best, least = None, float("inf")
    for candidate in candidates:
        try:
            candidate()
            elapsed = min(_time(candidate) for _ in range(TRIALS))
        except (RuntimeError, NotImplementedError):
            continue
        if elapsed < least:
            best, least = candidate, elapsed
    if best is None:
        raise RuntimeError("no candidate runs here")
    return best


def ratio(seconds: Timings, ours: str, other: str) -> dict[str, float]:
    """Return how many times as fast ours is, round against round: the median and both ends."""
    ratios = [b / a for a, b in zip(seconds[ours], seconds[other], strict=True)]
    return {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}


def rates(seconds: Timings, items: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return items per second at the median, and their spread: (highest - lowest) / median."""
    medians = {name: items / statistics.median(times) for name, times in seconds.items()}
    spread = {
        name: (items / min(times) - items / max(times)) / medians[name]
        for name, times in seconds.items()
    }
    return medians, spread
