"""Every path on every machine: those that it lacks run with functions instead of instructions."""

import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from mlstm_sentiment.engine import library
from mlstm_sentiment.files.compiled_code import ERRORS
from mlstm_sentiment.files.writer import write_atomically

EMULATION = Path(__file__).parent / "emulation.h"
COMPILED = library.PATHS


@cache
def emulated_library():
    """Return the library with every path emulated; None without a compiler.

    The header's place is that of its content, so that all checkouts share what is compiled.
    """
    content = EMULATION.read_bytes()
    header = Path(tempfile.gettempdir(), f"emulation-{sha256(content).hexdigest()[:16]}.h")
    try:
        write_atomically(header, lambda path: path.write_bytes(content), None)
        return library.opened(library.compiled((f'-DEMULATED="{header}"', "-O1")))
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
