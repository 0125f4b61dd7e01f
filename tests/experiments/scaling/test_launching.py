"""A point's ranks are started as they are told, and ended whatever happens."""

import os
import sys

import pytest

from experiments.scaling.measuring import launching
from experiments.scaling.measuring.launching import Launcher
from experiments.scaling.measuring.points import Point, Settings

SMALL = Settings(
    lanes_per_rank=2, window=8, precision="fp32", device="cpu", warm_up=3, blocks=2, steps=2
)
POINT = Point.of(1, 8, "fp32", 25.0, 1)


def test_a_cluster_is_launched_as_it_is_told(tmp_path):
    given = "srun -N {nodes} torchrun --nproc-per-node {per_node} --rdzv-id s{number}"
    launcher = Launcher(tmp_path, SMALL, given, ranks_per_node=8, timeout=9.0)
    words = launcher.words(Point.of(32, 8, "flat", 25.0, 1), 5)
    start = "srun -N 4 torchrun --nproc-per-node 8 --rdzv-id s5 -m experiments.scaling"
    assert " ".join(words).startswith(start)
    few = launcher.words(Point.of(2, 8, "flat", 25.0, 1), 6)
    assert few[:5] == ["srun", "-N", "1", "torchrun", "--nproc-per-node"]
    assert few[5] == "2"


def launcher_of(tmp_path, code):
    script = tmp_path / "launch.py"
    script.write_text(code)
    return Launcher(tmp_path, SMALL, f"{sys.executable} -S {script}", None, timeout=60.0)


def test_a_launch_that_fails_leaves_its_log(tmp_path):
    launcher = launcher_of(tmp_path, "raise MemoryError('no room')")
    assert launcher(POINT, 1) == "MemoryError: no room"
    log = tmp_path / f"{POINT.name}.log"
    assert "Traceback" in log.read_text()
    silent = launcher_of(tmp_path, "raise SystemExit(3)")(POINT, 2)
    assert silent == "ended with exit code 3 and without a word"
    assert launcher_of(tmp_path, "")(POINT, 3) is None
    assert not log.exists()


def test_a_launch_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(launching, "GRACE", 0.3)
    (tmp_path / "launch.sh").write_text(f"trap '' TERM\necho $$ > {tmp_path}/id\nsleep 60\n")
    launcher = Launcher(tmp_path, SMALL, f"sh {tmp_path}/launch.sh", None, timeout=0.7)
    assert launcher(POINT, 1) == "took longer than 0.7 s"
    ended = int((tmp_path / "id").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(ended, 0)
