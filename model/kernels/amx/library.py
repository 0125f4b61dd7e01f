"""The C++ of this folder, built for Intel AMX, or with AMX emulated."""

import ctypes
import logging
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from mlstm_sentiment.files.compiled_code import ERRORS

from ..compilation import Build, load, vector_options, window_library
from ..cores import emulates_amx, has_amx, has_instructions

SOURCE = Path(__file__).with_name("tiles.cpp")
_FUNCTION = "mlstm_tiles_available"
# A sum is fused with a product only where the source says so, so that both builds round alike.
_OPTIONS = ("-ffp-contract=off",)
_AVX512 = ("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mavx512bf16", "-mavx2", "-mfma")
_AMX = ("-mamx-tile", "-mamx-bf16")
_log = logging.getLogger(__name__)


def _tile_library() -> ctypes.CDLL | None:
    """Return the library for Intel AMX, or its emulation; None without AMX."""
    if emulates_amx():
        return compiled(SOURCE, _FUNCTION, emulated=True)
    return _library_for_amx() if has_amx() else None


@cache
def _library_for_amx() -> ctypes.CDLL | None:
    library = build_for_tiles()
    if library is not None:
        window_library()  # for the watch for other programs: build it before a step needs it
    return library


def runs_on_tiles(w_mh: Tensor) -> bool:
    """Return whether the recurrence on Intel AMX can take a w_mh of this device and dtype."""
    on_cpu = w_mh.device.type == "cpu" and w_mh.dtype == torch.bfloat16
    return on_cpu and _tile_library() is not None


def build_for_tiles() -> ctypes.CDLL | None:
    """Build the library and ask it whether the processor has AMX; None if not.

    None, after a warning, also if the compiler knows no such instructions.
    """
    try:
        library = load(Build(SOURCE, _options(emulated=False), function=_FUNCTION))
    except ERRORS as error:
        _log.warning(
            "the recurrence runs without Intel AMX: compiling for it failed "
            "(%s); it needs g++ 11 or clang 14",
            error,
        )
        return None
    library.mlstm_tiles_available.restype = ctypes.c_bool
    return library if library.mlstm_tiles_available() else None


@cache
def compiled(source: Path, function: str, *, emulated: bool) -> ctypes.CDLL:
    """Return a library of C++ for tiles; emulated: with their instructions in plain C++."""
    return load(Build(source, _options(emulated=emulated), function=function))


def _options(*, emulated: bool) -> tuple[str, ...]:
    if not emulated:
        return (*_OPTIONS, *_AVX512, *_AMX)
    vectors = vector_options()
    if "-mavx512f" in vectors and has_instructions("avx512_bf16"):
        vectors = _AVX512
    return (*_OPTIONS, "-DMLSTM_EMULATED_TILES", *vectors)


def call(name: str, arguments: ctypes.Structure) -> None:
    """Call a function of tiles.cpp, where `_tile_library` returns one."""
    library = _tile_library()
    assert library is not None
    getattr(library, f"mlstm_tiles_{name}")(ctypes.byref(arguments))
