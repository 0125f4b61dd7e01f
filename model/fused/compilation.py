"""The C++ of this package, compiled once for this machine and loaded.

It includes torch's headers but not Python's, and is called through ctypes, so it needs a C++
compiler and nothing else. Compiling takes seconds; the library is kept in the user's cache.
"""

import atexit
import contextlib
import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import filelock
import torch

FOLDER = Path(__file__).parent
SECONDS_TO_COMPILE = 900  # plain torch for a whole run costs more than such a wait
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


@cache
def window_library() -> ctypes.CDLL | None:
    """Return the compiled recurrence; None, after a warning that says why, if it does not build."""
    try:
        return load(Build(FOLDER / "window.cpp", _torch_options(), ("-ltorch_cpu", "-lc10")))
    except ERRORS as error:
        _log.warning(
            "the recurrence was not compiled (%s); it runs in plain torch, several times slower. "
            "It needs a C++20 compiler: g++ 11 or clang 14, named by CXX or found on PATH",
            error,
        )
        return None


def load(build: Build) -> ctypes.CDLL:
    """Load a library from the cache; compile it first if absent. Raises one of ERRORS."""
    library = _compiled(build)
    try:
        return ctypes.CDLL(str(library))
    except OSError:  # damaged in the cache
        library.unlink(missing_ok=True)
        return ctypes.CDLL(str(_compiled(build)))


def _compiled(build: Build) -> Path:
    name, cache = _name_of(build), _cache_folder()
    if cache and (cache / name).exists():
        return cache / name  # it needs no compiler, and the folder may be read-only
    library = _folder_to_compile_in(cache) / name
    with _one_at_a_time(library):
        if not library.exists():
            _announce(build)
            command = [_compiler(), *_OPTIONS, *build.options]
            _compile([*command, str(build.source), *build.libraries], library)
    return library


def _name_of(build: Build) -> str:
    """Name a library by all that it is made of; by the compiler only if the user chose one."""
    sources = [build.source, *sorted(FOLDER.rglob("*.h"))]
    texts = (path.read_text() for path in sources)
    system = [platform.machine(), *platform.libc_ver()]  # of machines that share a home
    command = [shutil.which(os.environ.get("CXX", "")) or "", *_OPTIONS, *build.options]
    key = hashlib.sha256("\0".join([*texts, torch.__version__, *system, *command]).encode())
    return f"{build.source.stem}-{key.hexdigest()[:16]}.so"


def _announce(build: Build) -> None:
    """Announce the wait, as a warning: Python shows warnings by default."""
    wanted = os.environ.get("CXX")
    if wanted and shutil.which(wanted) is None:
        _log.warning("CXX names %s, which is not a program here; using %s", wanted, _compiler())
    _log.warning(
        "compiling the recurrence for this machine, once (%s); this takes about ten seconds, on a "
        "busy machine longer",
        build.source.name,
    )


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise RuntimeError("no C++ compiler")


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
    """Return the user's folder, unless there is none or the system runs no code from it."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = base / "mlstm_sentiment"
        folder.mkdir(parents=True, exist_ok=True)
        runs_nothing = os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None
    return None if runs_nothing else folder


def _folder_to_compile_in(cache: Path | None) -> Path:
    if cache and os.access(cache, os.W_OK):
        return cache
    folder = Path(tempfile.mkdtemp(prefix="mlstm_sentiment-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _one_at_a_time(library: Path, patience: float = SECONDS_TO_COMPILE) -> Iterator[None]:
    """Let one process of a machine compile while the others wait, for a limited time.

    The system drops the lock of a killed process, and the library appears whole or not at all, so
    a process that gets no lock compiles for itself.
    """
    lock = filelock.FileLock(library.with_suffix(".lock"), timeout=patience)
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
        with whole.open("rb+") as file:
            os.fsync(file.fileno())
        whole.replace(library)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{command[0]}: took longer than {error.timeout:g} s") from error
    finally:
        whole.unlink(missing_ok=True)
