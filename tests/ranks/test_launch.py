"""Several processes over the same lanes compute what one does."""

import os
import signal
from pathlib import Path

import pytest

from tests.support import runs
from tests.support.runs import (
    ROOT,
    done,
    launch,
    rows_of,
    run,
    run_ranks,
    run_ranks_anew,
    start_anew,
    wait_for,
)
from training.runs.run_directory import read_rows

STEPS = 40


def small_run(run_dir, steps, **changes):
    """A lower rate, which amplifies less how ranks round their sums."""
    return runs.small_run(run_dir, steps, **{"optim.lr": 0.03, **changes})


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "run"
    done(run(*small_run(folder, STEPS)))
    return rows_of(folder)


def assert_same_losses(rows, alone):
    assert [row["step"] for row in rows] == [row["step"] for row in alone]
    for row, expected in zip(rows, alone, strict=True):
        for key, value in expected.items():
            # fp32: sums in another order, carried through 40 steps
            near = value if isinstance(value, str) else pytest.approx(value, rel=2e-5)
            assert row[key] == near, (row["step"], key)


@pytest.mark.parametrize(
    ("processes", "changes"),
    [
        (2, {}),
        pytest.param(
            *(4, {"parallel.lane_groups": 2, "parallel.shares": "measured"}), marks=pytest.mark.slow
        ),
    ],
)
def test_ranks_together_train_what_one_process_trains(processes, changes, alone, tmp_path):
    folder = tmp_path / "run"
    done(launch(processes, *small_run(folder, STEPS, **changes)))
    assert_same_losses(rows_of(folder), alone)
    clocked = read_rows(folder / "metrics.jsonl")[-1]
    assert len(clocked["rank_characters_per_second"]) == processes
    assert clocked["sent_bytes"] > 0
    assert clocked["exposed_seconds"] > 0
    assert not {key for key in clocked if f"`{key}`" not in (ROOT / "docs/formats.md").read_text()}
    assert 0 <= clocked["slowest_rank"] < processes


@pytest.mark.slow
def test_a_signal_to_every_process_saves_and_the_same_ranks_go_on_bit_for_bit(tmp_path):
    """A terminal or Slurm signals workers and launcher, which forwards the signal."""
    steps, whole, cut = 120, tmp_path / "whole", tmp_path / "cut"
    assert launch(2, *small_run(whole, steps)).returncode == 0
    process = start_anew(
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *small_run(cut, steps, **{"checkpoint.every_steps": 1000}),
    )
    wait_for(cut / "metrics.jsonl", lambda text: text.count("\n") >= 2)
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert "stopped and saved" in output, output
    done(launch(2, "main.py", "--resume", cut))
    assert rows_of(cut) == rows_of(whole)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
@pytest.mark.parametrize("way", ["", "failing"])
def test_no_thread_of_gloo_outlives_the_world(way):
    """Such a thread can abort the process when the interpreter exits, or keep it from exiting."""
    for rank, process in enumerate(run_ranks_anew(2, "-m", "tests.ranks.leaving", way)):
        assert process.returncode == 0, process.stderr
        assert f"rank {rank}: within True, left []" in process.stdout, process.stdout
        assert process.stdout.endswith("of 4 trainers\n") == (way == "failing")


def test_ranks_on_unlike_hardware_agree_and_say_so(alone, tmp_path):
    """A new split of the lanes within the run changes only which rank computes them."""
    settings = {"train.precision": "auto", "parallel.shares": "measured"}
    probe = tmp_path / "probe.csv"  # only the main rank reads it
    probe.write_text("text,label\n" + "good,1\nbad,0\n" * 4)
    settings |= dict.fromkeys(("evaluate.probe_train", "evaluate.probe_val"), probe)
    command = small_run(tmp_path / "run", STEPS, **settings)[1:]
    elsewhere = ("--evaluate.probe_train", "elsewhere.csv")
    first, second = run_ranks(2, "-m", "tests.ranks.unlike", *command, last=elsewhere)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "train.precision auto: fp32 for all, bf16 is slow on rank 0" in first.stderr
    assert "8 lanes on 2 x cpu, float32" in first.stdout
    assert 'precision = "fp32"' in (tmp_path / "run/config.toml").read_text()
    splits = [line for line in second.stdout.splitlines() if line.startswith("lanes")]
    assert splits[:2] == ["lanes [4, 4]", "lanes [2, 6]"]
    assert_same_losses(rows_of(tmp_path / "run"), alone)


def assert_every_rank_refuses(processes, line):
    for rank, process in enumerate(processes):
        assert process.returncode == 2, process.stderr
        assert f"[rank {rank}] error: {line}" in process.stderr
        assert "peer" not in process.stderr


@pytest.mark.parametrize(("setting", "other"), [("seed", 1), ("train.precision", "fp32")])
def test_a_rank_with_another_setting_is_named_on_every_rank(tmp_path, setting, other):
    command = small_run(tmp_path / "run", 4, **{"train.precision": "auto"})
    processes = run_ranks(2, *command, last=(f"--{setting}", other))
    line = f"rank 1 and the main rank do not have the same {setting};"
    assert_every_rank_refuses(processes, line)
    assert not (tmp_path / "run").exists()


def test_a_rank_with_other_weights_is_named_on_every_rank(tmp_path):
    command = small_run(tmp_path / "run", 4)[1:]
    processes = run_ranks(2, "-m", "tests.ranks.straying", *command)
    assert_every_rank_refuses(processes, "rank 1 and the main rank do not have the same weights;")
    assert not (tmp_path / "run").exists()


def test_every_rank_reports_why_the_main_one_was_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    processes = run_ranks(2, *small_run(tmp_path, 4))
    assert_every_rank_refuses(processes, f"{tmp_path}: exists already")


def test_a_peer_outlives_work_of_the_main_rank_that_takes_longer_than_its_timeout():
    processes = run_ranks(2, "-m", "tests.ranks.waiting")
    assert [process.returncode for process in processes] == [0, 0], processes
    for rank, process in enumerate(processes):
        assert f"rank {rank} learned of the failure" in process.stdout
    first, second = (process.stdout.partition("scored ")[2] for process in processes)
    assert first == second != ""
