"""Intel AMX in plain C++, or none, for one test."""

import pytest

from model.kernels import cores
from model.kernels.compilation import window_library


def emulate_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have emulated AMX."""
    if window_library() is None:
        pytest.skip("no compiler")
    monkeypatch.setenv(cores.EMULATED_AMX, "1")


def take_no_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have no AMX."""
    monkeypatch.delenv(cores.EMULATED_AMX, raising=False)
    if cores.has_amx():
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
