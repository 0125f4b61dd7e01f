"""Checkpoints written in the background: exact, whole or absent, awaited, and their errors seen."""

import copy
import signal
import threading
from concurrent.futures import wait

import pytest

from data_utils.corpus import open_corpus
from model.files.storage import recover_folders, step_of
from model.files.weights import load_tensors
from tests.support.runs import ROOT, rows_of, run, run_code, small_run, start, wait_for
from tests.support.trainers import PROFILE, make_trainer, train
from training import checkpoint
from training.checkpoint import Checkpoints
from training.parallel.buckets import OptimizerStates
from training.runs.checkpoint_store import flatten_optimizers
from training.runs.run_directory import PretrainingDirectory

FILES = ("model.safetensors", "optimizer.safetensors", "lanes.safetensors")


class Gate:
    """Lets the writer of checkpoints pass when it is opened."""

    def __init__(self, monkeypatch):
        self.reached, self.opened = threading.Event(), threading.Event()
        save = checkpoint.save_tensors

        def waiting(path, tensors):
            self.reached.set()
            assert self.opened.wait(30)
            save(path, tensors)

        monkeypatch.setattr(checkpoint, "save_tensors", waiting)


@pytest.fixture
def gate(monkeypatch):
    return Gate(monkeypatch)


@pytest.mark.parametrize("name", ["adam", "muon", "lamb"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_what_is_written_is_the_step_of_the_save_although_training_goes_on(
    tmp_path, checkpoints, small_split, gate, precision, name
):
    at_once = Checkpoints(tmp_path / "at_once", keep=2, corpus_fingerprint="abc")
    trainer, restored = (make_trainer(precision, name=name, clip_norm=1.0) for _ in range(2))
    train(trainer, small_split, 3)
    with checkpoints:
        checkpoints.save(trainer, PROFILE, {"step": 3})
        assert gate.reached.wait(30)
        gate.opened.set()
        checkpoints.wait()
        at_once.save(trainer, PROFILE, {"step": 3})
        gate.reached.clear()
        gate.opened.clear()
        checkpoints.save(trainer, PROFILE, {"step": 3})
        assert gate.reached.wait(30)
        train(trainer, small_split, 3)  # while it is being written
        gate.opened.set()
    (background,), (expected,) = checkpoints.complete(), at_once.complete()
    for file in (*FILES, "config.json", "training.json"):
        assert (background / file).read_bytes() == (expected / file).read_bytes(), file
    checkpoints.restore(restored)
    train(restored, small_split, 3)
    assert restored.close_row() == trainer.close_row()
    ours, theirs = (flatten_optimizers(each.optimizers) for each in (restored, trainer))
    assert all((ours[key] == theirs[key]).all() for key in ours)


def test_the_next_save_waits_for_the_one_before(checkpoints, small_split, gate):
    trainer = make_trainer()
    train(trainer, small_split, 1)
    with checkpoints:
        checkpoints.save(trainer, PROFILE, {})
        assert gate.reached.wait(30)
        assert checkpoints.complete() == []
        train(trainer, small_split, 1)
        threading.Timer(0.3, gate.opened.set).start()
        checkpoints.save(trainer, PROFILE, {}, at_once=True)
        assert [step_of(folder) for folder in checkpoints.complete()] == [1, 2]


def save_and_raise(checkpoints, trainer, error):
    with checkpoints:
        checkpoints.save(trainer, PROFILE, {})
        if error is not None:
            raise error


def test_an_error_of_training_waits_for_the_write(checkpoints, small_split, gate):
    """As when a peer is lost: the step that was saved is not."""
    trainer = make_trainer()
    train(trainer, small_split, 1)
    threading.Timer(0.3, gate.opened.set).start()
    with pytest.raises(RuntimeError, match="lost a peer"):
        save_and_raise(checkpoints, trainer, RuntimeError("lost a peer"))
    assert [step_of(folder) for folder in checkpoints.complete()] == [1]


def fails(path, tensors):
    raise OSError(28, "No space left on device", str(path))


def test_a_write_that_fails_ends_the_training_at_the_next_step(
    checkpoints, small_split, monkeypatch
):
    trainer = make_trainer()
    train(trainer, small_split, 1)
    with checkpoints:
        checkpoints.save(trainer, PROFILE, {}, at_once=True)
        monkeypatch.setattr(checkpoint, "save_tensors", fails)
        train(trainer, small_split, 1)
        checkpoints.save(trainer, PROFILE, {})
        wait([checkpoints._under_way])
        with pytest.raises(OSError, match="No space left"):
            checkpoints.check()
        checkpoints.check()  # once
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-00000001"]


def test_a_write_that_fails_last_ends_the_command_and_hides_no_other_error(
    checkpoints, small_split, monkeypatch, caplog
):
    trainer = make_trainer()
    train(trainer, small_split, 1)
    monkeypatch.setattr(checkpoint, "save_tensors", fails)
    for error in (None, RuntimeError("diverged")):
        with pytest.raises((OSError, RuntimeError), match="diverged" if error else "No space left"):
            save_and_raise(checkpoints, trainer, error)
    assert "the last checkpoint was not written" in caplog.text
    assert "No space left" in caplog.text


class OfTwoRanks(OptimizerStates):
    """One rank's of two; the other's arrives later."""

    def receive(self, tensors, world):
        yield tensors
        yield copy.deepcopy(tensors)


def test_states_of_several_ranks_are_written_as_they_arrive(checkpoints, small_split):
    trainer = make_trainer()
    trainer.exchange.states = OfTwoRanks(2, 0)
    train(trainer, small_split, 1)
    with checkpoints:
        checkpoints.save(trainer, PROFILE, {})
        (folder,) = checkpoints.complete()  # already
    assert (folder / "optimizer-1.safetensors").is_file()


KILLED = """
import itertools, os, signal, sys, threading
from pathlib import Path
from data_utils.corpus import open_corpus
from tests.support.trainers import PROFILE, make_trainer, train
from training.checkpoint import Checkpoints

split = open_corpus(Path("tests/fixtures/v1/corpus")).splits["train"]
number, renames = NUMBER, itertools.count(1)

def kill(event, arguments):
    in_writer = threading.current_thread() is not threading.main_thread()
    if event == "os.rename" and in_writer and next(renames) == number:
        os.kill(os.getpid(), signal.SIGKILL)

trainer = make_trainer()
checkpoints = Checkpoints(Path(FOLDER), keep=1, corpus_fingerprint="abc")
with checkpoints:
    train(trainer, split, 1)
    checkpoints.save(trainer, PROFILE, {}, at_once=True)
    train(trainer, split, 1)
    sys.addaudithook(kill)
    checkpoints.save(trainer, PROFILE, {})
    for _ in range(100000):
        train(trainer, split, 1)
"""


@pytest.mark.parametrize(
    ("number", "newest"),
    [(1, 1), (3, 1), (5, 1), (6, 1), (7, 2)],  # files, the folder, the removal of the old one
)
def test_a_kill_of_the_writer_leaves_a_whole_checkpoint(tmp_path, number, newest):
    folder = tmp_path / "checkpoint"
    code = KILLED.replace("NUMBER", str(number)).replace("FOLDER", repr(str(folder)))
    assert run_code(code).returncode == -signal.SIGKILL
    checkpoints = Checkpoints(folder, keep=1, corpus_fingerprint="abc")
    restored, expected = make_trainer(), make_trainer()
    assert checkpoints.restore(restored)
    assert restored.progress.step == newest
    assert not list(folder.glob(".*"))
    split = open_corpus(ROOT / "tests/fixtures/v1/corpus").splits["train"]
    train(expected, split, newest)
    for name, weight in expected.model.state_dict().items():
        assert (restored.model.state_dict()[name] == weight).all(), name
    recover_folders(folder, PretrainingDirectory.files())
    assert load_tensors(checkpoints.complete()[-1] / "lanes.safetensors")


SLOW = """
import sys, time
from configs import command
from training import checkpoint

save = checkpoint.save_tensors

def slowly(path, tensors):
    time.sleep(1.0)
    save(path, tensors)

checkpoint.save_tensors = slowly
sys.argv = ARGUMENTS
import main

command.run(main.main)
"""


def test_sigterm_waits_for_the_write_under_way_and_saves_the_last_step(tmp_path):
    whole, cut, steps = tmp_path / "whole", tmp_path / "cut", 120
    settings = {"checkpoint.every_steps": 10, "evaluate.every_steps": 200, "log.every_steps": 1}
    command = list(map(str, small_run(cut, steps, **settings)))
    process = start("-c", SLOW.replace("ARGUMENTS", repr(command)))
    wait_for(cut / "metrics.jsonl", lambda text: text.count("\n") >= 13)
    assert (cut / "checkpoint" / ".step-00000010.partial").is_dir()  # still being written
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "stopped and saved at step" in said
    saved = [step_of(path) for path in sorted((cut / "checkpoint").iterdir())]
    assert saved[0] % 10 == 0
    assert len(saved) == 2
    assert run("main.py", "--resume", cut).returncode == 0
    assert run(*small_run(whole, steps, **settings)).returncode == 0
    assert rows_of(cut) == rows_of(whole)
    for file in FILES:
        last = f"checkpoint/step-{steps:08d}/{file}"
        assert (cut / last).read_bytes() == (whole / last).read_bytes()
