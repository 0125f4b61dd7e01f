"""Models on disk: exact, self-describing, and refused with one clear line where they are not."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.errors import InputError
from model.text import text_profile
from model.weights import find_model, load_model, save_model


@pytest.fixture
def folder(small_model, tmp_path):
    save_model(tmp_path / "run" / "model", small_model, text_profile("openai"), {"step": 7})
    return tmp_path / "run" / "model"


def test_round_trip_is_exact(folder, small_model):
    loaded = load_model(folder)
    assert loaded.model.config.architecture() == small_model.config.architecture()
    assert loaded.provenance == {"step": 7}
    assert loaded.profile.name == "openai"
    assert not loaded.model.training
    for key, value in small_model.state_dict().items():
        assert torch.equal(value, loaded.model.state_dict()[key])


def test_a_run_directory_stands_for_its_model(folder):
    assert find_model(folder.parent) == folder


def test_of_a_run_that_was_not_evaluated_the_newest_checkpoint_is_named(folder):
    run = folder.parent
    for name in ("step-00000004", "step-00000012", ".step-00000016.partial"):
        shutil.copytree(folder, run / "checkpoint" / name)
    (run / "checkpoint" / "step-00000020").mkdir()  # of a fine-tuning: no model
    shutil.rmtree(folder)
    with pytest.raises(InputError, match=r"not evaluated yet; its newest.*step-00000012$"):
        find_model(run)
    assert find_model(run / "checkpoint" / "step-00000012")


def test_a_name_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(InputError, match="neither a model directory"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(InputError, match="nor a shipped model"):
        load_model("no-such-model")


def test_shipped_models_go_by_their_bare_name(folder, monkeypatch):
    monkeypatch.setattr("model.weights.SHIPPED_MODELS", folder.parent)
    monkeypatch.setattr("model.weights.ALIASES", {"default": "small"})
    folder.rename(folder.parent / "small")
    for name in ("small", "default"):
        assert load_model(name).provenance == {"step": 7}
    with pytest.raises(InputError, match="neither a model directory"):
        load_model("/nowhere/default")


def test_weights_cut_short(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="damaged or cut short"):
        load_model(folder)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="damaged or cut short"):
        load_model(folder)
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        load_model(folder)


def change(folder, **updates):
    path = folder / "config.json"
    content = json.loads(path.read_text())
    content["architecture"] |= updates.pop("architecture", {})
    path.write_text(json.dumps(content | updates))


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ({"format_version": 4}, "format_version 4 is newer"),
        ({"format_version": "1"}, "has no format_version"),
        ({"tokenizer": "words"}, "tokenizer 'words'"),
        ({"text_profile": "shouting"}, "text profile 'shouting'"),
        ({"architecture": {"hidden_size": 13}}, "where the description asks for"),
        ({"architecture": {"hidden_size": -1}}, "model.hidden_size"),
        ({"architecture": {"hidden_size": "12"}}, "model.hidden_size"),
        ({"architecture": {"cell": "gru"}}, "model.cell"),
        ({"architecture": {"colour": "red"}}, "unknown keys"),
    ],
)
def test_descriptions_that_do_not_fit(folder, updates, message):
    change(folder, **updates)
    with pytest.raises(InputError, match=message):
        load_model(folder)


def test_shapes_are_checked_before_memory_is_taken(folder):
    change(folder, architecture={"hidden_size": 10**7})  # 1.6 PB of parameters
    with pytest.raises(InputError, match="where the description asks for"):
        load_model(folder)


def test_an_extra_tensor_is_refused(folder):
    path = folder / "model.safetensors"
    save_file({**load_file(path), "payload": torch.zeros(2)}, path)
    with pytest.raises(InputError, match="payload"):
        load_model(folder)


def test_a_pickle_is_never_loaded(folder, small_model):
    torch.save(small_model.state_dict(), folder / "model.safetensors")
    with pytest.raises(InputError, match="damaged or cut short"):
        load_model(folder)


def test_config_that_is_not_json(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        load_model(folder)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="device cuda: torch sees no GPU; use cpu"):
        load_model(tmp_path, device="cuda")
