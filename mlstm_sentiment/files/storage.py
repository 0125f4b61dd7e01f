"""Files and folders that are either whole or absent, and that one process writes at a time.

A lock ends with the process that holds it. That process removes the lock file at its end; if it is
killed, the file stays, but locks nothing.
"""

import errno
import json
import logging
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import Any

import filelock
import numpy as np

from ..errors import InputError, OtherVersion, TryAgain, brief
from .writer import (
    PARTIAL,
    RECORDS,
    check_folder,
    check_output,
    is_recorded,
    path_in_oserrors,
    record_folder,
    remove_work,
    set_aside,
    write_json,
)

_MOST_JSON_BYTES = 1 << 26  # our files have a few MB at most; parsing takes many times as much

_STEP_FOLDER = re.compile("step-[0-9]{8,}")
_OLD = "old"  # of a folder that is about to be replaced
_SET_ASIDE = re.compile(rf"\.(.+?)(?:\.[0-9a-f]+)?\.{PARTIAL}")
_GONE = re.compile(rf"\..+\.gone-[0-9a-f]{{8}}\.{PARTIAL}")  # what is being removed
_CLUTTER = (".DS_Store", ".nfs*")  # files that a file manager or a network file system adds
_HALF_TENSORS = re.compile(r"\.tmp[0-9A-Za-z]{6}")  # what safetensors renames when it is whole
_SHOWN = 3  # foreign files that an error names
LOCK_FILE, HOLDER_FILE = ".lock", ".holder.json"  # in a locked folder; the latter names the process
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # from a file system without locks

Contents = tuple[str, ...]
"""Patterns of the relative paths of the files that we write into a kind of folder."""

log = logging.getLogger(__name__)


def keep(path: Path, name: Path, *, copy: bool = False) -> Path:
    """Move, or copy, what may be the user's to a free name next to `name`; return that."""
    places = (name.with_name(f"{name.name}.kept-{number}") for number in count(1))
    free = next(place for place in places if not os.path.lexists(place))
    with path_in_oserrors(free):
        shutil.copyfile(path, free) if copy else path.rename(free)
    return free


def foreign_files(folder: Path, ours: Contents, *, is_whole: bool = True) -> list[str]:
    """Return the relative paths of files in a folder that we did not write, and of all links.

    is_whole: whether the folder is finished, so that its record has all its files.
    """
    foreign = []
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in [*folders, *files]):
            name = path.relative_to(folder)
            if path.is_symlink() or not (path.is_dir() or _is_ours(path, name, ours, is_whole)):
                foreign.append(name.as_posix())
    return sorted(foreign)


def _is_ours(path: Path, relative: Path, ours: Contents, is_whole: bool) -> bool:
    if path.name in RECORDS or any(fnmatchcase(path.name, pattern) for pattern in _CLUTTER):
        return True
    if not is_whole and _HALF_TENSORS.fullmatch(path.name):
        return True
    temporary = _SET_ASIDE.fullmatch(path.name)
    parts = relative.with_name(temporary[1]).parts if temporary else relative.parts
    patterns = (pattern.split("/") for pattern in ours)
    is_named = any(
        len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern)) for pattern in patterns
    )
    return is_named and (not is_whole or temporary is not None or is_recorded(path))


def inside(folder: str, files: Contents) -> Contents:
    return tuple(f"{folder}/{name}" for name in files)


def listed(names: Sequence[str]) -> str:
    """Return the first names, quoted, and the number of the others."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more


def check_replaceable(folder: Path, ours: Contents) -> None:
    """Raise InputError if replacing a folder would lose more than the files that we write."""
    check_folder(folder)
    if foreign := foreign_files(folder, ours):
        raise InputError(
            f"{folder}: would be replaced as a whole, but holds files that this project did not "
            f"write: {listed(foreign)}; move them away"
        )


@contextmanager
def whole_folder(final: Path, ours: Contents) -> Iterator[Path]:
    """Yield an empty folder next to `final` to fill; it then replaces `final`.

    ours: the files that a folder of this kind may hold. An old folder with any other file, or a
    link, is not deleted: it gets a free name. Call `check_replaceable` before long work.

    If filling the folder fails, it is removed and `final` is unchanged. A kill leaves the old
    folder or the new one whole. After a kill between the two renames, the old one has a temporary
    name, which `recover_folders` undoes.
    """
    partial, old = set_aside(final), set_aside(final, _OLD)
    _remove_or_keep(partial, final, ours, is_whole=False)
    try:
        with path_in_oserrors(final, partial):
            partial.mkdir(parents=True)
            _recover(old, final, ours)
            yield partial
            record_folder(partial)
            if os.path.lexists(final):
                final.rename(old)
            partial.rename(final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        _recover(old, final, ours)


def remove_folder(folder: Path) -> None:
    """Rename a folder, then remove it.

    Files that cannot be removed yet, as on NFS, keep the new name until the next call for a
    sibling.
    """
    with suppress(OSError):
        folder.rename(set_aside(folder, f"gone-{secrets.token_hex(4)}"))
    for left in folder.parent.glob(f".*.gone-*.{PARTIAL}"):
        if _GONE.fullmatch(left.name):
            shutil.rmtree(left, ignore_errors=True)


def recover_folders(parent: Path, ours: Contents) -> None:
    """Repair what a kill left in `parent`; call it only in the process that writes there.

    Folders that `whole_folder` had set aside get their names back; half-written ones are removed.
    ours: the files that `parent` and any of these folders may hold; others are left alone.
    """
    for old in parent.glob(f".*.{_OLD}.{PARTIAL}"):
        _recover(old, old.with_name(old.name[1:].removesuffix(f".{_OLD}.{PARTIAL}")), ours)
    _remove_half_files(parent, ours)
    for partial in parent.glob(f".*.{PARTIAL}"):
        if partial.is_symlink() or not partial.is_dir():
            continue
        if _GONE.fullmatch(partial.name) or not foreign_files(partial, ours, is_whole=False):
            shutil.rmtree(partial, ignore_errors=True)


def _remove_half_files(parent: Path, ours: Contents) -> None:
    for partial in parent.glob(f".*.{PARTIAL}"):
        is_file = partial.is_file() and not partial.is_symlink()
        if is_file and _is_ours(partial, Path(partial.name), ours, is_whole=False):
            remove_work(partial)


def step_folder(parent: Path, step: int) -> Path:
    return parent / f"step-{step:08d}"


def step_folders(parent: Path) -> list[Path]:
    """Return the checkpoints in a folder, oldest first; other names are ignored."""
    paths = (path for path in parent.glob("step-*") if _STEP_FOLDER.fullmatch(path.name))
    return sorted((path for path in paths if path.is_dir()), key=step_of)


def step_of(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def _recover(old: Path, final: Path, ours: Contents) -> None:
    """Remove the old folder if its successor exists, else rename it back."""
    if os.path.lexists(final):
        _remove_or_keep(old, final, ours)
    elif os.path.lexists(old):
        old.rename(final)


def _remove_or_keep(old: Path, final: Path, ours: Contents, *, is_whole: bool = True) -> None:
    """Remove a folder; if it is a link or holds a file that is not ours, keep it."""
    if not os.path.lexists(old):
        return
    is_folder = old.is_dir() and not old.is_symlink()
    foreign = foreign_files(old, ours, is_whole=is_whole) if is_folder else []
    if is_folder and not foreign:
        remove_folder(old)
        return
    free = keep(old, final)
    what = (
        f"held files that this project did not write: {listed(foreign)}"
        if foreign
        else "was a link or a file"
    )
    log.warning("%s: %s; the old one is now %s", final, what, free)


def is_taken(folder: Path) -> bool:
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, so that renames outlast a crash, where possible."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; InputError if it is missing, unreadable, too large or something else."""
    try:
        size = path.stat().st_size
        if size > _MOST_JSON_BYTES:
            raise InputError(f"{path}: {size:,} bytes, too many for this file; get it again")
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (ValueError, RecursionError) as error:  # also a number of 5,000 digits, deep nesting
        raise InputError(f"{path}: not JSON ({error}); is the file damaged?") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object, found {type(content).__name__}")
    return content


def check_format_version(content: Mapping[str, Any], supported: int, path: Path) -> None:
    """Raise InputError for a file without a format version, OtherVersion for a newer one."""
    version = content.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(f"{path}: has no format_version; was it written by this project?")
    if version > supported:
        raise OtherVersion(
            f"{path}: format_version {version} is newer than {supported}, the newest this "
            "version reads; update the project"
        )


def map_array(path: Path, remedy: str) -> np.memmap:
    """Map an array for reading, without unpickling; InputError, with `remedy`, if damaged."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except OSError:  # from the system, not about the content
        raise
    except Exception as error:  # the header is Python; if damaged, its parser may raise anything
        reason = brief(error) or type(error).__name__
        raise InputError(
            f"{path}: not a plain array, damaged or cut short ({reason}); {remedy}"
        ) from error


def _lock_of(path: Path) -> filelock.BaseFileLock:
    # A soft lock, a mere file, would survive a kill: better no lock, and a warning.
    return filelock.FileLock(path, fallback_to_soft=False)


def _acquire(lock: filelock.BaseFileLock, path: Path, timeout: float = -1) -> None:
    """Acquire a lock, unless the file system has none: then warn.

    path: what is locked, for the warning. timeout: seconds to wait for its holder, -1: until that
    ends. Raises filelock.Timeout if it is still held then, and OSError for a lock that this process
    may not take, such as another user's.
    """
    try:
        lock.acquire(timeout=timeout)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        log.warning(
            "%s: this file system has no locks (%s); do not start a second process on it",
            path,
            error.strerror,
        )


def _remove_held(lock_file: Path) -> None:
    """Remove the file of a lock that is held; on Windows, filelock does so when it releases it."""
    if os.name == "posix":
        lock_file.unlink(missing_ok=True)


@contextmanager
def one_at_a_time(path: Path, busy: str, *, waits: bool = False) -> Iterator[None]:
    """Lock the file `path`, which is removed at the end.

    busy: what is said if another process holds it, as a TryAgain; logged if this `waits` for it.
    """
    check_output(path, None)
    lock = _lock_of(path)
    try:
        _acquire(lock, path, timeout=0)
    except filelock.Timeout as error:
        if not waits:
            raise TryAgain(busy) from error
        log.info("%s", busy)
        _acquire(lock, path)
    try:
        yield
    finally:
        _remove_held(path)
        lock.release()


@contextmanager
def lock_folder(folder: Path, timeout: float = 0.0, *, new: bool = False) -> Iterator[None]:
    """Keep other processes from locking the folder, which is created if absent.

    timeout: seconds to wait for the lock's holder to end. A folder that this call created
    is removed at the end if it is empty. Raises TryAgain, naming the holder, if it is locked, and
    if another process removes it meanwhile; with `new`, FileExistsError if it exists.
    """
    if not new and folder.is_file():
        raise InputError(f"{folder}: is a file; name a folder")
    for place in (folder, *folder.parents):
        if place.is_symlink() and not place.exists():
            raise InputError(f"{place}: is a broken link; is its disk mounted?")
    for name in (LOCK_FILE, HOLDER_FILE):
        check_output(folder / name, None)
    lock, created = _lock_of(folder / LOCK_FILE), not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=not new)
        _acquire_folder(lock, folder, timeout)
    except (FileNotFoundError, FileExistsError) as error:
        if isinstance(error, FileExistsError) and (new or folder.exists()):
            raise
        raise TryAgain(f"{folder}: was just removed by another process; start again") from error
    try:
        _remove_half_files(folder, (HOLDER_FILE,))  # of a killed holder
        since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        write_json(folder / HOLDER_FILE, holder, None)
        yield
    finally:
        (folder / HOLDER_FILE).unlink(missing_ok=True)
        _remove_held(folder / LOCK_FILE)
        if created:
            with suppress(OSError):  # not empty
                folder.rmdir()
        lock.release()


def _acquire_folder(lock: filelock.BaseFileLock, folder: Path, timeout: float) -> None:
    try:
        _acquire(lock, folder, timeout=0)
    except filelock.Timeout:
        if timeout:
            log.warning("%s; waiting up to %g s for it to end", _holder(folder), timeout)
        try:
            _acquire(lock, folder, timeout)
        except filelock.Timeout as error:
            remedy = "wait for it to end, or name another folder"
            raise TryAgain(f"{_holder(folder)}; {remedy}") from error


def _holder(folder: Path) -> str:
    """Return who holds a folder, in words; one that has just begun is not recorded yet."""
    try:
        holder = read_json(folder / HOLDER_FILE)
        process = f"process {holder['pid']} on {holder['host']}"
        return f"{folder}: in use by {process} since {holder['since']}"
    except (InputError, OSError, KeyError):
        return f"{folder}: in use by another process"
