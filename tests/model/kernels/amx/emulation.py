"""Matrix units in plain C++, for processors without them."""

from collections.abc import Callable

import pytest

from model.kernels.amx import library
from model.kernels.compilation import window_library


def emulate_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the recurrence in bf16 run on emulated AMX."""
    if window_library() is None:
        pytest.skip("no compiler")
    take_tiles_of(library.emulated_library, monkeypatch)


def take_no_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing run on Intel AMX."""
    take_tiles_of(lambda: None, monkeypatch)


def take_tiles_of(source: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the recurrence in bf16 run on the library that this function returns."""
    monkeypatch.setattr(library, "tile_library", source)
