"""Threads that share work: each piece is done once, by whoever comes to it."""

import subprocess
from pathlib import Path

import pytest

from model.fused import compilation


def test_every_piece_is_done_once_and_none_waits_for_a_thread_that_is_busy(tmp_path):
    try:
        compiler = compilation._compiler()
    except RuntimeError:
        pytest.skip("no C++ compiler")
    source, program = Path(__file__).with_name("sharing.cpp"), tmp_path / "sharing"
    options = ["-std=c++20", "-O2", "-pthread", f"-I{compilation.FOLDER}"]
    subprocess.run([*compiler, *options, source, "-o", program], check=True)
    run = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.split() == ["50"] * 10
