"""Matrix units in plain C++, for processors without them."""

import pytest

from model.fused.compilation import window_library
from model.fused.tiles import library


def emulate_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the recurrence in bf16 run on emulated matrix units."""
    if window_library() is None:
        pytest.skip("no compiler")
    monkeypatch.setattr(library, "tile_library", library.emulated_library)
