"""The same command again: when it goes on with a run, and what it takes from it."""

import contextlib

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from configs.options import RunOptions
from configs.run import resolve_run
from configs.toml_file import load_config
from data_utils.corpus import Split
from model.errors import InputError
from tests.damage import damaged_bytes
from training import run_directory
from training.distributed import World

ALONE = World(0, 1, torch.device("cpu"))
AGAIN = ("--if-exists", "resume")


def resolved(folder, *words, world=ALONE):
    words = ["--run-dir", str(folder), *words]
    return resolve_run(RunOptions.from_command_line(words), world)


@pytest.fixture
def folder(tmp_path):
    """A run that began with a batch of 5 lanes a rank and the precision left open."""
    folder = tmp_path / "run"
    begun = resolved(folder, "--data.lanes_per_rank", "5", "--train.precision", "auto")
    begun.with_vocabulary(256).with_shuffle(Split(np.zeros(9), np.zeros(2))).lay(ALONE)
    return folder


def test_an_existing_run_is_refused_unless_told_otherwise(folder):
    with pytest.raises(InputError, match="exists already"):
        resolved(folder)
    with pytest.raises(InputError, match="exists already"):
        resolved(folder, "--if-exists", "refuse")
    assert resolved(folder, *AGAIN, "--data.lanes", "5").resumed


def test_a_folder_whose_name_is_not_utf8_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="its name is not UTF-8"):
        resolved(tmp_path / "caf\udce9")
    assert not list(tmp_path.iterdir())


def test_a_launcher_that_restarts_means_the_same_run(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    run = resolved(folder, "--data.lanes", "5")
    assert run.resumed
    assert run.may_be_restarted
    assert not resolved(tmp_path / "new").resumed
    with pytest.raises(InputError, match="exists already"):
        resolved(folder, "--if-exists", "refuse")
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "0")
    with pytest.raises(InputError, match="exists already"):
        resolved(folder)


def test_what_the_command_leaves_open_is_as_at_the_first_start(folder):
    saved = load_config(folder / "config.toml")
    run = resolved(folder, *AGAIN, "--data.lanes_per_rank", "7", "--train.precision", "auto")
    assert run.lanes == 5
    assert run.config == saved


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_config_is_refused_or_gone_on_with(folder, data):
    path = folder / "config.toml"
    whole = path.read_bytes()
    path.write_bytes(data.draw(damaged_bytes(whole)))
    with contextlib.suppress(InputError):
        assert resolve_run(RunOptions.from_command_line(["--resume", str(folder)]), ALONE).resumed
    path.write_bytes(whole)


def test_a_run_goes_on_shuffling_as_it_began(folder):
    path, resume = folder / "config.toml", (*AGAIN, "--data.lanes", "5")
    assert resolved(folder, *resume).config.data.shuffle == "reviews"
    path.write_text(path.read_text().replace('shuffle = "reviews"\n', ""))
    assert resolved(folder, *resume).config.data.shuffle == "shards"  # before there was a choice
    resolved(folder, *resume, "--data.shuffle", "reviews").lay(ALONE)
    assert resolved(folder, *resume).config.data.shuffle == "reviews"


def test_another_setting_is_another_run(folder):
    with pytest.raises(InputError, match=r"cannot change optim\.lr"):
        resolved(folder, *AGAIN, "--data.lanes", "5", "--optim.lr", "1e-5")
    with pytest.raises(InputError, match=r"cannot change data\.lanes"):
        resolved(folder, *AGAIN, "--data.lanes", "6")


def test_the_default_name_gets_no_suffix_then(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for resumed in (False, True):
        run = resolve_run(RunOptions.from_command_line(list(AGAIN)), ALONE)
        assert run.directory.folder.as_posix() == "runs/tour"
        assert run.resumed == resumed
        run.lay(ALONE)


def test_a_start_cut_short_is_begun_anew_a_foreign_folder_is_left_alone(tmp_path):
    (tmp_path / ".config.toml.partial").write_text("[da")
    assert not resolved(tmp_path, *AGAIN).resumed
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="exists already"):
        resolved(tmp_path, *AGAIN)


def test_a_rank_that_does_not_see_the_run_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(run_directory, "VISIBLE_SECONDS", 0.0)
    run = resolved(tmp_path / "run", *AGAIN)
    monkeypatch.setattr(World, "from_main", lambda self, number: 1)
    elsewhere = World(1, 1, torch.device("cpu"))
    with pytest.raises(InputError, match="file system that all nodes share"):
        run.lay(elsewhere)
    with pytest.raises(InputError, match="file system that all nodes share"):
        resolved(tmp_path / "run", *AGAIN, world=elsewhere)
