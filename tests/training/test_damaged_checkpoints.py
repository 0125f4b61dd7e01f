"""Checkpoints whose files were changed, cut or replaced: refused by name."""

import json
import os
import shutil

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save_file

from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import step_folder
from mlstm_sentiment.files.writer import RECORD, write_content
from mlstm_sentiment.text.split import encode_split
from tests.support.damage import damaged_bytes, damaged_tensors
from tests.support.trainers import ALONE, PROFILE, make_trainer, saved_by, train
from training.checkpoint import Checkpoints

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


def go_on(saved, checkpoints, name, content, *, recorded=False):
    """Resume from a checkpoint whose file `name` has another content, or is gone; take a step.

    recorded: the content has its digest, as if it had been written there.
    """
    path = copied(saved, checkpoints) / name
    path.unlink()
    if recorded:
        write_content(path, content, "part of a folder")
    elif content is not None:
        path.write_bytes(content)
    trainer = make_trainer(**SAVED)
    checkpoints.restore(trainer)
    train(trainer, saved[0], 1)
    trainer.close_row()
    assert trainer.progress.step == 2


FILES = [f"{name}.safetensors" for name in ("model", "optimizer", "lanes")]
FILES += ["training.json", "config.json"]
ADVICE = "; no earlier checkpoint is left; a new run with --train"


@pytest.mark.parametrize("file", FILES)
@FUZZED
@given(data=st.data())
def test_a_file_that_changed_by_a_bit_or_is_lost_is_refused_with_the_advice_to_go_back(
    saved, checkpoints, file, data
):
    content = (saved[1] / file).read_bytes()
    flipped = content[:-1] + bytes([content[-1] ^ 1])
    changed = damaged_bytes(content).filter(lambda damaged: damaged != content)
    damaged = data.draw(st.sampled_from([flipped, None]) | changed)
    message = "no such file" if damaged is None else "damaged: "
    with pytest.raises(InputError, match=rf"{file}: {message}.*{ADVICE}"):
        go_on(saved, checkpoints, file, damaged)


def cut(folder):
    os.truncate(folder / "model.safetensors", 20)


def diverged(folder):
    tensors = load((folder / "model.safetensors").read_bytes())
    save_file(
        {name: value * torch.nan for name, value in tensors.items()}, folder / "model.safetensors"
    )


def without(name):
    return lambda folder: (folder / name).unlink()


def described(**parts):
    def change(folder):
        path = folder / "training.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | parts))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cut, rf"model\.safetensors: .*{ADVICE}"),
        (diverged, rf"model\.safetensors: .* holds NaN or infinity.*{ADVICE}"),
        (
            without("config.json"),
            rf"config\.json: no such file.*{ADVICE}",
        ),
        (without("lanes.safetensors"), rf"lanes\.safetensors: .*{ADVICE}"),
        (described(loss_scaler="x"), rf"step-0+1: damaged .*{ADVICE}"),
        (described(settings=None), "step-0+1: damaged "),
    ],
)
def test_a_damaged_checkpoint_without_a_record_of_digests_is_refused_in_one_line(
    saved, checkpoints, change, message
):
    """As the oldest ones are."""
    folder = copied(saved, checkpoints)
    (folder / RECORD).unlink()
    change(folder)
    with pytest.raises(InputError, match=message):
        checkpoints.restore(make_trainer(**SAVED))


def test_a_resume_removes_no_checkpoint(saved, checkpoints):
    """The next one that is written does."""
    folder = copied(saved, checkpoints)
    older = shutil.copytree(saved[1], step_folder(checkpoints.folder, 0))
    checkpoints.keep = 1
    with pytest.raises(InputError, match="put the old value back"):
        checkpoints.restore(make_trainer(**SAVED, hidden_size=9))
    assert checkpoints.complete() == [older, folder]
    checkpoints.restore(make_trainer(**SAVED))
    assert checkpoints.complete() == [older, folder]


def test_a_changed_description_is_damaged_before_it_is_of_another_corpus(saved, checkpoints):
    described(corpus="z")(copied(saved, checkpoints))
    with pytest.raises(InputError, match=r"training\.json: damaged: "):
        checkpoints.check_corpus(ALONE)


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
        go_on(saved, checkpoints, file, content, recorded=True)


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
        (
            "skipped_windows",
            2,
            "is 2, but this key is closed; use revision 94c10db0, which has it$",
        ),
        ("optimizer_states", 0, "optimizer_states is 0"),
        ("format_version", 3, "format_version 3 is newer than 2, .*; update the project$"),
    ],
)
def test_a_description_of_the_wrong_types_is_refused(saved, checkpoints, part, value, complaint):
    content = json.loads((saved[1] / "training.json").read_text())
    counters = (*content["progress"], "skipped_windows")
    (content["progress"] if part in counters else content)[part] = value
    with pytest.raises(InputError, match=f"training.json: .*{complaint}"):
        go_on(saved, checkpoints, "training.json", json.dumps(content).encode(), recorded=True)
