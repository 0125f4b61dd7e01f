"""Fine-tuning from end to end on a tiny model: learned, kept, resumed, refused."""

import json
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
from mlstm_sentiment.files.storage import step_folders, step_of
from mlstm_sentiment.files.writer import RECORD, write_content
from mlstm_sentiment.head.head_files import find_classifier, load_areas
from mlstm_sentiment.text.profiles import text_profile
from model.inference.features import features_in_order
from model.inference.tensors import model_digest
from model.inference.weights import load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.conftest import emphatic
from tests.support.damage import damaged_bytes
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a model; only to be read."""
    model = emphatic(build_model(ModelConfig(hidden_size=12, embedding_size=6), seed=3))
    folder = tmp_path_factory.mktemp("model")
    save_model(folder, model, text_profile("openai"), {"made": "here"})
    return folder


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


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """The folder of a run of one epoch; only to be read."""
    output = tmp_path_factory.mktemp("finished") / "out"
    run(folder, output, epochs=1, window=8)
    return output


@pytest.fixture
def resume(folder, finished, tmp_path):
    """Return a function that resumes a copy of that run; its folder is `resume.folder`."""
    copy = shutil.copytree(finished, tmp_path / "out")

    def again(model=folder, sets=SEVERAL, resume=True, **changes):
        return run(model, copy, sets, resume, **{"epochs": 1, "window": 8, **changes})

    again.folder = copy
    return again


def test_a_run_is_a_classifier_by_its_own_name(resume):
    loaded = load_model(resume.folder / "model")
    own = resume.folder / "model/classifier"
    assert find_classifier(loaded) == find_classifier(loaded, resume.folder) == own


def test_another_request_is_refused_on_resume(resume, folder, tmp_path):
    changed = load_model(folder).model
    changed.decoder.bias.data += 1
    save_model(tmp_path / "other", changed, text_profile("openai"), {})
    for request, message in (
        ({"resume": False}, "out: exists already; continue with --resume"),
        ({"epochs": 2, "head_lr": 0.1}, r"was begun with epochs 1, head_lr 0\.05; set the same"),
        ({"sets": [SEVERAL[1], SEVERAL[0]]}, "was begun with other texts or labels"),
        ({"model": tmp_path / "other"}, "was begun with another model"),
    ):
        with pytest.raises(InputError, match=message):
            resume(**request)


@pytest.mark.parametrize("name", ["results.json", "choices.npz"])
def test_a_file_that_it_may_not_replace_is_refused_before_it_learns(resume, name):
    (resume.folder / name).write_text("mine")
    with pytest.raises(InputError, match=rf"{name}: was changed after this project wrote it"):
        FinetuningDirectory(resume.folder).locked(resume=True).__enter__()


def test_each_kind_of_run_is_continued_by_its_own_command(folder, finished, tmp_path):
    (tmp_path / "trained").mkdir()
    save_toml(tmp_path / "trained/config.toml", RunConfig())
    for again in (False, True):
        with pytest.raises(InputError, match=r"trained: is .* pretraining, which python main\.py"):
            run(folder, tmp_path / "trained", epochs=1, resume=again)
    out = str(finished)
    for words in (["--resume", out], ["--run-dir", out, "--if-exists", "resume"]):
        with pytest.raises(InputError, match=r"out: is .* fine-tuning, which scripts/finetune"):
            resolve_run(RunOptions.from_command_line(words), ALONE).__enter__()


@pytest.mark.parametrize(
    ("part", "content", "words"),
    [
        ("config.toml", 'config = ""', "config is ''; it must be a section"),
        ("config.toml", 'model_digest = ""\n[config]\npatience = 3', "unknown key config.patience"),
        ("checkpoint/step-00000004/training.json", '{"format_version": 9}', "9 is newer"),
    ],
)
def test_a_file_that_is_newer_or_damaged_is_refused_by_name(resume, part, content, words):
    path = resume.folder / part
    write_content(path, content, None if path.name == "config.toml" else "part of a folder")
    with pytest.raises(InputError, match=rf"{path.name}: .*{words}"):
        resume()


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
    assert read_rows(tmp_path / "out/metrics.jsonl") == history
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
    settings = {"epochs": 2, "dropout": 0.3, "heads_per_class": 2, "freeze": freeze}
    run(folder, tmp_path / "whole", **settings)
    assert run(folder, tmp_path / "cut", stop=StopAfter(3), **settings) is None
    assert not (tmp_path / "cut/results.json").exists()
    assert run(folder, tmp_path / "cut", resume=True, stop=StopAfter(3), **settings) is None
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


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory):
    """What an undisturbed run of two epochs gives."""
    output = tmp_path_factory.mktemp("whole") / "out"
    run(folder, output, epochs=2)
    return bytes_of(output)


@pytest.mark.parametrize("times", [0, 2])  # at its first batch of texts, and at a later one
def test_a_signal_ends_an_evaluation_and_the_next_start_repeats_it(
    folder, whole, tmp_path, monkeypatch, times
):
    """Also if that one is killed before it has saved."""
    stop, make = StopInEvaluation(times), experiment.make_finetuner

    def remember(*arguments):
        stop.tuner = make(*arguments)
        return stop.tuner

    monkeypatch.setattr(experiment, "make_finetuner", remember)
    assert run(folder, tmp_path / "cut", stop=stop, epochs=2) is None
    assert len(stop.tuner.history) < 2
    rows = len(read_rows(tmp_path / "cut/metrics.jsonl"))
    stop = StopInEvaluation(1000)
    shutil.copytree(tmp_path / "cut", tmp_path / "killed")
    monkeypatch.setattr(FinetuningCheckpoints, "save", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(folder, tmp_path / "killed", resume=True, epochs=2)
    monkeypatch.undo()
    assert len(read_rows(tmp_path / "killed/metrics.jsonl")) == rows + 1
    for name in ("cut", "killed"):
        run(folder, tmp_path / name, resume=True, epochs=2)
        assert bytes_of(tmp_path / name) == whole


def test_what_began_it_is_its_origin(folder, tmp_path, set_command_line):
    set_command_line("finetune.py", "--first")
    assert run(folder, tmp_path / "out", epochs=1, stop=StopAfter(0)) is None
    set_command_line("finetune.py", "--second")
    results = run(folder, tmp_path / "out", epochs=1, resume=True)
    assert results["origin"]["command"].endswith(" --first")


@pytest.fixture(scope="module")
def stopped(folder, tmp_path_factory):
    """A tuner and its checkpoints, one after 2 steps."""
    work = tmp_path_factory.mktemp("stopped")
    assert run(folder, work / "out", stop=StopAfter(2)) is None
    config, loaded = FinetuningConfig(**SETTINGS), load_model(folder)
    task, cache = make_task(loaded, *SEVERAL[:2]), FeatureCache(work / "features")
    tuner = experiment.make_finetuner(loaded, task, config, experiment.CPU, cache)
    return tuner, FinetuningCheckpoints(FinetuningDirectory(work / "out"), loaded)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "heads.safetensors", "optimizer.safetensors", "training.json"]
)
@settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_checkpoint_that_changed_is_refused_by_name(stopped, name, data):
    tuner, checkpoints = stopped
    path = checkpoints.complete()[-1] / name
    whole = path.read_bytes()
    path.write_bytes(data.draw(damaged_bytes(whole).filter(lambda damaged: damaged != whole)))
    with pytest.raises(InputError, match=f"{name}: damaged: "):
        checkpoints.restore(tuner)
    path.write_bytes(whole)


@pytest.mark.parametrize("name", ["model", "heads", "optimizer"])
def test_a_file_without_tensors_is_refused(stopped, name):
    tuner, checkpoints = stopped
    path = checkpoints.complete()[-1] / f"{name}.safetensors"
    before = {file: file.read_bytes() for file in (path, path.with_name(RECORD))}
    write_content(path, save({}), "part of a folder")
    with pytest.raises(InputError, match=f"{name}.safetensors: tensor .* is absent"):
        checkpoints.restore(tuner)
    for file, content in before.items():
        file.write_bytes(content)


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
    every = LabelledSet(["a", "b"], np.array([[1, 0], [1, 1]]), CLASSES)
    with pytest.raises(InputError, match="class 'loud': every one of the 2 training texts has it"):
        check_learnable(every)
    left = LabelledSet(["a", "b", "c"], np.array([0, 2, 0]), ("plain", "loud", "asking"))
    with pytest.raises(InputError, match="class 'loud': none of the 3 texts to learn from has it"):
        check_learnable(left)
    assert not (tmp_path / "out").exists()


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


def test_what_is_held_out_follows_from_the_seed_and_texts_on_both_sides_are_reported(caplog):
    train, val = hold_out(SEVERAL[0], 0.25, seed=1)
    assert sorted(train.texts + val.texts) == sorted(SEVERAL[0].texts)
    assert len(val.texts) == 16
    again, other = (hold_out(SEVERAL[0], 0.25, seed=seed)[1].texts for seed in (1, 2))
    assert again == val.texts != other
    caplog.clear()
    hold_out(LabelledSet(["a", "b"] * 4, np.array([0, 1] * 4), ("0", "1")), 0.25, seed=0)
    (record,) = caplog.records
    assert record.getMessage().startswith("the texts held out: 2 of its 2 texts are in the texts")
