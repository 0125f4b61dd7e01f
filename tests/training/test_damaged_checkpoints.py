"""Checkpoints whose files were changed, cut or replaced: refused by name, or resumed from."""

import contextlib
import json
import re
import shutil

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.split import encode_split
from tests.support.damage import damaged_bytes, damaged_json, damaged_tensors
from tests.support.trainers import PROFILE, make_trainer, saved_by, train
from training.checkpoint import Checkpoints
from training.start import StartModel

SAVED = {"precision": "fp16", "name": "muon", "loss_scale": 2.0**10}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint after one step of Muon in fp16: two optimisers, a loss scale."""
    folder = tmp_path_factory.mktemp("saved") / "checkpoint"
    split = encode_split((r.text for r in synthetic_reviews(40, seed=5)), PROFILE)
    checkpoints = Checkpoints(folder, keep=2, corpus_fingerprint="abc")
    saved_by(checkpoints, split, make_trainer(**SAVED))
    return split, checkpoints.complete()[0]


def copied(saved, checkpoints):
    """Make that checkpoint the only one; return its folder."""
    shutil.rmtree(checkpoints.folder, ignore_errors=True)
    return shutil.copytree(saved[1], checkpoints.folder / saved[1].name)


FUZZED = settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def go_on(saved, checkpoints, name, content):
    """Resume from a checkpoint whose file `name` has another content, or is gone; take a step."""
    path = copied(saved, checkpoints) / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    trainer = make_trainer(**SAVED)
    checkpoints.restore(trainer)
    train(trainer, saved[0], 1)
    trainer.close_row()
    assert trainer.progress.step == 2


@pytest.mark.parametrize("name", ["model", "optimizer", "lanes", "training"])
@FUZZED
@given(data=st.data())
def test_a_damaged_file_is_refused_or_resumed_from(saved, checkpoints, name, data):
    file = f"{name}.json" if name == "training" else f"{name}.safetensors"
    content = (saved[1] / file).read_bytes()
    kinds = [damaged_bytes(content)] + [damaged_json(content)] * (name == "training")
    with contextlib.suppress(InputError):
        go_on(saved, checkpoints, file, data.draw(st.one_of(kinds)))


@pytest.mark.parametrize("name", ["model", "optimizer", "lanes"])
@FUZZED
@given(data=st.data())
def test_tensors_that_do_not_fit_are_refused(saved, checkpoints, name, data):
    file = f"{name}.safetensors"
    content = data.draw(damaged_tensors((saved[1] / file).read_bytes()))
    if name == "lanes" and "row_overflows" not in load(content):
        return  # as in the oldest checkpoints
    authority = "the optimiser has" if name == "optimizer" else "the config asks for"
    with pytest.raises(InputError, match=f"{file}: tensor .*, but {authority}"):
        go_on(saved, checkpoints, file, content)


@pytest.mark.parametrize(
    ("part", "value", "complaint"),
    [
        ("progress", None, "progress is None; it should have step, characters"),
        ("progress", {"step": 1}, "it should have step, characters"),
        ("step", "1", "progress.step is '1'"),
        ("step", 2, "says step 2, but its folder says step 1"),
        ("characters", True, "progress.characters is True"),
        ("characters", -1, "progress.characters is -1"),
        ("best_bits_per_character", float("nan"), "progress.best_bits_per_character is nan"),
        ("skipped_windows", 2, "is 2, but this key is closed; revision 94c10db0 has it$"),
        ("loss_scaler", None, "loss_scaler is None"),
        ("loss_scaler", {"scale": 0.0, "_growth_tracker": 1}, "loss_scaler.scale is 0.0"),
        ("optimizer_states", 0, "optimizer_states is 0"),
        ("format_version", 3, "format_version 3 is newer than 2, .*; update the project$"),
    ],
)
def test_a_description_of_the_wrong_types_is_refused(saved, checkpoints, part, value, complaint):
    content = json.loads((saved[1] / "training.json").read_text())
    counters = (*content["progress"], "skipped_windows")
    (content["progress"] if part in counters else content)[part] = value
    with pytest.raises(InputError, match=f"training.json: .*{complaint}"):
        go_on(saved, checkpoints, "training.json", json.dumps(content).encode())


TENSORS = [f"{name}.safetensors" for name in ("model", "optimizer", "lanes")]


def flipped(content):
    """Change a bit of the last tensor."""
    return content[:-1] + bytes([content[-1] ^ 1])


def test_rounded_weights_are_refused_with_the_way_to_use_them(saved, checkpoints):
    tensors = load((saved[1] / "model.safetensors").read_bytes())
    rounded = save({name: tensor.bfloat16() for name, tensor in tensors.items()})
    with pytest.raises(InputError, match=r"rounded .*; --train\.start_from (\S+) begins") as caught:
        go_on(saved, checkpoints, "model.safetensors", rounded)
    (folder,) = re.findall(r"start_from (\S+)", str(caught.value))
    model = make_trainer(**SAVED).model
    StartModel.open(folder, model.config, PROFILE.name).load_into(model)
    assert torch.equal(model.decoder.bias, tensors["decoder.bias"].bfloat16().float())


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        *((file, flipped, "damaged: ") for file in TENSORS),
        *((file, lambda content: content[:20], "damaged or cut short") for file in TENSORS),
        *((file, lambda content: content[:-9], "damaged or cut short") for file in TENSORS),
        ("training.json", lambda content: content[:-9], "not JSON"),
        ("config.json", lambda content: b"{}", "has no architecture section"),
        ("config.json", lambda content: None, "no such file"),
    ],
)
def test_a_damaged_file_is_refused_with_the_advice_to_go_back(
    saved, checkpoints, file, change, message
):
    advice = "; no earlier checkpoint is left; a new run with --train"
    with pytest.raises(InputError, match=rf"{file}: {message}.*{advice}"):
        go_on(saved, checkpoints, file, change((saved[1] / file).read_bytes()))


@pytest.mark.parametrize(
    ("file", "tensor", "value", "message"),
    [
        ("optimizer", "exp_avg_sq", -1, "holds a negative number"),
        ("optimizer", "step", -1, "holds a negative number"),
        ("lanes", "row_overflows", -1, "holds a negative number"),
        ("lanes", "random_state", 255, "is not one of torch's"),
    ],
)
def test_impossible_numbers_are_refused(saved, checkpoints, file, tensor, value, message):
    tensors = load((saved[1] / f"{file}.safetensors").read_bytes())
    name = next(name for name in tensors if name.endswith(tensor))
    tensors[name] = tensors[name] * 0 + value
    with pytest.raises(InputError, match=f"{file}.safetensors: {name} {message}"):
        go_on(saved, checkpoints, f"{file}.safetensors", save(tensors))


@pytest.mark.parametrize("name", ["model", "optimizer", "lanes"])
def test_a_file_far_too_large_is_refused_unread(saved, checkpoints, name):
    """A sparse file of 2^40 bytes: read, it would not fit into memory."""
    begin = {"h": {"dtype": "F32", "shape": [1 << 38], "data_offsets": [0, 1 << 40]}}
    header = json.dumps(begin).encode()
    folder = copied(saved, checkpoints)
    with (folder / f"{name}.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (1 << 40))
    with pytest.raises(InputError, match=f"{name}.safetensors: 1,099,511,627,.* but at most "):
        checkpoints.restore(make_trainer(**SAVED))
