"""The one call that measures a GPU, with a stand-in for Python where there is none."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.runs import ROOT, wait_for

STAND_IN = """#!/usr/bin/env bash
case "$*" in
    -c*) exit {begins} ;;
    -\\ *) exec {python} "$@" ;;
    *recurrence*bf16_4096.json*) echo '{{"ratios": {{"to_gemm_floor": 0.9}}}}' > "${{@: -3:1}}" ;;
    main.py*) mkdir -p "$3"; echo '{{"step": 1}}' > "$3/metrics.jsonl"
        echo $$ > "${{0%/*}}/child"; exec sleep 60 ;;
    *test_gpu.py*) echo "1 failed"; exit 1 ;;
esac
"""


@pytest.fixture
def started(tmp_path):
    def start(seconds, begins=0):
        python = tmp_path / "python"
        python.write_text(STAND_IN.format(python=sys.executable, begins=begins))
        python.chmod(0o755)
        return subprocess.Popen(
            ["bash", ROOT / "scripts" / "gpu_check.sh", tmp_path / "out"],
            env={**os.environ, "PYTHON": str(python), "GPU_CHECK_SECONDS": str(seconds)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


@pytest.fixture
def check(started, tmp_path):
    def run(seconds, begins=0):
        process = started(seconds, begins)
        said, _ = process.communicate(timeout=60)
        return process.returncode, said, tmp_path / "out"

    return run


def test_results_are_there_though_time_ran_out(check):
    """A check fails, one is done, one takes all the time, the rest are left out by name."""
    code, said, folder = check(seconds=3)
    assert code == 1
    checks = json.loads((folder / "gpu_check.json").read_text())
    assert checks["tests"]["exit_code"] == 1
    assert checks["bf16_4096"]["exit_code"] == 0
    assert checks["bf16_4096"]["result"] == {"ratios": {"to_gemm_floor": 0.9}}
    assert checks["training_bf16"]["exit_code"] == 124
    assert (folder / "metrics_bf16.jsonl").read_text() == '{"step": 1}\n'
    assert checks["fp16_4096"]["exit_code"] == "no time left"
    assert "== fp16_4096 failed: no time left" in said
    assert "1 failed" in (folder / "gpu_check.log").read_text()


def test_nothing_starts_if_a_requirement_is_missing(check):
    code, _, folder = check(seconds=3, begins=1)
    assert code == 2
    assert not (folder / "gpu_check.json").exists()


def test_a_signal_also_ends_the_check_that_runs(started, tmp_path):
    process = started(seconds=60)
    child = tmp_path / "child"
    wait_for(child, bool)
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(child.read_text()), 0)
