"""A run that begins from another model's weights."""

import pytest
import torch

from model.errors import InputError
from model.files.weights import save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.text.profiles import text_profile
from training.checkpoint import load_weights

CONFIG = ModelConfig(hidden_size=8, embedding_size=4)


@pytest.fixture
def trained(tmp_path):
    save_model(tmp_path / "trained", build_model(CONFIG, seed=1), text_profile("openai"), {})
    return str(tmp_path / "trained")


def test_the_weights_are_the_given_models(trained):
    config = ModelConfig(hidden_size=8, embedding_size=4, forget_gate_bias=2.0)
    model = build_model(config, seed=5)
    load_weights(model, trained, "openai")
    for name, value in build_model(CONFIG, seed=1).state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name


def test_their_origin_is_told_without_folders(tmp_path):
    before = {"model": "older", "step": 3}
    kept = {"step": 9, "characters": 70, "git_revision": "abc", "began_from": before}
    provenance = {**kept, "hardware": {"cores": 2}}
    save_model(tmp_path / "held", build_model(CONFIG, seed=0), text_profile("openai"), provenance)
    told = load_weights(build_model(CONFIG, seed=1), str(tmp_path / "held"), "openai")
    assert told == {"model": "held", **kept}


def test_without_one_nothing_changes():
    model = build_model(CONFIG, seed=5)
    assert load_weights(model, None, "openai") is None
    assert torch.equal(model.decoder.weight, build_model(CONFIG, seed=5).decoder.weight)


@pytest.mark.parametrize(
    ("changes", "profile", "mend"),
    [
        ({"hidden_size": 16}, "openai", r"made with model\.hidden_size 8; set the same"),
        ({}, "raw", "prepare it with --text-profile openai"),
        ({"cell": "transformer"}, "openai", r"was made with model\.cell mlstm; set the same$"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_cure(trained, changes, profile, mend):
    config = ModelConfig(**{"hidden_size": 8, "embedding_size": 4} | changes)
    with pytest.raises(InputError, match=mend):
        load_weights(build_model(config, seed=0), trained, profile)


def test_no_such_model_is_refused():
    with pytest.raises(InputError, match="neither a model directory"):
        load_weights(build_model(CONFIG, seed=0), "nowhere", "openai")


def test_another_tokenizer_than_the_corpuss_is_refused(tmp_path, subword_model, subwords, trained):
    profile = text_profile("openai")
    save_model(tmp_path / "subwords", subword_model, profile, {}, tokenizer=subwords)
    with pytest.raises(InputError, match="the corpus: its tokenizer is bytes"):
        load_weights(build_model(CONFIG, seed=0), str(tmp_path / "subwords"), "openai")
    with pytest.raises(InputError, match="the corpus: its tokenizer is bpe"):
        load_weights(subword_model, trained, "openai", subwords)
    fresh = build_model(subword_model.config, seed=0)
    load_weights(fresh, str(tmp_path / "subwords"), "openai", subwords)
    assert torch.equal(fresh.decoder.weight, subword_model.decoder.weight)
