"""Closed keys: harmless in old files, an error with the way back anywhere else."""

import re

import pytest
import tomli_w

from configs.closed import CLOSED, CLOSED_VALUES, REVISION
from configs.options import RunOptions, flatten
from configs.toml_file import RunConfig, load_config
from model.errors import InputError
from tests.support.runs import ROOT

WITH_DEFAULTS = [key for key, closed in CLOSED.items() if closed.default is not None]
OTHERS = {bool: True, int: 7, float: 0.5, str: "other", type(None): "other"}


def written(path, name, value):
    section, key = name.split(".")
    path.write_text(tomli_w.dumps({section: {key: value}}))
    return path


@pytest.mark.parametrize("name", WITH_DEFAULTS)
def test_an_old_file_with_a_key_that_had_no_effect_loads(tmp_path, name):
    assert load_config(written(tmp_path / "old.toml", name, CLOSED[name].default)) == RunConfig()


@pytest.mark.parametrize("name", CLOSED)
def test_a_closed_key_that_had_an_effect_is_refused_with_its_study_and_revision(tmp_path, name):
    closed = CLOSED[name]
    path = written(tmp_path / "old.toml", name, OTHERS[type(closed.default)])
    study = re.escape(f" (see {closed.page})" if closed.page else "")
    said = rf"old\.toml: {name} = .* was removed{study}; leave it out, or check out .* {REVISION}$"
    with pytest.raises(InputError, match=said):
        load_config(path)


@pytest.mark.parametrize(("name", "value"), CLOSED_VALUES)
def test_a_closed_value_is_refused_in_a_file_and_on_the_command_line(tmp_path, name, value):
    path = written(tmp_path / "old.toml", name, value)
    with pytest.raises(
        InputError, match=rf"old\.toml: {name} = '{value}' was removed.*{REVISION}$"
    ):
        load_config(path)
    for words in ([f"--{name}", value], [f"--{name.replace('_', '-')}={value}"]):
        with pytest.raises(InputError, match=rf"^--{name} {value} was removed.*{REVISION}$"):
            RunOptions.from_command_line(words)


@pytest.mark.parametrize("name", CLOSED)
def test_a_closed_option_is_refused_on_the_command_line(name):
    for option in (f"--{name}", f"--{name.replace('_', '-')}"):
        for words in ([option, "1"], [f"{option}=1"], ["--seed", "1", option]):
            with pytest.raises(InputError, match=rf"^--{name} was removed.*{REVISION}$"):
                RunOptions.from_command_line(words)


@pytest.mark.parametrize("name", ["data.shuffle", "model.vocabulary_size", "optim.cooldown_from"])
def test_what_only_a_run_sets_is_no_option(name):
    with pytest.raises(InputError, match=f"^unknown: --{name.replace('_', '-')}"):
        RunOptions.from_command_line([f"--{name}", "1"])


def test_a_word_that_is_no_option_is_no_closed_one():
    options = RunOptions.from_command_line(["--train.start_from", "data.title_weight"])
    assert options.run.train.start_from == "data.title_weight"


def test_every_study_has_its_page_and_no_option_has_a_closed_name():
    pages = {closed.page for closed in CLOSED.values()} | set(CLOSED_VALUES.values())
    for page in pages - {""}:
        assert (ROOT / page).is_file(), page
    saved = {"model.heads", "model.context"}  # of a model's file
    assert set(CLOSED) & set(flatten(RunConfig())) == saved
