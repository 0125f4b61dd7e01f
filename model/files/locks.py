"""A lock file that one process at a time holds; the system releases it when that process ends."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from ..errors import InputError

log = logging.getLogger(__name__)


@contextmanager
def one_at_a_time(path: Path, busy: Callable[[], None]) -> Iterator[None]:
    """Lock the file `path`, which is removed at the end.

    busy: called if another process holds it; raises an error, or returns to wait for that process.
    """
    # A lock file without a lock would survive a kill: better none, and a warning.
    lock = filelock.FileLock(path, fallback_to_soft=False)
    try:
        _acquire(lock, busy)
    except (OSError, NotImplementedError) as error:  # a file system without locks
        log.warning("%s: no locks here (%s); start no second process on it", path, error)
        yield
        return
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is this process's
        lock.release()


def refusal(message: str) -> Callable[[], None]:
    """Return a `busy` that raises InputError with this message."""

    def refuse() -> None:
        raise InputError(message)

    return refuse


def _acquire(lock: filelock.BaseFileLock, busy: Callable[[], None]) -> None:
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        busy()
        lock.acquire()
