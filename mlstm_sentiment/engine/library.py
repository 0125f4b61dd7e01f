"""The engine's library in C: which file, which path of it, and what it takes.

A path is a set of instructions. This is the one place that chooses it.
"""

import ctypes
import logging
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

from ..errors import InputError, nearest
from ..files.compiled_code import ERRORS, C, cached_library
from .sources import OPTIONS, SOURCE, digest_of_sources

PATHS = ("plain", "neon", "avx2", "vnni", "amx")  # numbered as in engine.c; slowest first
NUMPY = "numpy"  # the path without the library
_log = logging.getLogger(__name__)


class StoredMatrix(Structure):
    """See engine.h, as for the structures below."""

    _fields_ = [
        *((name, c_void_p) for name in ("data", "scale", "gain")),
        *((name, c_int64) for name in ("rows", "columns", "bits")),
    ]


class StoredLayer(Structure):
    _fields_ = [
        *((name, StoredMatrix) for name in ("mx", "x", "mh", "h")),
        ("b", c_void_p),
    ]


class StoredModel(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("hidden", "embedding", "vocabulary", "layers")),
        ("layer", POINTER(StoredLayer)),
        ("embed", StoredMatrix),
        ("decoder", StoredMatrix),
        ("decoder_bias", c_void_p),
        ("parts", c_int64),
        ("path", c_int64),
    ]


class Job(Structure):
    _fields_ = [
        ("texts", c_int64),
        *((name, c_void_p) for name in ("tokens", "offsets", "order")),
        ("next", POINTER(c_int64)),
        ("stop", POINTER(c_int32)),
        ("done", POINTER(c_int64)),
        *((name, c_int64) for name in ("lanes", "cell", "squash")),
        ("chosen", c_void_p),
        ("choices", c_int64),
        *((name, c_void_p) for name in ("last", "mean", "highest", "lowest", "units")),
        ("unit_count", c_int64),
        *((name, c_void_p) for name in ("unit_states", "nats", "excess", "token_bytes")),
        *((name, c_double) for name in ("bits_per_byte", "allowed_bits", "margin")),
        *((name, c_void_p) for name in ("first_h", "first_c", "final_h", "final_c")),
        *((name, c_int64) for name in ("clamp_layer", "clamp_unit")),
        *((name, c_float) for name in ("clamp_cell", "clamp_hidden")),
    ]


_SIGNATURES = {
    "engine_path_runs": (c_int64, [c_int64]),
    "engine_prepare": (c_void_p, [POINTER(StoredModel)]),
    "engine_prepare_decoder": (c_int64, [c_void_p]),
    "engine_free": (None, [c_void_p]),
    "engine_read": (c_int64, [c_void_p, POINTER(Job)]),
    "engine_logits": (c_int64, [c_void_p, c_int64, c_void_p, c_void_p]),
    "engine_sources": (c_char_p, []),
    "engine_peak": (c_int64, [c_int64, c_int64]),
    "engine_functions": (None, [c_int64, c_void_p, c_void_p, c_int64]),
}


def opened(path: Path) -> ctypes.CDLL:
    """Load a compiled engine, and declare its functions; OSError if it cannot be loaded."""
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def compiled(extra: tuple[str, ...] = ()) -> Path:
    """Return the library of a checkout, compiled now unless the user's cache has it.

    extra: more options for the compiler. Raises one of the ERRORS of `compiled_code`.
    """
    options = [*OPTIONS, "-shared", f'-DSOURCES="{digest_of_sources()}"', *extra]
    return cached_library(C, SOURCE / "engine.c", options, libraries=["-lm"])


@cache
def engine_library() -> ctypes.CDLL | None:
    """Return the library: the installed one, or a checkout's, compiled once; None without either.

    Says once, as a warning, that there is none.
    """
    sources = digest_of_sources()
    for path in sorted(SOURCE.parent.glob("_compiled.*")):
        if path.suffix in (".so", ".pyd", ".dylib"):
            try:
                library = opened(path)
            except (OSError, AttributeError):  # of another system, or an older build
                continue
            if sources in ("", library.engine_sources().decode()):
                return library
    try:
        return opened(compiled())
    except (*ERRORS, AttributeError) as error:
        _log.warning(
            "the engine was not compiled (%s); NumPy computes instead, several times slower. "
            "Install a C compiler (gcc or clang), or a wheel of this package",
            error,
        )
        return None


def path_names() -> tuple[str, ...]:
    """Return the paths that run on this machine, the fastest first; numpy always does."""
    library = engine_library()
    runs = [] if library is None else [n for n in PATHS if library.engine_path_runs(PATHS.index(n))]
    return (*reversed(runs), NUMPY)


def choose_path(path: str | None = None) -> str:
    """Return the path to take: the one asked for, or the fastest that runs here.

    Raises InputError for a path that is unknown, or that this machine cannot run.
    """
    runs = path_names()
    if path not in (None, *PATHS, NUMPY):
        raise InputError(f"path {path!r} is unknown{nearest(str(path), (*PATHS, NUMPY))}")
    if path not in (None, *runs):
        raise InputError(f"path {path}: this machine runs {', '.join(runs)}")
    return path or runs[0]
