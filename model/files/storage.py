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
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from fnmatch import fnmatchcase
from glob import escape
from itertools import count
from pathlib import Path
from typing import IO, Any, Literal

import filelock
import numpy as np

from ..errors import InputError, NewerFormat, brief

_MOST_JSON_BYTES = 1 << 26  # our files have a few MB at most; parsing takes many times as much

_STEP_FOLDER = re.compile("step-[0-9]{8,}")
_REMOVED = "removed"  # suffix of what is being removed
STDOUT = "standard output"  # its name in messages
PARTIAL = "partial"  # suffix of what is incomplete
_OLD = "whole-folder-old"  # suffix of a folder that is about to be replaced
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, quota used up, file too large
_UNWRITTEN = re.compile("[0-9]+ requested and [0-9]+ written")  # NumPy's error of a full disk
_ABANDONED_SECONDS = 24 * 3600  # without a change: its writer must be dead
_TEMPORARY_FILE = re.compile(rf"\.(.+?)(?:\.[0-9a-f]+)?\.{PARTIAL}")
_REMOVED_FOLDER = re.compile(rf"\..+\.[0-9a-f]{{8}}\.{_REMOVED}\.{PARTIAL}")
_CLUTTER = (".DS_Store", ".nfs*")  # files that a file manager or a network file system adds
_SHOWN = 3  # foreign files that an error names
LOCK_FILE, HOLDER_FILE = ".lock", ".holder.json"  # in a locked folder; the latter names the process
_MOST_TRIES = 100  # to lock a folder that other processes create and remove
_RECORD_SECONDS = 1.0  # within which a new holder of a folder records its name
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # from a file system without locks

Contents = tuple[str, ...]
"""Patterns of the relative paths of the files that we write into a kind of folder."""

log = logging.getLogger(__name__)


def write_atomically(path: Path, write: Callable[[Path], object], *, sweep: bool = True) -> None:
    """Let `write` fill a temporary file next to `path`, then rename it over `path`.

    Readers see the old file or the new one, never a part of it, even after a kill. If
    several write at once, each has its own temporary file, and the last to finish wins. A link
    stays a link; a pipe or a device, such as /dev/stdout, is written to.

    sweep: remove what killed writers of `path` left, which lists the whole folder.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file in it")
    if is_stream(path):
        _write_into_stream(path, write)
        return
    path = path.resolve() if path.is_symlink() else path
    if sweep:
        _remove_abandoned(path)
    temporary = _hidden_sibling(path, f"{secrets.token_hex(4)}.{PARTIAL}")
    try:
        with path_in_oserrors(path, temporary):
            temporary.touch()
            mode = stat.S_IMODE(temporary.stat().st_mode)  # os.umask cannot read without changing
            write(temporary)
            os.chmod(temporary, mode)  # safetensors makes files that only the owner reads
            flush_to_disk(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def is_stream(path: Path) -> bool:
    """Return whether a path is a stream to write into, not a file to replace.

    Streams are pipes, devices and descriptors such as /dev/stdout, even if that is a file.
    """
    return path.exists() and (not path.is_file() or _descriptor(path) is not None)


def check_apart(sources: Iterable[Path], outputs: Iterable[Path | None]) -> None:
    """Raise InputError if a file to write is one of those to read."""
    inputs = [path for path in sources if path.is_file()]
    for output in filter(None, outputs):
        if output.is_file() and any(map(output.samefile, inputs)):
            raise InputError(f"--output {output}: this is the input; name another file")


def open_stream(path: Path) -> IO[bytes]:
    """Open a stream to write into.

    A descriptor is shared: reopening the file behind it would lose what other processes write
    there.
    """
    descriptor = _descriptor(path)
    return open(path if descriptor is None else os.dup(descriptor), "wb")


def _descriptor(path: Path) -> int | None:
    """Return the file descriptor that a path such as /dev/stdout names; else None."""
    folder, name = os.path.split(os.path.abspath(path))
    if folder == "/dev":
        return {"stdout": 1, "stderr": 2}.get(name)
    return int(name) if folder in ("/dev/fd", "/proc/self/fd") and name.isdigit() else None


def _write_into_stream(path: Path, write: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / path.name
        with path_in_oserrors(whole):  # it is not the stream that is full
            write(whole)
            content = whole.read_bytes()
        with path_in_oserrors(path), open_stream(path) as stream:
            stream.write(content)


@contextmanager
def path_in_oserrors(path: Path, filled: Path | None = None) -> Iterator[None]:
    """Add the path being written to an OSError; one from a full disk may name no file.

    filled: the temporary file or folder that is written in its place. An error that names another
    file, such as one to read, is left as it is.
    """
    try:
        yield
    except OSError as error:
        renamed = _of_one_file(error)
        name = renamed.filename
        is_own = not name or Path(str(name)).is_relative_to(filled or path)
        if is_own and renamed.errno is not None:  # without a number, it is from the network
            renamed.filename = str(path)
        if renamed is error:
            raise
        raise renamed from error


def _of_one_file(error: OSError) -> OSError:
    """Reduce an error to a number, a reason and one file; for a copy to a full disk, the target."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):  # of copytree
        source, target, reason = error.args[0][0]
        if number := re.match(r"\[Errno (\d+)\]", str(reason)):
            code = int(number[1])
            return OSError(code, os.strerror(code), str(target if code in _FULL else source))
    if error.errno in _FULL and error.filename2:
        return OSError(error.errno, error.strerror, error.filename2)
    if type(error) is OSError and _UNWRITTEN.fullmatch(str(error)):
        return write_failed(error)
    return error


def write_failed(error: Exception) -> OSError:
    """Turn a library's error about a file that was not written into an OSError with a number."""
    return OSError(errno.EIO, f"could not be written ({error}); is the disk full?")


def first_free(named: Callable[[int], Sequence[Path]]) -> Sequence[Path]:
    """Return `named(n)` for the first n, from 1, for which none of its paths exists."""
    return next(paths for paths in map(named, count(1)) if not any(map(os.path.lexists, paths)))


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files that writers of `path` left when they were killed."""
    for file in path.parent.glob(f".{escape(path.name)}.*.{PARTIAL}"):
        with suppress(OSError):  # already gone, or of another user
            if time.time() - file.stat().st_mtime > _ABANDONED_SECONDS:
                file.unlink()


def foreign_files(folder: Path, ours: Contents) -> list[str]:
    """Return the relative paths of files in a folder that we did not write, and of all links."""
    foreign = []
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in [*folders, *files]):
            name = path.relative_to(folder)
            if path.is_symlink() or (not path.is_dir() and not _is_ours(name, ours)):
                foreign.append(name.as_posix())
    return sorted(foreign)


def _is_ours(path: Path, ours: Contents) -> bool:
    if any(fnmatchcase(path.name, pattern) for pattern in _CLUTTER):
        return True
    temporary = _TEMPORARY_FILE.fullmatch(path.name)
    parts = path.with_name(temporary[1]).parts if temporary else path.parts
    patterns = (pattern.split("/") for pattern in ours)
    return any(
        len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern)) for pattern in patterns
    )


def inside(folder: str, files: Contents) -> Contents:
    """Return the patterns of files that lie in a folder of that name."""
    return tuple(f"{folder}/{name}" for name in files)


def listed(names: Sequence[str]) -> str:
    """Return the first names, quoted, and the number of the others."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more


def check_no_link(path: Path) -> None:
    """Raise InputError if a folder to replace is a link, since its target is not ours."""
    if path.is_symlink():
        raise InputError(
            f"{path}: is a link, and nothing is written through links; replace it with its target"
        )


def check_replaceable(folder: Path, ours: Contents) -> None:
    """Raise InputError if replacing a folder would lose more than the files that we write."""
    check_no_link(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file, but a folder of this name is needed; move it away")
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
    partial, old = _hidden_sibling(final, PARTIAL), _hidden_sibling(final, _OLD)
    _remove_or_rename(partial, final, ours)
    try:
        with path_in_oserrors(final, partial):
            partial.mkdir(parents=True)
            _recover(old, final, ours)
            yield partial
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
        folder.rename(_hidden_sibling(folder, f"{secrets.token_hex(4)}.{_REMOVED}.{PARTIAL}"))
    for left in folder.parent.glob(f".*.{_REMOVED}.{PARTIAL}"):
        if _REMOVED_FOLDER.fullmatch(left.name):
            shutil.rmtree(left, ignore_errors=True)


def recover_folders(parent: Path, ours: Contents) -> None:
    """Repair what a kill left in `parent`; call it only in the process that writes there.

    Folders that `whole_folder` had set aside get their names back; half-written ones are removed.
    ours: the files that `parent` and any of these folders may hold; others are left alone.
    """
    for old in parent.glob(f".*.{_OLD}"):
        _recover(old, old.with_name(old.name.removeprefix(".").removesuffix(f".{_OLD}")), ours)
    for partial in parent.glob(f".*.{PARTIAL}"):
        if partial.is_symlink():
            continue
        if not partial.is_dir():
            if _is_ours(Path(partial.name), ours):
                partial.unlink()
        elif _REMOVED_FOLDER.fullmatch(partial.name) or not foreign_files(partial, ours):
            shutil.rmtree(partial, ignore_errors=True)


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
        _remove_or_rename(old, final, ours)
    elif os.path.lexists(old):
        old.rename(final)


def _remove_or_rename(old: Path, final: Path, ours: Contents) -> None:
    """Remove a folder; if it is a link or holds a file that is not ours, rename it instead."""
    if not os.path.lexists(old):
        return
    is_folder = old.is_dir() and not old.is_symlink()
    foreign = foreign_files(old, ours) if is_folder else []
    if is_folder and not foreign:
        remove_folder(old)
        return
    (free,) = first_free(lambda n: [final.with_name(f"{final.name}-kept{f'-{n}' * (n > 1)}")])
    old.rename(free)
    what = (
        f"held files that this project did not write: {listed(foreign)}"
        if foreign
        else "was a link or a file"
    )
    log.warning("%s: %s; the old one is now %s", final, what, free)


def _hidden_sibling(path: Path, word: str) -> Path:
    return path.with_name(f".{path.name}.{word}")


def is_taken(folder: Path) -> bool:
    """Return whether the path is a file or a folder with content."""
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def flush_to_disk(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, so that renames outlast a crash, where possible."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_json(path: Path, content: Mapping[str, Any], *, sweep: bool = True) -> None:
    """Write a mapping as indented JSON, atomically; sweep: as for `write_atomically`."""
    text = json.dumps(content, indent=2) + "\n"
    write_atomically(
        path, lambda temporary: temporary.write_text(text, encoding="utf-8"), sweep=sweep
    )


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
    """Raise InputError for a file without a format version, NewerFormat for a newer one."""
    version = content.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(f"{path}: has no format_version; was it written by this project?")
    if version > supported:
        raise NewerFormat(
            f"{path}: format_version {version} is newer than {supported}, the newest this "
            "version reads; update the project"
        )


def map_array(path: Path, mode: Literal["r", "r+"], remedy: str) -> np.memmap:
    """Map an array without reading or unpickling it; InputError, with `remedy`, if damaged."""
    try:
        return np.lib.format.open_memmap(path, mode=mode)
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


def _warn(path: Path, why: object) -> None:
    log.warning(
        "%s: this file system has no locks (%s); do not start a second process on it", path, why
    )


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

    timeout: seconds to wait for the lock's holder to end. A folder that this call created
    is removed at the end if it is empty. Raises InputError, naming the holder, if it is locked;
    with `new`, FileExistsError if it exists.
    """
    if not new and _is_no_folder(folder):
        raise InputError(f"{folder}: is a file; name a folder")
    for place in (folder, *folder.parents):
        if place.is_symlink() and not place.exists():
            raise InputError(f"{place}: is a broken link; is its disk mounted?")
    lock = _lock_of(folder / LOCK_FILE)
    created = _acquire(lock, folder, timeout, new, _MOST_TRIES)
    try:
        write_json(folder / HOLDER_FILE, _description())
        yield
    finally:
        for name in (HOLDER_FILE, LOCK_FILE):  # while this process holds the lock
            (folder / name).unlink(missing_ok=True)
        if created:
            with suppress(OSError):  # not empty
                folder.rmdir()
        lock.release()


def _is_no_folder(place: Path) -> bool:
    """Return whether something other than a folder is there; one stat: a holder may remove it."""
    try:
        return not stat.S_ISDIR(place.stat().st_mode)
    except OSError:
        return False


def _acquire(
    lock: filelock.BaseFileLock, folder: Path, timeout: float, new: bool, tries: int
) -> bool:
    """Return whether the folder had to be created."""
    created = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=not new)
    except FileExistsError:
        if new or folder.exists() or tries == 1:
            raise
        return _acquire(lock, folder, timeout, new, tries - 1)  # its holder has removed it
    try:
        _lock(lock, folder, timeout)
    except (FileNotFoundError, FileExistsError):  # its holder had made it, and has removed it
        if tries == 1:
            raise
        return _acquire(lock, folder, timeout, new, tries - 1)
    except filelock.Timeout as error:
        raise InputError(
            f"{_holder(folder)}; wait for it to end, or name another folder"
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        _warn(folder, error.strerror)
    return created


def _lock(lock: filelock.BaseFileLock, folder: Path, timeout: float) -> None:
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        if not timeout:
            raise
        log.warning("%s; waiting up to %g s for it to end", _holder(folder), timeout)
        lock.acquire(timeout=timeout)


def _description() -> dict[str, int | str]:
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _holder(folder: Path) -> str:
    """Return the name of a folder's holder; wait for a new holder to record it."""
    end = time.monotonic() + _RECORD_SECONDS
    while time.monotonic() < end:
        try:
            holder = read_json(folder / HOLDER_FILE)
            process = f"process {holder['pid']} on {holder['host']}"
            return f"{folder}: in use by {process} since {holder['since']}"
        except (InputError, OSError, KeyError):
            time.sleep(0.01)
    return f"{folder}: in use by another process"
