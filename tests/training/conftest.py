"""An empty store of checkpoints."""

from pathlib import Path

import pytest

from training.checkpoint import Checkpoints


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    """The checkpoints of a run that has none yet."""
    return Checkpoints(tmp_path / "checkpoint", keep=2, corpus_fingerprint="abc")
