"""Notices other programs on our cores; crowding.h has what our threads do then.

Threads that wait for each other poll, which is fastest where each has a core to itself. Beside
other programs, a thread that polls takes time from the thread it waits for, and one that sleeps
gets a core back late. So while our threads queue for cores, OpenMP's threads sleep soon, and all
threads ask the scheduler for short slices of time.
"""

import os
import threading
from ctypes import c_bool, c_int64
from pathlib import Path
from time import monotonic

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

    def __init__(self) -> None:
        self.crowded = False
        self._lock = threading.Lock()
        self._looked_at, self._queued = monotonic(), queued_seconds()

    def look(self) -> None:
        """Check again, where the last look is long enough ago; else this costs nothing."""
        if monotonic() - self._looked_at < SECONDS_BETWEEN_LOOKS or torch.get_num_threads() == 1:
            return
        if self._lock.acquire(blocking=False):  # else another thread is looking
            try:
                self._judge(monotonic(), queued_seconds())
            finally:
                self._lock.release()

    def _judge(self, now: float, queued: float) -> None:
        queueing = (queued - self._queued) / (now - self._looked_at)
        self._looked_at, self._queued = now, queued
        crowded = queueing > (FEW if self.crowded else MANY)
        if crowded != self.crowded:
            self.crowded = crowded
            _keep_idle_team(crowded)
        if crowded:
            _take_short_slices()


def queued_seconds() -> float:
    """Return for how many seconds, summed over this process's threads, they have queued."""
    nanoseconds = 0
    for thread in _threads():
        try:
            nanoseconds += int((THREADS / thread / "schedstat").read_text().split()[1])
        except (
            OSError,
            IndexError,
            ValueError,
        ):  # the thread has ended, or the system does not say
            continue
    return nanoseconds * 1e-9


def _threads() -> list[str]:
    return os.listdir(THREADS) if THREADS.is_dir() else []


def _take_short_slices() -> None:
    library = window_library()
    if library is not None:
        for thread in map(int, _threads()):
            library.mlstm_take_short_slices(c_int64(thread))


def _keep_idle_team(wanted: bool) -> None:
    library = window_library()
    threads = affine_cores() - torch.get_num_threads() + 2  # with torch's, one more than cores
    # Where torch alone has more threads than there are cores, OpenMP polls briefly as it is.
    if library is not None and (not wanted or 1 < threads <= MOST_IDLE_THREADS):
        library.mlstm_keep_idle_team(c_bool(wanted), c_int64(threads))


watch = Watch()
