"""Compiles the C++ of this package, once for this machine, and loads it.

It includes torch's headers but not Python's, and is called through ctypes, so it needs a C++
compiler and nothing else. Compiling takes seconds; `compiled_code` keeps the library in the
user's cache.
"""

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

from mlstm_sentiment.files.compiled_code import ERRORS, cached_library

FOLDER = Path(__file__).parent
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
    def command() -> list[str]:
        _announce(build)
        return [*_compiler(), *_OPTIONS, *build.options, str(build.source), *build.libraries]

    return cached_library(_name_of(build), command, build.function)


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
