"""Every path on every machine: those that it lacks run with functions instead of instructions."""

from functools import cache
from pathlib import Path

import pytest

from mlstm_sentiment.engine import library
from mlstm_sentiment.files.compiled_code import ERRORS

EMULATION = Path(__file__).parent / "emulation.h"
COMPILED = library.PATHS


@cache
def emulated_library():
    """Return the library with every path emulated; None without a compiler."""
    try:
        return library.opened(library.compiled((f'-DEMULATED="{EMULATION}"', "-O1")))
    except ERRORS:
        return None


def emulate(monkeypatch):
    """Let models that are loaded from now on run on emulated instructions."""
    if (emulated := emulated_library()) is None:
        pytest.skip("no C compiler")
    monkeypatch.setattr(library, "engine_library", lambda: emulated)


def take(path, monkeypatch):
    """Let this path run: on this machine if it can, else emulated."""
    if path != library.NUMPY and path not in library.path_names():
        emulate(monkeypatch)
