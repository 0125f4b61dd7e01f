"""Other programs on our cores: noticed here; crowding.h has what our threads do about it.

Threads that wait for each other poll, which is fastest where each has a core to itself. Beside
other programs it takes the time from the very thread that is waited for, and who sleeps instead
gets a core back late. So while threads queue, OpenMP's sleep soon and all ask for short slices.
"""

import os
import threading
from ctypes import c_bool, c_int64
from pathlib import Path
from time import monotonic

import torch

from .compilation import window_library
from .cores import affine_cores

THREADS = Path("/proc/self/task")  # Linux alone tells how long each thread has queued
SECONDS_BETWEEN_LOOKS = 0.25
# Threads that queue, on average since the last look: from the first on we are crowded, until there
# are fewer than the second.
MANY, FEW = 0.1, 0.05
MOST_IDLE_THREADS = 64  # fewer than a system that limits them gives to one process


class Watch:
    """Looks now and then whether this process's threads have to queue for cores."""

    def __init__(self) -> None:
        self.crowded = False
        self._lock = threading.Lock()
        self._looked_at, self._queued = monotonic(), queued_seconds()

    def look(self) -> None:
        """Take note of what has changed; between looks this costs nothing."""
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
    """Return how long this process's threads have been ready to run without a core, in all."""
    nanoseconds = 0
    for thread in _threads():
        try:
            nanoseconds += int((THREADS / thread / "schedstat").read_text().split()[1])
        except (OSError, IndexError, ValueError):  # ended meanwhile, or not told
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
    if library is not None and threads <= MOST_IDLE_THREADS:
        library.mlstm_keep_idle_team(c_bool(wanted), c_int64(threads))


watch = Watch()
