"""Models on disk: exact, self-describing, and refused with one clear line where they are not."""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import ALIASES, SHIPPED_MODELS, find_model
from mlstm_sentiment.text.profiles import text_profile
from model.inference import features
from model.inference.tensors import model_digest, save_tensors
from model.inference.weights import load_model, save_model


@pytest.fixture
def folder(small_model, tmp_path):
    save_model(tmp_path / "run" / "model", small_model, text_profile("openai"), {"step": 7})
    return tmp_path / "run" / "model"


@pytest.fixture
def path(folder):
    return folder / "model.safetensors"


def test_round_trip_is_exact(folder, small_model):
    loaded = load_model(folder)
    assert loaded.model.config.architecture() == small_model.config.architecture()
    assert loaded.provenance == {"step": 7}
    assert loaded.profile.name == "openai"
    assert not loaded.model.training
    for key, value in small_model.state_dict().items():
        assert torch.equal(value, loaded.model.state_dict()[key])


def test_a_run_directory_can_be_given_as_a_model_or_its_newest_checkpoint_is_named(folder):
    assert find_model(folder.parent) == folder
    run = folder.parent
    for name in ("step-00000004", "step-00000012", ".step-00000016.partial"):
        shutil.copytree(folder, run / "checkpoint" / name)
    (run / "checkpoint" / "step-00000020").mkdir()  # of a fine-tuning: no model
    shutil.rmtree(folder)
    with pytest.raises(
        InputError, match=r"without an evaluated model yet; use its newest.*step-00000012$"
    ):
        find_model(run)
    assert find_model(run / "checkpoint" / "step-00000012")


def test_a_name_that_does_not_exist_is_an_error_and_shipped_models_go_by_their_bare_name(tmp_path):
    with pytest.raises(InputError, match="neither a model directory"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(InputError, match="nor a shipped model"):
        load_model("no-such-model")
    (alias, name), *_ = ALIASES.items()
    assert find_model(alias) == find_model(name) == SHIPPED_MODELS / name
    with pytest.raises(InputError, match="neither a model directory"):
        find_model(f"/nowhere/{alias}")


def test_weights_cut_short(folder, path):
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="damaged or cut short"):
        load_model(folder)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="damaged or cut short"):
        load_model(folder)
    torch.save({}, path)  # a pickle is never loaded
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
        ({"format_version": 6}, "format_version 6 is newer"),
        ({"format_version": "1"}, "has no format_version"),
        ({"tokenizer": "words"}, "tokenizer 'words'"),
        ({"text_profile": "shouting"}, "text profile 'shouting'"),
        (
            {"architecture": {"hidden_size": 13}},
            r"is \[256, 12\], but the description asks for \[256, 13\]",
        ),
        ({"quantized": "no"}, "quantized is 'no'; it must be true or false"),
        ({"provenance": ["me"]}, r"provenance is \['me'\]"),
        ({"architecture": {"hidden_size": -1}}, "model.hidden_size is -1"),
        ({"architecture": {"hidden_size": 2**31}}, r"hidden_size is 2147483648; .* at most 2\^20"),
        (
            {"architecture": {"cell": "rnn"}},
            "model.cell is 'rnn'; known: mlstm, lstm, gru, transformer",
        ),
        (
            {"architecture": {"cell": "mlstm_ngrams", "ngram_length": 6, "ngram_buckets": 16384}},
            "config.json: architecture has unknown keys .*ngram_buckets",
        ),
        ({"architecture": {"heads": 2}}, r"unknown keys \['heads'\]"),
        ({"architecture": {"cell": "transformer"}}, r"lacks \['context', 'heads'\]"),
        (
            {"architecture": {"cell": "transformer", "heads": 5, "context": 4}},
            "model.hidden_size is 12; a transformer of 5 heads needs a multiple of 10",
        ),
    ],
)
def test_descriptions_that_do_not_fit(folder, updates, message):
    change(folder, **updates)
    with pytest.raises(InputError, match=message) as caught:
        load_model(folder)
    assert str(caught.value).startswith(str(folder))


def test_shapes_are_checked_before_memory_is_taken(folder):
    # 36 PB of parameters.
    change(folder, architecture={"hidden_size": 1 << 20, "layers": 1 << 10})
    with pytest.raises(InputError, match="but the description asks for"):
        load_model(folder)


BIAS = "decoder.bias"
NOT_FINITE = r"model\.safetensors: decoder\.bias holds NaN or inf"


def with_entry(value):
    return lambda bias: bias.double().index_fill(0, torch.tensor([7]), value)


@pytest.mark.parametrize(
    ("quantized", "name", "change", "message"),
    [
        (False, "payload", lambda _: torch.zeros(2), "payload"),
        (True, "decoder.weight", lambda _: torch.zeros(256, 12), "holds float32, not 8-bit integ"),
        (
            False,
            BIAS,
            lambda bias: bias.to(torch.int32),
            r"decoder\.bias holds I32, an unknown kind",
        ),
        (
            False,
            BIAS,
            lambda bias: bias.bool(),
            r"decoder\.bias holds .*, (not floating|an unknown)",
        ),
        *((quantized, BIAS, with_entry(torch.nan), NOT_FINITE) for quantized in (False, True)),
        (False, BIAS, with_entry(1e300), NOT_FINITE),  # too large for fp32
    ],
)
def test_tensors_that_are_no_weights_are_refused(
    folder, small_model, path, quantized, name, change, message
):
    save_model(folder, small_model, text_profile("openai"), {}, quantized=quantized)
    tensors = load_file(path)
    save_file(tensors | {name: change(tensors.get(name))}, path)
    with pytest.raises(InputError, match=message):
        load_model(folder)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_weights_of_another_width_become_fp32(folder, path, dtype):
    stored = {name: tensor.to(dtype) for name, tensor in load_file(path).items()}
    save_file(stored, path)
    for name, tensor in load_model(folder).model.state_dict().items():
        assert torch.equal(tensor, stored[name].float())


def test_a_loaded_model_does_not_follow_its_file(small_model, tmp_path):
    """A model may be replaced, or cut short, while a service uses it."""
    save_model(tmp_path, small_model, text_profile("openai"), {})
    loaded = load_model(tmp_path)
    before = model_digest(loaded.model)
    file = tmp_path / "model.safetensors"
    with file.open("r+b") as opened:
        opened.seek(-1000, os.SEEK_END)
        opened.write(bytes(1000))
    assert model_digest(loaded.model) == before
    os.truncate(file, 0)
    assert model_digest(loaded.model) == before


def test_a_classifier_loads_and_answers_without_torchs_compiler():
    """Importing it takes seconds, as does sympy."""
    script = (
        "import sys; from mlstm_sentiment import SentimentClassifier;"
        "SentimentClassifier.from_pretrained().predict(['good']);"
        "print({'torch._dynamo', 'sympy'} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.stdout == "set()\n", process.stderr


@pytest.mark.parametrize("largest_file", [100], indirect=True)
@pytest.mark.usefixtures("largest_file")
def test_weights_that_do_not_fit_are_named(tmp_path):
    file = re.escape(f"'{tmp_path}/a'")
    with pytest.raises(OSError, match=rf"not be written \(.*is the disk full\?: {file}$"):
        save_tensors(tmp_path / "a", {"a": torch.zeros(1000)})


def test_another_models_tokenizer_is_refused(subword_model, tmp_path):
    with pytest.raises(InputError, match=r"the model has 400 tokens, but the tokenizer 256; give"):
        save_model(tmp_path / "named", subword_model, text_profile("openai"), {})
    assert not (tmp_path / "named").exists()


@pytest.mark.parametrize("value", [torch.nan, -torch.inf])
def test_weights_that_are_not_finite_are_not_written_over_finite_ones(
    folder, small_model, value, path
):
    before = path.read_bytes()
    with torch.no_grad():
        small_model.decoder.weight[2, 1] = value
    for quantized in (False, True):
        with pytest.raises(InputError, match=r"decoder\.weight holds NaN or infinity"):
            save_model(folder, small_model, text_profile("openai"), {}, quantized=quantized)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        (["good"], {"state": "cel"}),
        (["good"], {"units": [-1]}),
        (["good"], {"units": [5000]}),
        (["good"], {"layers": [-1]}),
        (["good"], {"pooling": ("median",)}),
        ([np.array([65.7, 66.2])], {}),
        ([np.array([300])], {}),
    ],
)
def test_it_refuses_what_the_engine_refuses(folder, texts, options):
    said = set()
    for model in (load_model(folder), Engine.load(folder)):
        with pytest.raises(InputError) as refused:
            model.read(texts, **options)
        said.add(str(refused.value))
    assert len(said) == 1


def test_a_state_is_of_as_many_texts(folder):
    loaded = load_model(folder)
    with pytest.raises(InputError, match="the state is of 1 texts, not of 2"):
        loaded.read(["good", "bad"], initial=loaded.initial_state())


def test_a_change_of_the_weights_changes_the_next_answer(folder):
    loaded = load_model(folder)
    before = loaded.read(["good"]).last
    with torch.no_grad():
        loaded.model.layers[0].w_mh.zero_()
    after = loaded.read(["good"]).last
    assert not np.array_equal(before, after)
    anew = features.read(loaded.model, [loaded.encode("good")], ("last",)).last
    np.testing.assert_array_equal(after, anew)
