"""Compiles the C++ of this package, once for this machine, and loads it.

It includes torch's headers but not Python's, and is called through ctypes, so it needs a C++
compiler and nothing else. Compiling takes seconds; `compiled_code` keeps the library in the
user's cache.
"""

import ctypes
import logging
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from mlstm_sentiment.files.compiled_code import CXX, ERRORS, cached_library

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


class _Struct(ctypes.Structure):
    """Takes tensors for pointers; those left out, or None, are null."""

    def __init__(self, *numbers: int, **fields: Tensor | float | None):
        there = {name: value for name, value in fields.items() if value is not None}
        addressed = {n: v.data_ptr() if isinstance(v, Tensor) else v for n, v in there.items()}
        super().__init__(*numbers, **addressed)


def struct(numbers: str, pointers: str, floats: str = "") -> type[ctypes.Structure]:
    """Return what mirrors a struct of the C++, which says what each field is.

    numbers, floats, pointers: the names of the fields, in the order of the struct.
    """
    kinds = {ctypes.c_int64: numbers, ctypes.c_float: floats, ctypes.c_void_p: pointers}
    fields = [(name, kind) for kind, names in kinds.items() for name in names.split()]
    return type("Struct", (_Struct,), {"_fields_": fields})


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
    texts = (path.read_text() for path in (build.source, *sorted(FOLDER.rglob("*.h"))))
    return cached_library(
        CXX,
        build.source,
        [*_OPTIONS, *build.options],
        libraries=build.libraries,
        contents=[*texts, torch.__version__],
        function=build.function,
        message=(
            f"compiling the recurrence for this machine, once ({build.source.name}); this takes "
            "about ten seconds, on a loaded machine longer"
        ),
    )


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
