"""What a run shows of its model: text, and a probe on labels."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from data_utils.corpus import open_corpus
from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.engine.kinds import FeatureKind
from mlstm_sentiment.errors import InputError, TimeIsUp
from mlstm_sentiment.text.tokenizer import BYTES
from model.inference.features import features_in_order
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.support.runs import ROOT, assert_refused, rows_of, run, small_run, trained
from tests.support.trainers import ALONE, CPU, PROFILE, make_trainer
from training.evaluation import EvaluateConfig
from training.monitor import SAMPLE_LENGTH, Monitor
from training.parallel.distributed import World
from training.probe import Probe
from training.trainer import Diverged

CORPUS = ROOT / "tests/fixtures/v1/corpus"


def write_set(path, texts, labels):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(texts, labels, strict=True)])
    return path


@pytest.fixture
def sets(tmp_path):
    return [
        write_set(tmp_path / f"{name}.csv", [r.text for r in reviews], [r.label for r in reviews])
        for name, count, seed in (("train", 60, 1), ("val", 30, 2))
        for reviews in [list(synthetic_reviews(count, seed))]
    ]


def read_probe(paths, most=1000):
    return Probe.read(*paths, most, PROFILE, BYTES)


def test_the_unit_that_knows_the_label_is_found(sets, monkeypatch):
    def features(labels):
        noise = np.random.default_rng(len(labels)).normal(size=(len(labels), 6))
        noise[:, 4] = 0.1 * noise[:, 4] - labels  # low for the positive class
        scales = np.array([100.0, 10.0, 1.0, 10.0, 1e-3, 1.0])  # its values differ least
        return (noise * scales + 5 * np.arange(6)).astype(np.float32)

    probe = read_probe(sets)
    means = iter([features(probe.train.labels), features(probe.val.labels)])
    pooled = (np.pad(mean, ((0, 0), (0, 6))) for mean in means)  # last states of zero
    monkeypatch.setattr("training.probe.features_in_order", lambda *_, **__: next(pooled))
    row = probe.measure(None)
    assert row["probe_last_accuracy"] == pytest.approx(0.5, abs=0.1)
    assert (row["probe_unit"], row["probe_unit_accuracy"]) == (4, 1.0)
    assert row["probe_accuracy"] >= 0.9


def test_the_mean_and_the_last_state_of_a_model_differ(sets):
    probe, model = read_probe(sets), build_model(ModelConfig(hidden_size=8), seed=3)
    row = probe.measure(model)
    for pooling, key in (("mean", "probe_accuracy"), ("last", "probe_last_accuracy")):
        train, val = (
            features_in_order(model, sequences, kind=FeatureKind(pooling=pooling))
            for sequences in probe.sequences
        )
        fitted = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=200))
        expected = fitted.fit(train, probe.train.labels).score(val, probe.val.labels)
        assert row[key] == pytest.approx(expected)
    assert row["probe_accuracy"] != row["probe_last_accuracy"]


def test_no_more_texts_than_asked_for_are_read_and_two_classes_are_needed(sets, tmp_path):
    probe = read_probe(sets, most=20)
    assert [len(part.texts) for part in (probe.train, probe.val)] == [20, 20]
    assert probe.train.texts == read_probe(sets, most=20).train.texts
    three = write_set(tmp_path / "three.csv", ["a", "b", "c"], [0, 1, 2])
    with pytest.raises(InputError, match=r"three\.csv: has 3 classes"):
        read_probe([three, three])


def test_finite_weights_that_predict_nothing_finite_have_diverged():
    trainer = make_trainer()
    with torch.no_grad():
        decoder = trainer.model.decoder.weight
        decoder.copy_(3e38 * decoder.sign())  # sums of a few of them are beyond fp32
    trainer.check_divergence()
    corpus = open_corpus(CORPUS)
    monitor = Monitor(EvaluateConfig(), corpus, ALONE)
    with pytest.raises(Diverged, match=r"model predicts is not finite at step 0: .* has diverged"):
        monitor.show(trainer, SimpleNamespace(board=None))


class CountingWorld(World):
    """A world of one rank that counts how often it synchronizes."""

    barriers = 0

    def sum(self, tensor):
        object.__setattr__(self, "barriers", self.barriers + 1)
        return tensor


def test_ranks_synchronize_after_every_part_of_an_examination(sets):
    trainer, world = make_trainer(), CountingWorld(0, 1, CPU)
    config = EvaluateConfig(probe_train=sets[0], probe_val=sets[1])
    monitor = Monitor(config, open_corpus(CORPUS), world)
    characters = len(monitor.sample(trainer.model, world.barrier))
    assert characters == world.barriers <= SAMPLE_LENGTH
    before, parts = world.barriers, []
    monitor.probe.measure(trainer.model, lambda: parts.append(world.barriers))
    longest = max(len(sequence) for part in monitor.probe.sequences for sequence in part)
    assert len(parts) >= 2 + longest / 128  # two regressions; blocks of bytes
    board = SimpleNamespace(add_text=lambda *_: None)
    monitor.show(trainer, SimpleNamespace(board=board))
    assert world.barriers - before > len(parts) + 2  # at its end, all ranks meet twice more


def test_an_examination_ends_when_the_time_is_up(sets):
    trainer, asked = make_trainer(), []
    config = EvaluateConfig(probe_train=sets[0], probe_val=sets[1])
    monitor = Monitor(config, open_corpus(CORPUS), ALONE)
    log = SimpleNamespace(board=SimpleNamespace(add_text=lambda *_: None))
    for most in (3, SAMPLE_LENGTH + 3):  # in the sample; in the probe
        asked.clear()
        with pytest.raises(TimeIsUp):
            monitor.show(trainer, log, lambda most=most: asked.append(1) or len(asked) > most)
        assert len(asked) == most + 1


def test_a_run_shows_what_it_writes_and_knows(tmp_path, sets):
    folder = tmp_path / "run"
    options = {"evaluate.probe_train": sets[0], "evaluate.probe_val": sets[1]}
    trained(run(*small_run(folder, 10, **options)))
    row = rows_of(folder)[-1]
    assert 0 <= row["probe_unit_accuracy"] <= 1
    assert 0.4 < row["probe_accuracy"] <= 1
    assert 0 <= row["probe_last_accuracy"] <= 1
    assert not {key for key in row if f"`{key}`" not in (ROOT / "docs/formats.md").read_text()}
    board = EventAccumulator(str(folder / "tensorboard"), size_guidance={"tensors": 0}).Reload()
    assert "sample/text_summary" in board.Tags()["tensors"]


def test_a_probe_names_no_option_that_a_training_does_not_have(tmp_path):
    path = tmp_path / "stars.csv"
    path.write_text("text,stars\ngood,5\nbad,1")
    config = EvaluateConfig(probe_train=path, probe_val=path)
    with pytest.raises(InputError, match=r"^evaluate\.probe_train and probe_val: .*csv") as refused:
        Monitor(config, open_corpus(CORPUS), ALONE)
    assert "present: 'text', 'stars'; rename one to label, or" in str(refused.value)
    assert "--" not in str(refused.value)


def test_half_a_probe_is_refused(tmp_path, sets, run_here):
    process = run_here(*small_run(tmp_path / "run", 2, **{"evaluate.probe_train": sets[0]}))
    assert_refused(process, "evaluate.probe_train and evaluate.probe_val need each other")
