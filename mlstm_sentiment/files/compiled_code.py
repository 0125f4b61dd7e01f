"""Compiled code in the user's cache: built once for a machine, by one process at a time.

A library is code that runs with the user's rights. So the cache must be a folder that no other user
can write to, and a library is used only if it has the digest that was recorded next to it when it
was built. Otherwise it is built again, or built in a private temporary folder.
"""

import atexit
import contextlib
import hashlib
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import filelock

from ..errors import InputError
from .writer import RECORD, recorded_digests, write_atomically

SECONDS_TO_COMPILE = 900  # cheaper than plain torch for a whole run
ERRORS = (InputError, OSError, RuntimeError, subprocess.SubprocessError)  # of a build that fails

log = logging.getLogger(__name__)


class Compiler(NamedTuple):
    """A language's compiler: what a variable names, or else the first of some names on PATH."""

    language: str
    variable: str
    names: tuple[str, ...]

    def chosen(self) -> list[str]:
        """Return the words of the variable, such as "ccache g++ -m64"; none if it is no program."""
        try:
            name, *options = shlex.split(os.environ.get(self.variable, ""))
        except ValueError:  # empty, or an unmatched quote
            return []
        path = shutil.which(name)
        return [path, *options] if path else []

    def command(self) -> list[str]:
        """Return the words of a command that compiles; RuntimeError if there is none."""
        if chosen := self.chosen():
            return chosen
        path = next(filter(None, map(shutil.which, self.names)), None)
        if path is None:
            raise RuntimeError(f"no {self.language} compiler")
        if named := os.environ.get(self.variable):
            said = "%s names %s, which is not an installed program; using %s"
            log.warning(said, self.variable, named, path)
        return [path]


C = Compiler("C", "CC", ("cc", "gcc", "clang"))
CXX = Compiler("C++", "CXX", ("c++", "g++", "clang++"))


def cached_library(
    compiler: Compiler,
    source: Path,
    options: Sequence[str],
    *,
    libraries: Sequence[str] = (),
    contents: Sequence[str] = (),
    function: str = "",
    message: str = "",
) -> Path:
    """Return a library from the cache; it is compiled first if absent or damaged.

    contents: what decides the result besides the options, such as the texts of sources. function:
    one that the library must have. message: warns of the wait, if it is compiled. Raises one of
    ERRORS.
    """
    system = [platform.machine(), *platform.libc_ver()]  # since machines may share a home
    words = [*contents, *system, *compiler.chosen(), *options]
    key = hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
    name = f"{source.stem}-{key}.so"
    cache = _cache_folder()
    if cache and _is_whole(cache / name, function):
        return cache / name  # it needs no compiler, and the folder may be read-only
    if cache and os.access(cache, os.W_OK):
        library = cache / name
    else:
        folder = tempfile.mkdtemp(prefix="mlstm_sentiment-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        library = Path(folder, name)
    with _one_at_a_time(library):
        if not _is_whole(library, function):
            command = compiler.command()
            if message:
                log.warning(message)
            _compile([*command, *options, str(source), *libraries], library)
            if not _is_whole(library, function):
                raise RuntimeError(f"{command[0]}: the compiled library lacks {function}")
    return library


def _is_whole(library: Path, function: str = "") -> bool:
    """Return whether a library has the digest of its build and the function that it must have."""
    try:
        files = library, library.with_name(RECORD)
        if not all(_is_private(path, stat.S_ISREG) for path in files):
            return False
        content, digests = library.read_bytes(), recorded_digests(library)
    except OSError:
        return False
    return hashlib.sha256(content).hexdigest() in digests and function.encode() in content


def _cache_folder() -> Path | None:
    """Return the user's folder; None if there is none, or if libraries should not run from it."""
    try:
        chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))  # which counts only if absolute
        base = chosen if chosen.is_absolute() else Path.home() / ".cache"
        folder = base / "mlstm_sentiment"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(folder, stat.S_ISDIR):
            _warn_of_others(folder)
            return None
        runs_nothing = os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None
    return None if runs_nothing else folder


def _is_private(path: Path, is_kind: Callable[[int], bool]) -> bool:
    """Return whether no other user, except root, could have made or changed a file or folder.

    A link is neither. is_kind: stat.S_ISREG or stat.S_ISDIR.
    """
    status = path.lstat()
    if not hasattr(os, "getuid"):
        return is_kind(status.st_mode)
    writable_by_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return is_kind(status.st_mode) and status.st_uid in (0, os.getuid()) and not writable_by_others


@cache
def _warn_of_others(folder: Path) -> None:
    log.warning(
        "%s is not used for compiled code: it is a link, another user's, or others may write to "
        "it, so each process compiles for itself. Remove it; the next process makes a new one",
        folder,
    )


@contextlib.contextmanager
def _one_at_a_time(library: Path) -> Iterator[None]:
    """Let one process of a machine compile while the others wait, for a limited time.

    The system drops the lock of a killed process, and the library appears whole or not at all, so
    a process that gets no lock compiles for itself.
    """
    lock = filelock.FileLock(library.with_suffix(".lock"), timeout=SECONDS_TO_COMPILE)
    with contextlib.ExitStack() as stack:
        # A Timeout is an OSError; NotImplementedError: a file system without locks.
        with contextlib.suppress(OSError, NotImplementedError):
            stack.enter_context(lock)
        yield


def _compile(command: list[str], library: Path) -> None:
    def compile_into(output: Path) -> None:
        done = subprocess.run(
            [*command, "-o", str(output)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS_TO_COMPILE,
            check=False,
        )
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            raise RuntimeError(f"{command[0]}: {(errors or ['failed'])[0][:300]}")

    try:
        library.unlink(missing_ok=True)  # damaged
        write_atomically(library, compile_into, "compiled code")
        for path in (library, library.with_name(RECORD)):
            path.chmod(0o700)  # no group may write, whatever the umask
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{command[0]}: took longer than {error.timeout:g} s") from error
