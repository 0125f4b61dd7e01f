"""Threads that share work: each piece is done once, by whoever comes to it."""

import subprocess
from pathlib import Path

import pytest

from model.fused import compilation, crowding


def test_every_piece_is_done_once_and_none_waits_for_a_thread_that_is_busy(tmp_path):
    try:
        compiler = compilation._compiler()
    except RuntimeError:
        pytest.skip("no C++ compiler")
    source, folder = Path(__file__).with_name("sharing.cpp"), Path(crowding.__file__).parent
    program = tmp_path / "sharing"
    command = [compiler, "-std=c++20", "-O2", "-pthread", f"-I{folder}", source, "-o", program]
    subprocess.run(command, check=True)
    run = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.split() == ["50"] * 10
