"""What a run says."""

import sys
from pathlib import Path

import pytest

from data_utils.corpus import embedded_corpus, open_corpus
from tests.support.runs import ROOT
from tests.support.trainers import ALONE, make_trainer
from training import console
from training.console import announce, print_main


@pytest.fixture
def corpus():
    return open_corpus(ROOT / "tests/fixtures/v1/corpus")


def announce_run(trainer, corpus, folder):
    announce(
        trainer.world,
        trainer.model,
        corpus,
        folder,
        lanes=trainer.lanes,
        step=trainer.progress.step,
        steps=trainer.steps,
        steps_per_epoch=1.0,
        cooldown_begin=trainer.schedule.cooldown_begin,
    )


@pytest.mark.parametrize(
    ("precision", "fast", "told"),
    [("bf16", False, True), ("bf16", True, False), ("fp32", False, False)],
)
def test_bf16_on_hardware_that_multiplies_it_slowly_is_told(
    corpus, tmp_path, capsys, monkeypatch, precision, fast, told
):
    monkeypatch.setattr(console, "has_fast_bf16", lambda device: fast)
    announce_run(make_trainer(precision=precision), corpus, tmp_path)
    assert ("--train.precision fp32 is faster" in capsys.readouterr().out) is told


def test_generated_reviews_are_named(corpus, tmp_path, capsys):
    for read, told in ((corpus, False), (embedded_corpus(), True)):
        announce_run(make_trainer(), read, tmp_path)
        assert ("--data.corpus names real ones" in capsys.readouterr().out) is told


def test_a_run_that_is_over_says_so(corpus, tmp_path, capsys):
    trainer = make_trainer()
    for step, told in ((trainer.steps - 1, False), (trainer.steps, True)):
        trainer.progress.step = step
        announce_run(trainer, corpus, tmp_path)
        assert ("the run has taken its last step" in capsys.readouterr().out) is told


def test_a_run_that_has_cooled_down_names_the_way_back(corpus, tmp_path, capsys):
    trainer = make_trainer(cooldown_steps=2)
    trainer.progress.step = trainer.steps
    announce_run(trainer, corpus, tmp_path)
    shown = capsys.readouterr().out
    assert f"which began at step {trainer.steps - 2} (--from)" in shown
    assert "--train.steps" not in shown


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full is Linux's")
def test_a_full_disk_under_stdout_ends_no_training(monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        for _ in range(2):
            print_main(ALONE, "a line")
    told = "stdout takes no more (No space left on device); the training continues"
    assert capsys.readouterr().err.splitlines() == [told]
