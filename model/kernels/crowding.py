"""Detects other programs on our cores; crowding.h defines how our threads react.

Threads that wait for each other poll, which is fastest if each has its own core. On a loaded
machine, a polling thread takes time from the thread that it waits for, and a sleeping one gets a
core back late. So while our threads queue for cores, OpenMP's threads sleep soon, and all threads
ask the scheduler for short slices of time. This changes every thread of the process, so it happens
only in processes of our own commands (cores.py).
"""

import os
import threading
from ctypes import c_bool, c_int64
from pathlib import Path
from time import monotonic

import torch

from mlstm_sentiment.engine.cores import affine_cores

from .compilation import window_library
from .cores import owns_process

THREADS = Path("/proc/self/task")  # only Linux reports how long each thread has queued
SECONDS_BETWEEN_LOOKS = 0.25
# The average number of queueing threads since the last check: above MANY we are crowded, and stay
# so until it is FEW or less.
MANY, FEW = 0.1, 0.05
_MOST_IDLE_THREADS = 64  # systems that limit threads allow a process more than these


class Watch:
    """Checks now and then whether this process's threads have to queue for cores."""

    def __init__(self) -> None:
        self.crowded = False
        self._lock = threading.Lock()
        self._looked_at, self._queued = monotonic(), queued_seconds()

    def look(self) -> None:
        """Check again if the last check is long enough ago; else this costs nothing."""
        if not owns_process():
            return
        now = monotonic()
        if now - self._looked_at < SECONDS_BETWEEN_LOOKS or torch.get_num_threads() == 1:
            return
        if self._lock.acquire(blocking=False):  # else another thread is checking
            try:
                self._judge(now, queued_seconds())
            finally:
                self._lock.release()

    def _judge(self, now: float, queued: float) -> None:
        queueing = (queued - self._queued) / (now - self._looked_at)
        self._looked_at, self._queued = now, queued
        before, self.crowded = self.crowded, queueing > (FEW if self.crowded else MANY)
        library = window_library() if self.crowded or before else None
        if library is None:
            return
        threads = affine_cores() - torch.get_num_threads() + 2  # with torch's, one more than cores
        # If torch alone has more threads than cores, OpenMP polls only briefly anyway.
        if self.crowded != before and (before or 1 < threads <= _MOST_IDLE_THREADS):
            library.mlstm_keep_idle_team(c_bool(self.crowded), c_int64(threads))
        for thread in map(int, _listed_threads() if self.crowded else []):
            library.mlstm_take_short_slices(c_int64(thread))


def queued_seconds() -> float:
    """Return how many seconds this process's threads have queued, summed over threads."""
    nanoseconds = 0
    for thread in _listed_threads():
        try:
            nanoseconds += int((THREADS / thread / "schedstat").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue  # the thread has ended, or the system does not report it
    return nanoseconds * 1e-9


def _listed_threads() -> list[str]:
    return os.listdir(THREADS) if THREADS.is_dir() else []


watch = Watch()
