"""File locks: one process at a time writes a file, or into a folder.

They end with their holder: a kill leaves a lock's file, but no lock. The file is removed at the
end, while it is this process's.
"""

import errno
import logging
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import filelock

from ..errors import InputError
from .storage import read_json, write_json

LOCK_FILE, HOLDER_FILE = ".lock", ".holder.json"  # in a locked folder; the latter names the process
MOST_TRIES = 100  # to lock a folder that other processes create and remove
RECORD_SECONDS = 1.0  # within which a new holder of a folder records its name
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # of a file system that has none

log = logging.getLogger(__name__)


def _lock_of(path: Path) -> filelock.BaseFileLock:
    # A lock file without a lock would survive a kill: better none, and a warning.
    return filelock.FileLock(path, fallback_to_soft=False)


def _warn(path: Path, why: object) -> None:
    log.warning("%s: no locks here (%s); start no second process on it", path, why)


@contextmanager
def one_at_a_time(path: Path, busy: Callable[[], None]) -> Iterator[None]:
    """Lock the file `path`, which is removed at the end.

    busy: called if another process holds it; raises an error, or returns to wait for that process.
    """
    lock = _lock_of(path)
    try:
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            busy()
            lock.acquire()
    except (OSError, NotImplementedError) as error:  # a file system without locks
        _warn(path, error)
        yield
        return
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


def refusal(message: str) -> Callable[[], None]:
    """Return a `busy` that raises InputError with this message."""

    def refuse() -> None:
        raise InputError(message)

    return refuse


@contextmanager
def lock_folder(folder: Path, timeout: float = 0.0, *, new: bool = False) -> Iterator[None]:
    """Keep other processes from locking the folder, which is created if absent.

    timeout: seconds to wait for a holder that may be about to end. A created folder without
    content is removed at the end. Raises InputError, naming the holder, if it is locked; new:
    FileExistsError, if it exists.
    """
    if not new and _is_no_folder(folder):
        raise InputError(f"{folder}: is a file; name a folder")
    for place in (folder, *folder.parents):
        if place.is_symlink() and not place.exists():
            raise InputError(f"{place}: is a broken link; is its disk mounted?")
    lock = _lock_of(folder / LOCK_FILE)
    made = _acquire(lock, folder, timeout, new, MOST_TRIES)
    try:
        write_json(folder / HOLDER_FILE, _description())
        yield
    finally:
        for name in (HOLDER_FILE, LOCK_FILE):  # while they are this process's
            (folder / name).unlink(missing_ok=True)
        if made:
            with suppress(OSError):  # it holds something
                folder.rmdir()
        lock.release()


def _is_no_folder(place: Path) -> bool:
    """Return whether something else is there; asked once, since a holder may remove its folder."""
    try:
        return not stat.S_ISDIR(place.stat().st_mode)
    except OSError:
        return False


def _acquire(
    lock: filelock.BaseFileLock, folder: Path, timeout: float, new: bool, tries: int
) -> bool:
    """Return whether the folder had to be created."""
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=not new)
    except FileExistsError:
        if new or folder.exists() or tries == 1:
            raise
        return _acquire(lock, folder, timeout, new, tries - 1)  # its holder has removed it
    try:
        _lock(lock, folder, timeout)
    except FileNotFoundError:  # its holder had made it, and has removed it
        if tries == 1:
            raise
        return _acquire(lock, folder, timeout, new, tries - 1)
    except filelock.Timeout as error:
        raise InputError(
            f"{_holder(folder)}; wait for it to end, or name another folder"
        ) from error
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        _warn(folder, error.strerror)
    return made


def _lock(lock: filelock.BaseFileLock, folder: Path, timeout: float) -> None:
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        if not timeout:
            raise
        log.warning("%s; waiting up to %g s for its end", _holder(folder), timeout)
        lock.acquire(timeout=timeout)


def _description() -> dict[str, int | str]:
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _holder(folder: Path) -> str:
    """Return the name of a folder's holder; wait for a new holder to record it."""
    end = time.monotonic() + RECORD_SECONDS
    while time.monotonic() < end:
        try:
            holder = read_json(folder / HOLDER_FILE)
            process = f"process {holder['pid']} on {holder['host']}"
            return f"{folder}: {process} has held it since {holder['since']}"
        except (InputError, OSError, KeyError):
            time.sleep(0.01)
    return f"{folder}: another process holds it"
