"""Ranks come and go, and the result of the run is the same."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from mlstm_sentiment.files.storage import read_json
from tests.ranks.reshaping import STARTS
from tests.support.runs import rows_of, run_ranks, small_run, start_anew, start_ranks, wait_for

LONG = 120  # steps, for a signal to come between them
SELDOM = {"evaluate.every_steps": 60, "checkpoint.every_steps": 1000}  # they take most of the time
AGAIN = {"if-exists": "resume"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that three ranks train without disturbance."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    processes = run_ranks(3, *small_run(folder, LONG, **SELDOM))
    assert not any(process.returncode for process in processes), processes
    return folder


def begun(folder, lines):
    wait_for(folder / "metrics.jsonl", lambda text: text.count("\n") >= lines)


def test_four_ranks_two_and_four_again(tmp_path):
    """Losses are those of one process; the carried states are split anew, unchanged."""
    first, *others = run_ranks(4, "-m", "tests.ranks.reshaping", tmp_path)
    assert not any(process.returncode for process in (first, *others)), (first, others)
    result = json.loads(first.stdout)
    assert result["same"] == [True, True, True]
    assert len(result["together"]) == len(result["alone"]) == STARTS[-1][1]
    # fp32: sums in another order
    assert result["together"] == pytest.approx(result["alone"], rel=2e-5)


def test_sigterm_to_one_rank_stops_all_at_one_step_and_the_same_command_resumes(whole, tmp_path):
    """It is bit for bit with two ranks: sums of three depend on their order."""
    command = small_run(tmp_path / "run", LONG, **AGAIN, **SELDOM)
    ranks = start_ranks(3, *command)
    begun(tmp_path / "run", lines=2)
    ranks[1].send_signal(signal.SIGTERM)
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [os.EX_TEMPFAIL, 0, os.EX_TEMPFAIL], said
    assert "stopped and saved at step" in said[0]
    (checkpoint,) = (tmp_path / "run" / "checkpoint").iterdir()
    assert read_json(checkpoint / "training.json")["progress"]["step"] < LONG
    processes = run_ranks(3, *command)
    assert not any(process.returncode for process in processes), processes
    assert rows_of(tmp_path / "run") == rows_of(whole)
    last = f"checkpoint/step-{LONG:08d}"
    for name in ("model.safetensors", "optimizer.safetensors", "lanes.safetensors"):
        assert (tmp_path / "run" / last / name).read_bytes() == (whole / last / name).read_bytes()


@pytest.mark.slow
def test_a_hanging_peer_ends_the_others_in_time(tmp_path):
    timeout = {"train.timeout_seconds": 5}
    ranks = start_ranks(2, *small_run(tmp_path / "run", 100_000, **timeout))
    begun(tmp_path / "run", lines=2)
    ranks[1].send_signal(signal.SIGSTOP)
    said, _ = ranks[0].communicate(timeout=90)
    ranks[1].kill()
    ranks[1].communicate()
    assert ranks[0].returncode == os.EX_TEMPFAIL, said
    assert "[rank 0] error: lost a peer" in said
    assert "Traceback" not in said


def workers_of(launcher):
    return list(map(int, Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children are read from /proc")
@pytest.mark.parametrize("victim", [0, 1])  # the first one holds the run's folder
def test_a_launcher_restarts_and_resumes_after_kill_9(victim, tmp_path):
    """With plain torch.distributed.run, without the environment of scripts/elastic.sh."""
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    slowly = {"log.every_steps": 1}
    process = start_anew(
        *command, "--max-restarts", "2", *small_run(tmp_path / "run", 400, **slowly)
    )
    begun(tmp_path / "run", lines=20)
    os.kill(workers_of(process.pid)[victim], signal.SIGKILL)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    first, resumed_from = re.findall(r"epochs\) from step (\d+)", output)
    assert int(resumed_from) >= 6 > int(first)
    assert [row["step"] for row in rows_of(tmp_path / "run")] == list(range(1, 401))
