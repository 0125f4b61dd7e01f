"""Checkpoints written in the background: exact, whole or absent, awaited, and their errors seen."""

import signal
import threading
from concurrent.futures import wait
from types import SimpleNamespace

import pytest

from data_utils.corpus import open_corpus
from mlstm_sentiment.files.storage import recover_folders, step_of
from tests.support.runs import ROOT, run_code
from tests.support.trainers import PROFILE, make_trainer, train
from training import checkpoint
from training.checkpoint import Checkpoints
from training.runs.checkpoint_store import flatten_optimizers, load_tensors
from training.runs.run_directory import PretrainingDirectory

FILES = ("model.safetensors", "optimizer.safetensors", "lanes.safetensors")


@pytest.fixture
def gate(monkeypatch):
    """A gate that lets the writer of checkpoints pass when it is opened."""
    gate = SimpleNamespace(reached=threading.Event(), opened=threading.Event())
    save = checkpoint.save_tensors

    def waiting(path, tensors):
        gate.reached.set()
        assert gate.opened.wait(30)
        save(path, tensors)

    monkeypatch.setattr(checkpoint, "save_tensors", waiting)
    return gate


@pytest.mark.parametrize(
    ("precision", "name"), [("fp32", "adam"), ("bf16", "muon"), ("fp16", "muon"), ("fp16", "lamb")]
)
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


def open_when_awaited(gate, write):
    """Open the gate in the moment in which somebody waits for a write in the background."""
    result = write.result

    def opening():
        gate.opened.set()
        return result()

    write.result = opening


def test_the_next_save_waits_for_the_one_before(checkpoints, small_split, gate):
    trainer = make_trainer()
    train(trainer, small_split, 1)
    with checkpoints:
        checkpoints.save(trainer, PROFILE, {})
        assert gate.reached.wait(30)
        assert checkpoints.complete() == []
        train(trainer, small_split, 1)
        open_when_awaited(gate, checkpoints._under_way)
        checkpoints.save(trainer, PROFILE, {}, at_once=True)
        assert [step_of(folder) for folder in checkpoints.complete()] == [1, 2]


def save_and_raise(checkpoints, trainer, error):
    with checkpoints:
        checkpoints.save(trainer, PROFILE, {})
        if error is not None:
            raise error


def test_an_error_of_training_waits_for_the_write(checkpoints, small_split, gate):
    """A lost peer does not cost the step that is being saved."""
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
    recover_folders(folder, PretrainingDirectory.files())  # as the lock on a run's folder does
    checkpoints.restore(restored)
    assert restored.progress.step == newest
    assert not list(folder.glob(".*"))
    split = open_corpus(ROOT / "tests/fixtures/v1/corpus").splits["train"]
    train(expected, split, newest)
    for name, weight in expected.model.state_dict().items():
        assert (restored.model.state_dict()[name] == weight).all(), name
    assert load_tensors(checkpoints.complete()[-1] / "lanes.safetensors")
