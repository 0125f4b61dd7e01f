"""What a run makes public: nothing that is not finite, and no split that cannot be scored."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from data_utils.corpus import Corpus, open_corpus
from mlstm_sentiment.engine.scoring import score_split
from mlstm_sentiment.errors import NOTHING_WORTH_KEEPING, InputError
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.split import Split
from mlstm_sentiment.text.tokenizer import BYTES
from model.inference.weights import load_model
from tests.support.loaded import as_loaded
from tests.support.runs import ROOT
from tests.support.trainers import CPU, make_trainer, make_window
from training.checkpoint import Checkpoints
from training.evaluation import BestModelWriter
from training.judgement import Baselines
from training.parallel.batch import as_batch
from training.runs.run_directory import PretrainingDirectory
from training.trainer import Diverged

BEATEN = Baselines(unigrams=math.inf, uniform=math.inf)  # by any model


@pytest.fixture
def corpus() -> Corpus:
    return open_corpus(ROOT / "tests/fixtures/v1/corpus")


@pytest.fixture
def writer(tmp_path, corpus):
    writer = BestModelWriter(trained(), PretrainingDirectory(tmp_path), corpus, 4)
    writer.baselines = BEATEN
    return writer


@pytest.fixture
def writer_of_scores(writer, monkeypatch):
    """Return a function that makes a writer of models whose scores are given."""

    def make(*scores):
        rows = iter([(score, 1) for score in scores])
        monkeypatch.setattr("training.evaluation.evaluate_split", lambda *_, **__: next(rows))
        return writer

    return make


def with_valid(corpus, count):
    """Return the corpus with a valid split of one review of so many tokens, or of none."""
    valid = Split(
        corpus.splits["valid"].tokens[:count], np.array([0, count] if count else [0]), BYTES
    )
    return replace(corpus, splits=corpus.splits | {"valid": valid})


def trained(**settings):
    trainer = make_trainer(**settings)
    trainer.train(as_batch(make_window(), CPU))
    return trainer


def test_weights_that_are_not_finite_are_not_published_over_finite_ones(writer):
    trainer = writer.trainer
    writer.evaluate()
    before = (writer.directory.model / "model.safetensors").read_bytes()
    best = trainer.progress.best_bits_per_character
    with torch.no_grad():
        trainer.model.embedding.weight[3, 0] = math.inf
    with pytest.raises(Diverged, match="weights or the optimiser's state are not finite at step 1"):
        writer.evaluate()
    with pytest.raises(InputError, match=r"embedding\.weight holds NaN or infinity"):
        writer.publish()
    assert (writer.directory.model / "model.safetensors").read_bytes() == before
    assert trainer.progress.best_bits_per_character == best


def test_a_model_is_scored_with_the_state_carried_from_review_to_review(writer):
    trainer = writer.trainer
    row = writer.evaluate()
    expected = score_split(as_loaded(trainer.model.eval()), writer.valid, lanes=4)
    assert row["valid_bits_per_character"] == pytest.approx(expected.bits_per_character, rel=1e-6)


def test_the_model_that_is_kept_is_the_one_of_the_lowest_score(writer_of_scores):
    writer = writer_of_scores(3.0, 2.0, 2.5)
    trainer, scored, rows = writer.trainer, [], []
    for step in range(3):
        scored.append(trainer.model.decoder.weight.detach().clone())
        rows.append(writer.evaluate()["valid_bits_per_character"])
        trainer.train(as_batch(make_window(seed=1 + step), CPU))
    assert rows == [3.0, 2.0, 2.5]
    assert trainer.progress.best_bits_per_character == 2.0
    saved = load_model(writer.directory.model)
    same = [torch.equal(saved.model.decoder.weight, weight) for weight in scored]
    assert same == [False, True, False]
    assert saved.provenance["best_valid_bits_per_character"] == 2.0
    assert saved.provenance["step"] == 2
    # That score is not the one of the weights that a checkpoint would have now.
    assert "best_valid_bits_per_character" not in writer.provenance()


def test_a_kill_between_the_files_of_a_better_model_leaves_the_one_before(
    writer_of_scores, monkeypatch
):
    writer = writer_of_scores(3.0, 2.0)
    trainer = writer.trainer
    writer.evaluate()
    before = trainer.model.decoder.weight.detach().clone()
    trainer.train(as_batch(make_window(seed=1), CPU))

    def kill(path, content, kind):
        raise KeyboardInterrupt

    monkeypatch.setattr("model.inference.tensors.write_json", kill)
    with pytest.raises(KeyboardInterrupt):
        writer.evaluate()
    saved = load_model(writer.directory.model)
    assert torch.equal(saved.model.decoder.weight, before)
    assert saved.provenance["best_valid_bits_per_character"] == 3.0


@pytest.mark.parametrize(("at_checkpoint", "best"), [(2.0, 2.0), (2.25, 2.5), (None, 2.5)])
def test_the_model_of_abandoned_steps_is_replaced_by_the_next_one(
    writer_of_scores, at_checkpoint, best
):
    """A kill between an evaluation and the next checkpoint makes the run repeat these steps."""
    writer = writer_of_scores(2.0, 2.5)
    trainer = writer.trainer
    writer.evaluate()
    trainer.progress.best_bits_per_character = at_checkpoint
    writer.forget_lost_model()
    writer.evaluate()
    provenance = load_model(writer.directory.model).provenance
    assert provenance["best_valid_bits_per_character"] == best
    assert trainer.progress.best_bits_per_character == best


def test_a_run_that_ends_without_its_best_model_scores_the_last_weights(writer):
    """A finished run whose `model/` was removed takes no step when it is resumed."""
    trainer = writer.trainer
    writer.evaluate()
    best = trainer.progress.best_bits_per_character
    shutil.rmtree(writer.directory.model)
    writer.forget_lost_model()
    writer.finish()
    saved = load_model(writer.directory.model).provenance
    assert saved["best_valid_bits_per_character"] == best
    assert trainer.progress.best_bits_per_character == best


def test_a_run_without_a_valid_split_ends_with_its_last_weights(tmp_path, corpus):
    trainer = trained()
    directory = PretrainingDirectory(tmp_path)
    writer = BestModelWriter(trainer, directory, with_valid(corpus, 0), 4)
    writer.baselines = BEATEN
    assert writer.evaluate() == {}
    writer.finish()
    saved = load_model(writer.directory.model)
    assert torch.equal(saved.model.decoder.weight, trainer.model.decoder.weight)
    assert saved.provenance["best_valid_bits_per_character"] is None
    with torch.no_grad():
        trainer.model.embedding.weight[3, 0] = math.inf
    with pytest.raises(Diverged, match="the training has diverged"):  # found without a score, too
        writer.evaluate()


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_not_finite_is_no_best_one(writer_of_scores, score):
    writer = writer_of_scores(score)
    trainer = writer.trainer
    with pytest.raises(Diverged, match="loss on the valid split is not finite"):
        writer.evaluate()
    assert trainer.progress.best_bits_per_character is None
    assert not writer.directory.model.exists()


def test_a_run_without_a_good_model_scores_its_last_weights_once(writer_of_scores, capsys):
    writer = writer_of_scores(7.0)  # a second score would be missing
    writer.baselines = Baselines(unigrams=4.5)
    writer.evaluate()
    assert writer.finish() == NOTHING_WORTH_KEEPING
    assert "no model: the last one is worse than" in capsys.readouterr().out


def test_a_divergence_is_one_line_with_the_step_the_checkpoint_and_the_cure(writer, tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoint", keep=2, corpus_fingerprint="abc")
    trainer = trained(lr=0.25, clip_norm=2.0)
    checkpoints.save(trainer, text_profile("openai"), {})
    with torch.no_grad():
        trainer.model.decoder.bias[0] = math.nan
    trainer.train(as_batch(make_window(seed=1), CPU))
    with pytest.raises(InputError) as caught, writer.advising_restart(checkpoints):
        trainer.close_row()
    assert str(caught.value) == (
        "the training loss is not finite at step 2: the training has diverged; start again with an "
        f"optim.lr below 0.25 or an optim.clip_norm below 2; --train.start_from {tmp_path}/"
        "checkpoint/step-00000001 begins with the earlier weights"
    )
    with pytest.raises(Diverged):
        checkpoints.save(trainer, text_profile("openai"), {})
    assert [path.name for path in checkpoints.complete()] == ["step-00000001"]


@pytest.mark.parametrize("part", ["weights", "state", "optimizer"])
def test_nothing_of_a_checkpoint_may_be_other_than_finite(part):
    trainer = trained()
    trainer.check_divergence()
    with torch.no_grad():
        {
            "weights": trainer.model.decoder.bias,
            "state": trainer.state.c,
            "optimizer": next(iter(trainer.optimizers[0].state.values()))["exp_avg_sq"],
        }[part].view(-1)[-1] = math.nan
    with pytest.raises(Diverged):
        trainer.check_divergence()


def test_a_valid_split_that_cannot_be_scored_is_refused_by_name_at_the_start(tmp_path, corpus):
    with pytest.raises(InputError, match=r"valid split cannot be scored: .* only 1 tokens"):
        BestModelWriter(trained(), PretrainingDirectory(tmp_path), with_valid(corpus, 1), 4)


def test_only_the_main_rank_describes_where_a_model_comes_from(writer, tmp_path, corpus):
    trainer = trained()
    trainer.world = replace(trainer.world, rank=1)
    assert BestModelWriter(trainer, PretrainingDirectory(tmp_path), corpus, 4).origin == {}
    assert writer.origin["hardware"]
