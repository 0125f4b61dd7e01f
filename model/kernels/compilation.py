"""Compiles the C++ of this package, once for this machine, and loads it.

It includes torch's headers but not Python's, and is called through ctypes, so it needs a C++
compiler and nothing else. Compiling takes seconds; the library is kept in the user's cache.

A library is code that runs with the user's rights. So the cache must be a folder that no other user
can write to, and a library is loaded only if it has the digest that was written next to it when it
was built. Otherwise it is built again, or built in a private temporary folder.
"""

import atexit
import contextlib
import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import filelock
import torch

FOLDER = Path(__file__).parent
SECONDS_TO_COMPILE = 900  # cheaper than plain torch for a whole run
ERRORS = (OSError, RuntimeError, subprocess.SubprocessError)  # of a build that fails
_OPTIONS = ("-std=c++20", "-O3", "-pthread", "-shared", "-fPIC", "-w")
_FLAGS = {
    "AVX512": "-mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mf16c",
    "AVX2": "-mavx2 -mfma -mf16c",
}
_log = logging.getLogger(__name__)


class Build(NamedTuple):
    """A source and the options that compile it. Every header of this package counts as included."""

    source: Path
    options: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    function: str = ""  # a function that the library must have


@cache
def window_library() -> ctypes.CDLL | None:
    """Return the compiled recurrence; None, after a warning, if it does not build."""
    try:
        libraries = ("-ltorch_cpu", "-lc10")
        function = "mlstm_forward_float32"
        return load(Build(FOLDER / "cpp" / "window.cpp", _torch_options(), libraries, function))
    except ERRORS as error:
        _log.warning(
            "the recurrence was not compiled (%s); it runs in plain torch, several times slower. "
            "It needs a C++20 compiler: g++ 11 or clang 14, named by CXX or found on PATH",
            error,
        )
        return None


def load(build: Build) -> ctypes.CDLL:
    """Load a library from the cache; compile it first if absent or damaged.

    Raises one of ERRORS.
    """
    library = _compiled(build)
    try:
        return ctypes.CDLL(str(library))
    except OSError:  # for instance, made on a machine with other libraries
        library.unlink(missing_ok=True)
        return ctypes.CDLL(str(_compiled(build)))


def _compiled(build: Build) -> Path:
    name, cache = _name_of(build), _cache_folder()
    if cache and _is_whole(cache / name, build):
        return cache / name  # it needs no compiler, and the folder may be read-only
    library = _folder_to_compile_in(cache) / name
    with _one_at_a_time(library):
        if not _is_whole(library, build):
            _announce(build)
            command = [*_compiler(), *_OPTIONS, *build.options]
            _compile([*command, str(build.source), *build.libraries], library)
            if not _is_whole(library, build):
                raise RuntimeError(f"{command[0]}: the compiled library lacks {build.function}")
    return library


def _is_whole(library: Path, build: Build) -> bool:
    """Return whether a library has the digest of its build and the function that it must have."""
    digest = _digest_of(library)
    try:
        if not all(_is_private(path, stat.S_ISREG) for path in (library, digest)):
            return False
        content, recorded = library.read_bytes(), digest.read_bytes()
    except OSError:
        return False
    same = hashlib.sha256(content).hexdigest().encode() == recorded
    return same and build.function.encode() in content


def _digest_of(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _name_of(build: Build) -> str:
    """Return the library's name: a digest of sources, options and, if CXX is set, the compiler."""
    sources = [build.source, *sorted(FOLDER.rglob("*.h"))]
    texts = (path.read_text() for path in sources)
    system = [platform.machine(), *platform.libc_ver()]  # since machines may share a home
    chosen = _chosen_compiler() or [""]
    command = [*chosen, *_OPTIONS, *build.options]
    key = hashlib.sha256("\0".join([*texts, torch.__version__, *system, *command]).encode())
    return f"{build.source.stem}-{key.hexdigest()[:16]}.so"


def _announce(build: Build) -> None:
    """Announce the wait as a warning, since Python shows warnings by default."""
    if (cxx := os.environ.get("CXX")) and not _chosen_compiler():
        _log.warning(
            "CXX names %s, which is not an installed program; using %s",
            cxx,
            shlex.join(_compiler()),
        )
    _log.warning(
        "compiling the recurrence for this machine, once (%s); this takes about ten seconds, on a "
        "loaded machine longer",
        build.source.name,
    )


def _compiler() -> list[str]:
    """Return the words of a command that compiles C++: CXX's, or a compiler on PATH."""
    if chosen := _chosen_compiler():
        return chosen
    for name in ("c++", "g++", "clang++"):
        if path := shutil.which(name):
            return [path]
    raise RuntimeError("no C++ compiler")


def _chosen_compiler() -> list[str]:
    """Return the words of CXX, such as "ccache g++ -m64"; none if it names no program."""
    try:
        name, *options = shlex.split(os.environ.get("CXX", ""))
    except ValueError:  # empty, or an unmatched quote
        return []
    path = shutil.which(name)
    return [path, *options] if path else []


def _torch_options() -> tuple[str, ...]:
    torch_folder = Path(torch.__file__).parent
    capability = torch.backends.cpu.get_cpu_capability()
    if capability not in _FLAGS:
        capability = "DEFAULT"
    return (
        *vector_options(),
        f"-DCPU_CAPABILITY={capability}",
        f"-DCPU_CAPABILITY_{capability}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-I{torch_folder / 'include'}",
        f"-L{torch_folder / 'lib'}",
    )


def vector_options() -> tuple[str, ...]:
    """Return the flags for the vector instructions that torch uses here, perhaps not all."""
    return tuple(_FLAGS.get(torch.backends.cpu.get_cpu_capability(), "").split())


def _cache_folder() -> Path | None:
    """Return the user's folder; None if there is none, or if libraries should not run from it."""
    try:
        folder = _cache_base() / "mlstm_sentiment"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(folder, stat.S_ISDIR):
            _warn_of_others(folder)
            return None
        runs_nothing = os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None
    return None if runs_nothing else folder


def _cache_base() -> Path:
    """Return XDG_CACHE_HOME, which counts only if absolute, or ~/.cache."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return chosen if chosen.is_absolute() else Path.home() / ".cache"


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
    _log.warning(
        "%s is not used for compiled code: it is a link, another user's, or others may write to "
        "it, so each process compiles for itself. Remove it; the next process makes a new one",
        folder,
    )


def _folder_to_compile_in(cache: Path | None) -> Path:
    if cache and os.access(cache, os.W_OK):
        return cache
    folder = Path(tempfile.mkdtemp(prefix="mlstm_sentiment-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


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
    whole = library.with_name(f"{library.stem}.{os.getpid()}.tmp")
    command = [*command, "-o", str(whole)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS_TO_COMPILE,
            check=False,
        )
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            raise RuntimeError(f"{command[0]}: {(errors or ['failed'])[0][:300]}")
        whole.chmod(0o755)  # no group may write, whatever the umask
        with whole.open("rb+") as file:
            os.fsync(file.fileno())
            digest = hashlib.sha256(file.read()).hexdigest()
        whole.replace(library)
        whole.write_text(digest, encoding="ascii")
        whole.chmod(0o644)
        whole.replace(_digest_of(library))
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{command[0]}: took longer than {error.timeout:g} s") from error
    finally:
        whole.unlink(missing_ok=True)
