"""What a run says at its start."""

import pytest

from data_utils.corpus import open_corpus
from tests.support.runs import ROOT
from tests.training.test_trainer import make_trainer
from training.monitoring import console
from training.monitoring.console import announce


@pytest.fixture
def corpus():
    return open_corpus(ROOT / "tests/fixtures/v1/corpus")


@pytest.mark.parametrize(
    ("precision", "fast", "told"),
    [("bf16", False, True), ("bf16", True, False), ("fp32", False, False)],
)
def test_bf16_on_hardware_that_multiplies_it_slowly_is_told(
    corpus, tmp_path, capsys, monkeypatch, precision, fast, told
):
    monkeypatch.setattr(console, "has_fast_bf16", lambda device: fast)
    announce(make_trainer(precision=precision), corpus, tmp_path, 1.0)
    assert ("--train.precision fp32 is faster" in capsys.readouterr().out) is told


def test_a_run_that_is_over_says_so(corpus, tmp_path, capsys):
    trainer = make_trainer()
    for step, told in ((trainer.steps - 1, False), (trainer.steps, True)):
        trainer.progress.step = step
        announce(trainer, corpus, tmp_path, 1.0)
        assert ("the run has taken its last step" in capsys.readouterr().out) is told
