"""Intel AMX in plain C++, or none, for one test."""

import pytest

from model.kernels import cores
from model.kernels.compilation import window_library


def emulate_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process, and those that it starts, have emulated AMX."""
    if window_library() is None:
        pytest.skip("no compiler")
    monkeypatch.setenv(cores.EMULATED_AMX, "1")


def take_no_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have no AMX.

    Not by ONEDNN_MAX_CPU_ISA: oneDNN reads it once, so later tests would have no AMX either.
    """
    has = cores.has_instructions
    monkeypatch.delenv(cores.EMULATED_AMX, raising=False)
    monkeypatch.setattr(cores, "has_instructions", lambda name: name != "amx_bf16" and has(name))
