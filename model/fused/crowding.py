"""Notices other programs on our cores; crowding.h has what our threads do then.

Threads that wait for each other poll, which is fastest where each has a core to itself. Beside
other programs, a thread that polls takes time from the thread it waits for, and one that sleeps
gets a core back late. So while our threads queue for cores, OpenMP's threads sleep soon, and all
threads ask the scheduler for short slices of time.
"""

import os
import threading
from collections.abc import Callable
from ctypes import c_bool, c_int64
from pathlib import Path
from time import monotonic
from typing import Any

import torch

from .compilation import window_library
from .cores import affine_cores

THREADS = Path("/proc/self/task")  # only Linux tells how long each thread has queued
SECONDS_BETWEEN_LOOKS = 0.25
# Of threads that queue, on average since the last look: we are crowded from the first number on,
# until there are fewer than the second.
MANY, FEW = 0.1, 0.05
MOST_IDLE_THREADS = 64  # systems that limit threads give a process more than these


class Watch:
    """Checks now and then whether this process's threads have to queue for cores."""

    def __init__(
        self,
        threads: Path = THREADS,
        clock: Callable[[], float] = monotonic,
        library: Callable[[], Any] = window_library,
        cores: Callable[[], int] = affine_cores,
    ) -> None:
        """threads: has a folder for each thread. library: what acts, None where it is missing."""
        self.crowded = False
        self._threads, self._clock, self._library, self._cores = threads, clock, library, cores
        self._lock = threading.Lock()
        self._looked_at, self._queued = clock(), queued_seconds(threads)

    def look(self) -> None:
        """Check again, where the last look is long enough ago; else this costs nothing."""
        now = self._clock()
        if now - self._looked_at < SECONDS_BETWEEN_LOOKS or torch.get_num_threads() == 1:
            return
        if self._lock.acquire(blocking=False):  # else another thread is looking
            try:
                self._judge(now, queued_seconds(self._threads))
            finally:
                self._lock.release()

    def _judge(self, now: float, queued: float) -> None:
        queueing = (queued - self._queued) / (now - self._looked_at)
        self._looked_at, self._queued = now, queued
        crowded = queueing > (FEW if self.crowded else MANY)
        if crowded != self.crowded:
            self.crowded = crowded
            self._keep_idle_team(crowded)
        if crowded:
            self._take_short_slices()

    def _take_short_slices(self) -> None:
        library = self._library()
        if library is not None:
            for thread in map(int, _listed(self._threads)):
                library.mlstm_take_short_slices(c_int64(thread))

    def _keep_idle_team(self, wanted: bool) -> None:
        library = self._library()
        threads = self._cores() - torch.get_num_threads() + 2  # with torch's, one more than cores
        # Where torch alone has more threads than there are cores, OpenMP polls briefly as it is.
        if library is not None and (not wanted or 1 < threads <= MOST_IDLE_THREADS):
            library.mlstm_keep_idle_team(c_bool(wanted), c_int64(threads))


def queued_seconds(threads: Path = THREADS) -> float:
    """Return for how many seconds, summed over this process's threads, they have queued."""
    nanoseconds = 0
    for thread in _listed(threads):
        try:
            nanoseconds += int((threads / thread / "schedstat").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue  # the thread has ended, or the system does not say
    return nanoseconds * 1e-9


def _listed(threads: Path) -> list[str]:
    return os.listdir(threads) if threads.is_dir() else []


watch = Watch()
