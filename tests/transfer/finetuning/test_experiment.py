"""Fine-tuning from end to end on a tiny model: learned, kept, resumed, refused."""

import json
import logging
import re
import shutil
from contextlib import redirect_stderr

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from configs.options import RunConfig, RunOptions
from configs.run import resolve_run
from data_utils.labelled import LabelledSet
from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import lock_folder, step_folders, step_of
from mlstm_sentiment.head.head_files import find_classifier, load_areas
from mlstm_sentiment.text.profiles import text_profile
from model.inference.features import features_in_order
from model.inference.tensors import model_digest
from model.inference.weights import load_model, save_model
from tests.support.damage import damaged_bytes, damaged_json, damaged_tensors
from tests.support.folders import contents
from tests.support.terminal import Terminal
from tests.support.trainers import ALONE
from tests.transfer.finetuning.tasks import CLASSES, StopAfter, several, single
from training.runs.run_directory import read_rows, save_toml
from transfer.features import FeatureCache
from transfer.finetuning import experiment
from transfer.finetuning.config import FinetuningConfig
from transfer.finetuning.directory import FinetuningCheckpoints, FinetuningDirectory
from transfer.finetuning.experiment import run_finetuning
from transfer.finetuning.task import Task, check_learnable, hold_out, make_task
from transfer.unit_auc import per_unit_auc

SETTINGS = {"epochs": 6, "batch_size": 16, "head_lr": 0.05, "hidden_layers": (6,)}
SEVERAL = [several(64), several(32, seed=300), several(32, seed=600)]


@pytest.fixture
def folder(small_model, tmp_path):
    save_model(tmp_path / "m", small_model, text_profile("openai"), {"made": "here"})
    return tmp_path / "m"


def run(folder, output, sets=SEVERAL, resume=False, stop=None, **settings):
    config = FinetuningConfig(**{**SETTINGS, **settings})
    return run_finetuning(load_model(folder), sets, output, config, resume=resume, stop=stop)


def test_learning_and_scoring_show_their_progress_to_the_end(folder, tmp_path):
    """A resumed run begins where it ended: 24 steps of three epochs of eight."""
    config = {"epochs": 3, "batch_size": 8}
    assert run(folder, tmp_path / "out", stop=StopAfter(10), **config) is None
    ended = step_of(step_folders(tmp_path / "out" / "checkpoint")[-1])
    assert ended > 0
    with redirect_stderr(Terminal()) as terminal:
        run(folder, tmp_path / "out", resume=True, **config)
    shown = terminal.getvalue()
    first = re.search(r"fine-tuning: +\d+%\|[^|]*\| (\d+)/24 ", shown)
    assert int(first[1]) == ended
    for name in ("fine-tuning", "val", "test"):
        assert f"{name}: 100%|" in shown


def test_a_fine_tuned_run_is_a_classifier_by_its_own_name(folder, tmp_path):
    run(folder, tmp_path / "out", epochs=1, window=8)
    shutil.move(tmp_path / "out", tmp_path / "moved")
    loaded = load_model(tmp_path / "moved/model")
    own = tmp_path / "moved/model/classifier"
    assert find_classifier(loaded) == find_classifier(loaded, tmp_path / "moved") == own


def test_several_labels_are_learned_and_classify_reads_them(folder, tmp_path):
    results = run(folder, tmp_path / "out", heads_per_class=3, window=8)
    assert json.loads((tmp_path / "out/results.json").read_text()) == json.loads(
        json.dumps(results)
    )
    assert results["test"]["f1_macro"] > 0.9
    assert results["examples"] == {"train": 64, "val": 32, "test": 32}
    read = map(load_model(folder).encode, SEVERAL[0].texts)
    assert results["symbols_per_epoch"] == sum(map(len, read))
    history = results["history"]
    values = [row["val_f1_macro"] for row in history]
    assert results["best_epoch"] == 1 + int(np.argmax(values))
    assert results["thresholds"] == history[results["best_epoch"] - 1]["thresholds"]
    assert history[-1]["train_loss"] < history[0]["train_loss"]
    classifier = SentimentClassifier.from_pretrained(tmp_path / "out")
    labels = classifier.predict(SEVERAL[2].texts)
    whole = (labels == SEVERAL[2].labels).all(1).mean()
    assert whole == results["test"]["subset_accuracy"]
    assert classifier.classes == CLASSES
    with np.load(tmp_path / "out/choices.npz") as choices:
        assert (choices["test"] == labels).all()
        assert choices["val"].shape == (32, len(CLASSES))
    assert results["model"]["digest"] == model_digest(load_model(folder).model)
    provenance = load_model(tmp_path / "out").provenance
    assert provenance["finetuned_from"] == {"made": "here"}


@pytest.mark.parametrize("classes", [2, 3])
def test_one_label_each_on_frozen_features(folder, tmp_path, classes):
    sets = [single(count, seed, classes) for count, seed in ((96, 0), (40, 300))]
    results = run(folder, tmp_path / "out", sets, freeze=True)
    assert results["val"]["accuracy"] > 0.85
    assert len(results["thresholds"]) == (1 if classes == 2 else 0)
    tuned, source = (load_model(path).model.state_dict() for path in (tmp_path / "out", folder))
    assert all((tuned[name] == tensor).all() for name, tensor in source.items())
    classifier = SentimentClassifier.from_pretrained(tmp_path / "out")
    labels = classifier.predict(sets[1].texts)
    expected = np.array(sets[1].classes)[sets[1].labels]
    assert (labels == expected).mean() == results["val"]["accuracy"]
    np.testing.assert_allclose(classifier.predict_proba(["so!!"]).sum(1), 1)
    loaded = load_model(folder)
    features = features_in_order(loaded.model, list(map(loaded.encode, sets[1].texts)))
    areas, _ = load_areas(tmp_path / "out/model/classifier", hidden_size=12)
    # Values that rounding makes equal may count half.
    np.testing.assert_allclose(areas, per_unit_auc(features, sets[1].labels, 12), atol=0.01)


def bytes_of(folder):
    """Return what two equal runs share: all but the clock."""
    names = ("model/model.safetensors", "model/classifier/classifier.safetensors")
    weights = {name: (folder / name).read_bytes() for name in names}
    results = json.loads((folder / "results.json").read_text())
    keys = ("val", "test", "history", "thresholds", "best_epoch")
    return weights, {name: results[name] for name in keys}


@pytest.mark.parametrize("freeze", [False, True])
def test_interrupted_twice_it_ends_bit_for_bit_the_same(folder, tmp_path, freeze):
    settings = {"epochs": 3, "dropout": 0.3, "heads_per_class": 2, "freeze": freeze}
    run(folder, tmp_path / "whole", **settings)
    assert run(folder, tmp_path / "cut", stop=StopAfter(4), **settings) is None
    assert not (tmp_path / "cut/results.json").exists()
    assert run(folder, tmp_path / "cut", resume=True, stop=StopAfter(7), **settings) is None
    run(folder, tmp_path / "cut", resume=True, **settings)
    assert bytes_of(tmp_path / "cut") == bytes_of(tmp_path / "whole")
    run(folder, tmp_path / "cut", resume=True, **settings)  # there is nothing left to learn
    assert bytes_of(tmp_path / "cut") == bytes_of(tmp_path / "whole")


class StopInEvaluation(StopAfter):
    """A signal that comes while an epoch is evaluated."""

    tuner = None

    @property
    def requested(self):
        return (
            self.tuner is not None and self.tuner.progress.lacks_evaluation
        ) and super().requested


@pytest.mark.parametrize("times", [0, 2])  # at its first batch of texts, and at a later one
def test_a_signal_ends_an_evaluation_and_the_next_start_repeats_it(
    folder, tmp_path, monkeypatch, times
):
    """Also if that one is killed before it has saved."""
    run(folder, tmp_path / "whole", epochs=3)
    stop, make = StopInEvaluation(times), experiment.make_finetuner

    def remember(*arguments):
        stop.tuner = make(*arguments)
        return stop.tuner

    monkeypatch.setattr(experiment, "make_finetuner", remember)
    assert run(folder, tmp_path / "cut", stop=stop, epochs=3) is None
    assert len(stop.tuner.history) < 3
    rows = len(read_rows(tmp_path / "cut/metrics.jsonl"))
    stop = StopInEvaluation(1000)
    shutil.copytree(tmp_path / "cut", tmp_path / "killed")
    monkeypatch.setattr(FinetuningCheckpoints, "save", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(folder, tmp_path / "killed", resume=True, epochs=3)
    monkeypatch.undo()
    assert len(read_rows(tmp_path / "killed/metrics.jsonl")) == rows + 1
    for name in ("cut", "killed"):
        run(folder, tmp_path / name, resume=True, epochs=3)
        assert bytes_of(tmp_path / name) == bytes_of(tmp_path / "whole")


def test_what_began_it_is_its_origin(folder, tmp_path, set_command_line):
    set_command_line("finetune.py", "--first")
    assert run(folder, tmp_path / "out", epochs=1, stop=StopAfter(0)) is None
    set_command_line("finetune.py", "--second")
    results = run(folder, tmp_path / "out", epochs=1, resume=True)
    assert results["origin"]["command"].endswith(" --first")


def test_a_step_is_saved_once(folder, tmp_path, monkeypatch):
    steps = []
    writing = FinetuningCheckpoints.writing
    monkeypatch.setattr(
        FinetuningCheckpoints,
        "writing",
        lambda self, step, description: steps.append(step) or writing(self, step, description),
    )
    # A save after every step; the signal comes with the third, in the middle of an epoch.
    config = FinetuningConfig(**SETTINGS)
    stop = StopAfter(3)
    loaded = load_model(folder)
    assert (
        run_finetuning(loaded, SEVERAL, tmp_path / "out", config, save_seconds=0, stop=stop) is None
    )
    assert steps == sorted(set(steps))
    assert len(steps) > 1


def test_a_kill_between_an_epoch_and_its_checkpoint_can_be_resumed(folder, tmp_path, monkeypatch):
    run(folder, tmp_path / "whole", epochs=2)

    class Killed(Exception):
        """Stands for a kill of the process."""

    def kill(self, tuner):
        if len(tuner.history) == 2:
            raise Killed
        save(self, tuner)

    save = FinetuningCheckpoints.save
    monkeypatch.setattr(FinetuningCheckpoints, "save", kill)
    with pytest.raises(Killed):
        run(folder, tmp_path / "cut", epochs=2)
    monkeypatch.setattr(FinetuningCheckpoints, "save", save)
    run(folder, tmp_path / "cut", epochs=2, resume=True)
    assert bytes_of(tmp_path / "cut") == bytes_of(tmp_path / "whole")


@pytest.fixture
def checkpoints(folder, tmp_path):
    return FinetuningCheckpoints(FinetuningDirectory(tmp_path / "out"), load_model(folder))


@pytest.fixture
def tuner(folder, tmp_path):
    """A tuner whose checkpoint after 2 steps lies in out/checkpoint."""
    assert run(folder, tmp_path / "out", stop=StopAfter(2)) is None
    config = FinetuningConfig(**SETTINGS)
    loaded, cache = load_model(folder), FeatureCache(tmp_path / "features")
    task = make_task(loaded, *SEVERAL[:2])
    return experiment.make_finetuner(loaded, task, config, experiment.CPU, cache)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "heads.safetensors", "optimizer.safetensors", "training.json"]
)
@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_checkpoint_is_refused_or_resumed_from(tuner, checkpoints, name, data):
    path = checkpoints.complete()[-1] / name
    whole = path.read_bytes()
    kind = damaged_json if name == "training.json" else damaged_tensors
    content = data.draw(st.one_of(damaged_bytes(whole), kind(whole)))
    path.write_bytes(content)
    try:
        checkpoints.restore(tuner)
        tuner.step(np.arange(4))
    except InputError:
        pass
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("name", ["model", "heads", "optimizer"])
def test_a_file_without_tensors_is_refused(tuner, checkpoints, name):
    (checkpoints.folder / "step-backup").mkdir()
    checkpoints.restore(tuner)
    (checkpoints.complete()[-1] / f"{name}.safetensors").write_bytes(save({}))
    with pytest.raises(InputError, match=f"{name}.safetensors: tensor .* is absent"):
        checkpoints.restore(tuner)


def test_every_epoch_is_logged_and_the_first_of_equal_ones_is_kept(folder, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    results = run(folder, tmp_path / "out", head_lr=1e-9, epochs=3)
    assert results["best_epoch"] == 1
    assert len(results["history"]) == 3
    assert "epoch 1 of 3" in caplog.text
    assert caplog.text.count("the best so far") == 1


def test_another_request_is_refused_on_resume(folder, tmp_path, small_model):
    run(folder, tmp_path / "out", epochs=1)
    with pytest.raises(InputError, match="out: exists already; continue with --resume"):
        run(folder, tmp_path / "out", epochs=1)
    with pytest.raises(InputError, match=r"was begun with epochs 1, head_lr 0\.05; set the same"):
        run(folder, tmp_path / "out", epochs=2, head_lr=0.1, resume=True)
    with pytest.raises(InputError, match="was begun with other texts or labels"):
        run(folder, tmp_path / "out", [SEVERAL[1], SEVERAL[0]], epochs=1, resume=True)
    small_model.decoder.bias.data += 1
    save_model(tmp_path / "other", small_model, text_profile("openai"), {})
    with pytest.raises(InputError, match="was begun with another model"):
        run(tmp_path / "other", tmp_path / "out", epochs=1, resume=True)


def test_each_kind_of_run_is_continued_by_its_own_command(folder, tmp_path):
    run(folder, tmp_path / "tuned", epochs=1)
    (tmp_path / "trained").mkdir()
    save_toml(tmp_path / "trained/config.toml", RunConfig())
    for resume in (False, True):
        with pytest.raises(InputError, match=r"trained: is .* pretraining, which python main\.py"):
            run(folder, tmp_path / "trained", epochs=1, resume=resume)
    tuned = str(tmp_path / "tuned")
    for words in (["--resume", tuned], ["--run-dir", tuned, "--if-exists", "resume"]):
        with pytest.raises(InputError, match=r"tuned: is .* fine-tuning, which scripts/finetune"):
            resolve_run(RunOptions.from_command_line(words), ALONE).__enter__()


@pytest.mark.parametrize("part", ["model/notes.txt", "model/classifier/notes.txt"])
def test_a_file_in_the_model_that_is_not_ours_is_refused_on_resume(folder, tmp_path, part):
    run(folder, tmp_path / "out", epochs=1)
    (tmp_path / "out" / part).write_text("mine")
    with pytest.raises(InputError, match=r"model: .* not write: '.*notes\.txt'; move them away"):
        run(folder, tmp_path / "out", epochs=1, resume=True)
    assert (tmp_path / "out" / part).read_text() == "mine"


def test_a_second_process_learns_who_holds_the_folder(folder, tmp_path):
    with (
        lock_folder(tmp_path / "out"),
        pytest.raises(InputError, match=r"out: in use by process .* since"),
    ):
        run(folder, tmp_path / "out", epochs=1)


@pytest.mark.parametrize(
    ("part", "content", "words"),
    [
        ("config.toml", 'config = ""', "config is ''; it must be a section"),
        ("config.toml", 'model_digest = ""\n[config]\npatience = 3', "unknown key config.patience"),
        (
            "checkpoint/step-00000004/training.json",
            '{"format_version": 9}',
            "format_version 9 is newer",
        ),
    ],
)
def test_a_file_that_is_newer_or_damaged_is_refused_by_name(folder, tmp_path, part, content, words):
    run(folder, tmp_path / "out", epochs=1)
    path = tmp_path / "out" / part
    path.write_text(content)
    with pytest.raises(InputError, match=rf"{path.name}: .*{words}"):
        run(folder, tmp_path / "out", epochs=1, resume=True)


def test_a_run_is_laid_out_as_that_of_a_pretraining(folder, tmp_path):
    """And each epoch's row is written before its checkpoint: a resume drops it with its epoch."""
    results = run(folder, tmp_path / "out", epochs=2)
    names = {path.name for path in contents(tmp_path / "out")}
    assert names == {
        *("config.toml", "metrics.jsonl", "checkpoint", "model", "results.json", "choices.npz")
    }
    assert read_rows(tmp_path / "out/metrics.jsonl") == results["history"]
    (checkpoint,) = contents(tmp_path / "out/checkpoint")
    assert load_model(checkpoint).model.config == load_model(folder).model.config
    assert (checkpoint / "heads.safetensors").is_file()


def test_classes_that_cannot_be_learned_are_refused_before_anything_is_written(folder, tmp_path):
    labels = SEVERAL[0].labels.copy()
    labels[:, 1] = 0
    constant = LabelledSet(SEVERAL[0].texts, labels, CLASSES)
    with pytest.raises(InputError, match="class 'asking': none of the 64 training texts has it"):
        run(folder, tmp_path / "out", [constant, SEVERAL[1]])
    one = single(20, classes=3)
    alone = LabelledSet(one.texts, np.zeros(20, dtype=np.int64), one.classes)
    with pytest.raises(InputError, match="a single class"):
        run(folder, tmp_path / "out", [alone, one])
    with pytest.raises(InputError, match=r"validation labels hold a single class.*--val-share"):
        run(folder, tmp_path / "out", [one, alone])
    assert not (tmp_path / "out").exists()


def test_a_class_of_every_text_or_of_none_that_is_left_is_refused():
    every = LabelledSet(["a", "b"], np.array([[1, 0], [1, 1]]), CLASSES)
    with pytest.raises(InputError, match="class 'loud': every one of the 2 training texts has it"):
        check_learnable(every)
    left = LabelledSet(["a", "b", "c"], np.array([0, 2, 0]), ("plain", "loud", "asking"))
    with pytest.raises(InputError, match="class 'loud': none of the 3 texts to learn from has it"):
        check_learnable(left)


def test_a_task_is_recognised_by_all_of_its_texts_and_labels():
    def digest(train=((1, 2), (3,)), val=((4,),), labels=(0, 1), held=(0,), classes=("a", "b")):
        texts = ([np.array(text, np.uint8) for text in part] for part in (train, val))
        return Task(*texts, np.array(labels), np.array(held), classes).digest

    others = [
        digest(train=((1,), (2, 3))),
        digest(train=((3,), (1, 2))),
        digest(val=((5,),)),
        digest(labels=(1, 1)),
        digest(held=(1,)),
        digest(classes=("a", "c")),
    ]
    assert len({digest(), *others}) == 1 + len(others)
    assert digest() == digest()


def test_holding_out_splits_by_the_seed():
    train, val = hold_out(SEVERAL[0], 0.25, seed=1)
    assert sorted(train.texts + val.texts) == sorted(SEVERAL[0].texts)
    assert len(val.texts) == 16
    assert (
        hold_out(SEVERAL[0], 0.25, seed=1)[1].texts
        == val.texts
        != hold_out(SEVERAL[0], 0.25, seed=2)[1].texts
    )
    for fraction in (0.0, 1.0):
        with pytest.raises(InputError, match="between 0 and 1"):
            hold_out(SEVERAL[0], fraction, seed=1)


def test_equal_texts_on_both_sides_of_what_is_held_out_are_reported(caplog):
    hold_out(LabelledSet(["a", "b"] * 4, np.array([0, 1] * 4), ("0", "1")), 0.25, seed=0)
    (record,) = caplog.records
    assert record.getMessage().startswith("the texts held out: 2 of its 2 texts are in the texts")
