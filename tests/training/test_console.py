"""What a run prints: its sizes at the start, then lines, and how far it is."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from configs.options import RunConfig
from data_utils.corpus import open_corpus
from data_utils.lanes import TextClock
from tests.support.runs import ROOT, rows_of, run, run_ranks, small_run, trained
from tests.support.trainers import ALONE, make_trainer
from training.parallel.distributed import World
from training.run_log import ProgressLines, RunLog, announce, print_main
from training.runs.run_directory import PretrainingDirectory
from training.trainer import PretrainingProgress, TrainConfig

CORPUS = ROOT / "tests/fixtures/v1/corpus"


@pytest.fixture
def announced(tmp_path, capsys):
    """Return a function that starts a run of the trainer and returns what it prints."""

    clock = TextClock(1)

    def read(trainer, corpus=None):
        run = RunConfig(train=TrainConfig(steps=10), optim=trainer.optim)
        announce(trainer, corpus or open_corpus(CORPUS), tmp_path, run.plan(clock))
        return capsys.readouterr().out

    return read


@pytest.mark.parametrize("cooldown", [None, 0.2])
def test_a_run_that_is_over_says_so_and_names_the_way_on(announced, cooldown):
    trainer = make_trainer(cooldown=cooldown)
    over = "the run has already taken its last step"
    trainer.progress.step = trainer.schedule.steps - 1
    assert over not in announced(trainer)
    trainer.progress.step += 1
    shown = announced(trainer)
    assert over in shown
    cooled = f"which began at step {trainer.schedule.steps - 2}"
    assert (cooled in shown, "--train.steps" in shown) == (bool(cooldown), not cooldown)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full is Linux's")
def test_a_full_disk_under_stdout_ends_no_training(monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        for _ in range(2):
            print_main(ALONE, "a line")
    printed = "cannot write to stdout (No space left on device); the training continues"
    assert capsys.readouterr().err.splitlines() == [printed]


class Clock:
    """Time that passes only where a test advances it."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def line_of(step, **changes):
    line = {"step": step, "train_bits_per_character": 2.5, "learning_rate": 5e-4}
    return {**line, "characters_per_second": 1234.4, **changes}


def test_a_line_is_due_after_the_first_step_and_then_when_it_was_silent_for_long(clock, capsys):
    lines = ProgressLines(0, 100, clock)
    due = []
    for step in range(1, 41):
        clock.now += 1.0
        if lines.advance():
            due.append(step)
            lines.show(line_of(step))
        elif step == 20:
            lines.show(line_of(step), is_row=True)
    assert due == [1, 16, 35]
    capsys.readouterr()
    lines = ProgressLines(0, 100, clock)
    assert [lines.advance() for _ in range(3)] == [True, False, False]  # asked for once
    lines.show(line_of(1), is_row=True)
    lines.show(line_of(2))  # the late answer
    assert capsys.readouterr().out.count("step") == 1 + 1  # and "100 steps"
    clock.now += 15.0
    assert lines.advance()
    lines.show(line_of(3))
    assert "step      3" in capsys.readouterr().out


def test_a_line_adds_how_far_the_run_is_behind_what_it_said_before(clock, capsys):
    lines = ProgressLines(1000, 4000, clock)  # of a resumed run
    lines.show(line_of(1001), is_row=True)
    row = {"valid_bits_per_character": 2.25, "bottleneck": "input 20%"}
    clock.now += 500.0
    lines.show(line_of(2001, **row), is_row=True)
    clock.now += 1000.0
    lines.show(line_of(4000, bottleneck="compute"), is_row=True)
    assert capsys.readouterr().out.splitlines() == [
        "step   1001  train 2.5000 bits/char  lr 5.00e-04  1,234 chars/s  25.0% of 4,000 steps",
        "step   2001  train 2.5000 bits/char  valid 2.2500  lr 5.00e-04  1,234 chars/s  "
        "bottleneck: input 20%  50.0% of 4,000 steps  16:39 left",
        "step   4000  train 2.5000 bits/char  lr 5.00e-04  1,234 chars/s  100.0% of 4,000 steps",
    ]


def paced(clock, *parts):
    """Return the estimate after each (step, seconds of training, seconds of a pause)."""
    lines, estimates = ProgressLines(0, 2000, clock), []
    for step, seconds, pause in parts:
        clock.now += seconds + pause
        estimates.append(lines.seconds_per_step(step))
    return estimates


def test_the_pace_is_that_of_all_steps_but_the_first_which_compiles(clock):
    assert paced(clock, (1, 90.0, 0.0), (5, 4.0, 0.0), (11, 6.0, 0.0)) == [None, None, 1.0]
    before = [(step, 10.0, 0.0) for step in range(11, 1001, 10)]
    *_, undisturbed, after = paced(clock, (1, 1.0, 0.0), *before, (1001, 10.0, 500.0))
    assert undisturbed == 1.0
    assert after == pytest.approx(1.5)


def test_only_the_main_rank_prints_and_asks(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("training.run_log.run_on_main", lambda world, act: act())
    other = World(1, 2, ALONE.device)
    with RunLog(PretrainingDirectory(tmp_path), PretrainingProgress(), 10, world=other) as log:
        assert not log.advance()
        log.print_line(line_of(1))
        log.write(line_of(1))
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


STEP = re.compile(r"^step +(\d+)  train (\d+\.\d+) bits/char.*  (\d+\.\d)% of 8 steps", re.M)


def speaking_every(seconds, *command):
    """Return the command with another time between its lines."""
    code = (
        f"from training import run_log; run_log.EVERY = {seconds}; "
        "import runpy; runpy.run_path('main.py', run_name='__main__')"
    )
    assert command[0] == "main.py"
    return "-c", code, *command[1:]


@pytest.fixture(scope="module")
def of_every_step(tmp_path_factory):
    """The rows of a run that writes one at every step."""
    folder = tmp_path_factory.mktemp("every_step") / "run"
    trained(run(*small_run(folder, 8, **{"log.every_steps": 1})))
    return rows_of(folder)


def bits_so_far(of_every_step, last, every=4):
    """Return the bits per character of the steps from the last row to `last`, by step."""
    sizes = np.diff([row["characters"] for row in of_every_step], prepend=0)
    begin = (last - 1) // every * every
    each = [row["train_bits_per_character"] for row in of_every_step[begin:last]]
    return np.average(each, weights=sizes[begin:last])


def test_a_line_is_the_row_so_far_and_changes_no_row(tmp_path, of_every_step):
    often, seldom = tmp_path / "often", tmp_path / "seldom"
    said = run(*speaking_every(1e-6, *small_run(often, 8))).stdout
    quiet = run(*speaking_every(1e6, *small_run(seldom, 8))).stdout
    assert rows_of(often) == rows_of(seldom)
    assert [row["step"] for row in rows_of(often)] == [4, 8]
    assert [int(step) for step, _, _ in STEP.findall(quiet)] == [1, 4, 8]
    printed = [(int(step), float(bits), float(done)) for step, bits, done in STEP.findall(said)]
    assert [step for step, _, _ in printed] == list(range(1, 9))
    for step, bits, done in printed:
        assert bits == pytest.approx(bits_so_far(of_every_step, step), abs=1e-4)
        assert done == step * 12.5
    for row in rows_of(often):
        line = f"step {row['step']:>6}  train {row['train_bits_per_character']:.4f} bits/char"
        assert line in said


def test_two_ranks_tell_the_losses_of_both(tmp_path, of_every_step):
    main_rank, other = run_ranks(2, *speaking_every(1e-6, *small_run(tmp_path / "run", 8)))
    assert (main_rank.returncode, other.returncode) == (0, 0), (main_rank, other)
    assert not STEP.findall(other.stdout)
    printed = {int(step): float(bits) for step, bits, _ in STEP.findall(main_rank.stdout)}
    assert set(printed) == set(range(2, 9))  # the first is asked for after step 1
    for step, bits in printed.items():
        expected = bits_so_far(of_every_step, step)
        assert bits == pytest.approx(expected, abs=2e-4)  # sums in another order
