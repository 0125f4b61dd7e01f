"""Published weights through the commands: imported, used, refused."""

import json
from functools import partial

import pytest
import torch

from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import load_model, save_model
from tests.support.runs import assert_refused, done
from tests.transfer.published.layouts import (
    draw,
    nvidia_language_model,
    openai_arrays,
    write_openai,
)


@pytest.fixture
def weights(tmp_path):
    return write_openai(tmp_path / "weights", openai_arrays(draw()))


@pytest.fixture
def import_weights(run_here):
    """Return a function that runs import_weights.py."""
    return partial(run_here, "scripts/import_weights.py")


def test_openai(weights, import_weights, tmp_path):
    imported = done(import_weights("openai", weights, "--output", tmp_path / "model"))
    assert "warning: implausible" in imported.stderr  # random weights, and so it says
    assert "10 units" in imported.stdout
    loaded = load_model(tmp_path / "model")
    assert loaded.profile.name == "openai"
    assert loaded.provenance["imported_from"] == "openai"
    assert str(tmp_path) not in (tmp_path / "model" / "config.json").read_text()


def test_nvidia_with_the_profile_that_is_asked_for(import_weights, tmp_path):
    torch.save(nvidia_language_model(draw(), "ifou"), tmp_path / "lm.pt")
    done(import_weights(
        "nvidia", tmp_path / "lm.pt", "--output", tmp_path / "model", "--gate-order", "ifou",
        "--text-profile", "raw",
    ))  # fmt: skip
    description = json.loads((tmp_path / "model" / "config.json").read_text())
    assert description["text_profile"] == "raw"
    assert description["provenance"]["gate_order"] == "ifou"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["openai", "{tmp}/nowhere"], ["nowhere", "no such folder"]),
        (["nvidia", "{tmp}/nowhere.pt"], ["nowhere.pt", "No such file"]),
        (["nvidia", "{tmp}"], ["is a folder", ".pt file", "openai"]),
        (["openai", "{tmp}/wrong"], ["12.npy", "[9]", "[10]"]),
        (["nvidia", "{tmp}/lm.pt"], ["--gate-order"]),
        (["nvidia", "{tmp}/lm.pt", "--text-profile", "x"], ["profile 'x'"]),
    ],
)
def test_refusals_are_one_line_and_write_nothing(import_weights, tmp_path, arguments, words):
    torch.save(nvidia_language_model(draw()), tmp_path / "lm.pt")
    wrong = openai_arrays(draw())
    wrong[12] = wrong[12][:-1]
    write_openai(tmp_path / "wrong", wrong)
    filled = [word.format(tmp=tmp_path) for word in arguments]
    assert_refused(import_weights(*filled, "--output", tmp_path / "model"), *words)
    assert not (tmp_path / "model").exists()


def test_nothing_is_overwritten(weights, import_weights, small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("raw"), {})
    process = import_weights("openai", weights, "--output", tmp_path / "model")
    assert_refused(process, "exists already")
    process = import_weights("openai", weights, "--output", tmp_path)  # it holds other files
    assert_refused(process, "exists already")
    assert load_model(tmp_path / "model").profile.name == "raw"
