"""Configs: every key and type checked, and written so that they read back the same."""

import os
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.options import OTHER_NAMES, RunConfig, RunOptions, load_config
from data_utils.lanes import DataConfig
from mlstm_sentiment.commands.parser import _places
from mlstm_sentiment.errors import InputError
from model.layers.config import ModelConfig
from tests.support.runs import ROOT, done, run
from training.optimizers.optim import OptimConfig
from training.parallel.exchange import ParallelConfig
from training.runs.run_directory import save_toml
from training.trainer import PretrainingProgress


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.toml"


def test_the_tour_is_the_default_and_shipped_configs_load():
    for path in Path("configs").glob("*.toml"):
        load_config(path)
    assert RunOptions.from_command_line([]).run == load_config(Path("configs/tour.toml"))


def test_paper_configs_are_the_published_recipes():
    paper = load_config(Path("configs/paper_4096.toml"))
    assert paper.model.hidden_size == 4096
    assert paper.data.total_lanes(ranks=8) == 2048
    assert paper.data.window == 256
    assert paper.train.precision == "fp16"
    assert paper.parallel.compression == "fp16"
    assert paper.optim.peak(2048) == pytest.approx(3e-3)
    assert paper.optim.schedule(100_000, 2048).rate(73_000) == pytest.approx(8.1e-4)
    larger = load_config(Path("configs/paper_8192.toml"))
    assert larger.model.hidden_size == 8192
    assert larger.data.total_lanes(ranks=8) == 768
    assert larger.parallel.compression == "fp16"


@settings(max_examples=40)
@given(
    st.builds(
        RunConfig,
        seed=st.integers(0, 2**31),
        data=st.builds(DataConfig, lanes=st.none() | st.integers(1, 99), window=st.integers(1, 9)),
        model=st.builds(ModelConfig, hidden_size=st.integers(1, 999)),
        optim=st.builds(OptimConfig, lr=st.none() | st.floats(1e-9, 1.0)),
        parallel=st.builds(
            ParallelConfig, shares=st.sampled_from(["even", "measured", (2.0, 0.5)])
        ),
    )
)
def test_a_saved_config_reads_back_the_same(tmp_path_factory, config):
    path = tmp_path_factory.mktemp("config") / "config.toml"
    save_toml(path, config)
    assert load_config(path) == config


def test_a_closed_key_is_dropped_where_it_had_no_effect(path):
    path.write_text('[train]\non_spike = "report"')
    assert load_config(path) == RunConfig()
    progress = PretrainingProgress(step=3)
    saved = progress.as_json() | {"skipped_windows": 0}
    assert PretrainingProgress.from_json(saved, 3, path) == progress


SAVED_UNDER_ASCII = """
from pathlib import Path
from configs.options import *
from data_utils.lanes import DataConfig
from training.runs.run_directory import save_toml
config = RunConfig(data=DataConfig(corpus=Path({corpus!r})))
save_toml(Path({path!r}), config)
assert load_config(Path({path!r})) == config
"""


def test_a_path_is_saved_as_utf8_whatever_the_locale(tmp_path):
    """Under the C locale, Python has a surrogate for each byte of the name."""
    config = RunConfig(data=DataConfig(corpus=Path(os.fsdecode(b"caf\xe9"))))
    with pytest.raises(InputError, match="its name is not UTF-8"):
        save_toml(tmp_path / "run.toml", config)
    path = str(tmp_path / "run.toml")
    done(run(
        "-c", SAVED_UNDER_ASCII.format(corpus="caf\udcc3\udca9", path=path),
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ))  # fmt: skip
    assert load_config(Path(path)).data.corpus == Path("caf\u00e9")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nhiden_size = 3", r"unknown key model.hiden_size; did you mean hidden_size\?"),
        (
            "[data]\nshards = 130",
            r"data\.shards is 130, but this key is closed; leave it out, or use .*, which has it",
        ),
        (
            '[train]\non_spike = "rollback"',
            r"train\.on_spike is 'rollback', but this key is closed",
        ),
        ("[modle]\n", r"unknown key modle; did you mean model\?"),
        ("[model]\nhidden-size = 3\nhidden_size = 5", "model.hidden_size is given twice"),
        ("[model]\nhidden_size = 1.5", r"model.hidden_size is 1.5; it must be a whole number"),
        ("[parallel]\nshares = ['2', 1]", r"parallel.shares is \('2', 1\); it must be .*list"),
        ("[model]\ncell = 'rnn'", "model.cell"),
        ("model = 3", "model is 3; it must be a section"),
        ("[model", "not TOML"),
        ("seed = 1" + "0" * 5000, "not TOML .*digits"),
        ("seed = 0x" + "f" * 5000, "seed is too large a number"),
        ("seed = " + "[" * 9000, r"not TOML \(maximum recursion depth"),
        (".".join("a" * 100_000), "199,999 bytes; a config has 16,384 at most"),
        ("[model]\nhidden_size = 2147483648", r"hidden_size is 2147483648; .* at most 2\^20"),
        ("seed = '" + "9" * 9000 + "'", r"seed is '9+\.\.\.9+'; it must be a whole number$"),
    ],
)
def test_mistakes_are_named(path, text, message):
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_config(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("absent.toml", "absent.toml: no such config"),
        (".", ": a folder; name a TOML file in it"),
        ("mime.toml", ": no such config; did you mean mine.toml?"),
        ("cpu_512", ": no such config; did you mean configs/cpu_512.toml?"),
    ],
)
def test_a_config_that_is_not_there(tmp_path, monkeypatch, asked, message):
    if "cpu" not in asked:
        monkeypatch.chdir(tmp_path)
        Path("mine.toml").write_text("")
    with pytest.raises(InputError) as refused:
        load_config(Path(asked))
    assert str(refused.value).endswith(message)


def test_the_command_line_overrides_the_file_and_reads_every_kind_of_value(path):
    path.write_text("seed = 3\n[data]\nlanes = 5\nwindow = 7\n", encoding="utf-8-sig")
    options = RunOptions.from_command_line(
        ["--config", str(path), "--data.window", "9", "--optim.clip_norm=2", "--run-dir", "x"]
    )
    assert options.run.seed == 3
    assert options.run.data.lanes == 5
    assert options.run.data.window == 9
    assert options.run.optim.clip_norm == 2.0
    assert options.run_dir == Path("x")
    words = "--parallel.shares 1 2.5 --optim.clip-norm None --model.weight_norm False"
    run = RunOptions.from_command_line(words.split()).run
    assert run.parallel.shares == (1.0, 2.5)
    assert run.optim.clip_norm is None
    assert run.model.weight_norm is False
    assert RunOptions.from_command_line(["--parallel.shares=even"]).run.parallel.shares == "even"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model.hiden-size", "3"], "did you mean '--model.hidden-size'"),
        (["--optim.learning_rate", "3"], "; use --optim.lr"),
        (["--optim.betas", "3"], "; use the constant BETAS in training/optimizers/optim.py"),
        (["--batch-size=3"], "; use --data.lanes"),
        (["--train.steps", "many"], "--train.steps: 'many' is not a whole number"),
        (["--train.precision", "int8"], "--train.precision: invalid choice: 'int8'"),
        (
            ["--parallel.shares", "1", "even"],
            "--parallel.shares: 1.0 even: give one word or numbers",
        ),
        (["--model.weight-norm", "yes"], "--model.weight-norm: 'yes' is not True or False"),
        (["words"], "unknown: words"),
        (["--seed", "1", "--seed=2"], "argument --seed: given twice; give it once"),
        (["--train.steps=1", "--train.steps", "2"], "argument --train.steps: given twice"),
    ],
)
def test_command_line_mistakes_are_one_line(arguments, said):
    with pytest.raises(InputError, match=f"{said}.*; see .* --help$"):
        RunOptions.from_command_line(arguments)


def test_the_command_line_displaces_what_it_excludes():
    run = RunOptions.from_command_line(["--train.epochs", "2", "--data.lanes-per-rank=3"]).run
    assert (run.train.steps, run.train.epochs) == (None, 2.0)
    assert (run.data.lanes, run.data.lanes_per_rank) == (None, 3)
    words = ["--evaluate.every-characters", "5e5", "--checkpoint.every-characters=2e6"]
    run = RunOptions.from_command_line(words).run
    assert (run.evaluate.every_steps, run.evaluate.every_characters) == (None, 5e5)
    assert (run.checkpoint.every_steps, run.checkpoint.every_characters) == (None, 2e6)
    with pytest.raises(InputError, match="both given"):
        RunOptions.from_command_line(["--train.epochs", "2", "--train.steps", "3"])


@pytest.mark.parametrize("words", [["--train.epochs", "None"], ["--train.epochs=None"]])
def test_none_displaces_nothing(words):
    words = [*words, "--data.lanes-per-rank", "None"]
    run = RunOptions.from_command_line(["--config", "configs/cpu_512.toml", *words]).run
    assert (run.train.steps, run.train.epochs) == (5400, None)
    assert (run.data.lanes, run.data.lanes_per_rank) == (64, None)


NUMBERS = [
    (section.name, key.name)
    for section in fields(RunConfig)
    if section.default_factory is not MISSING
    for key in fields(section.default_factory)
    if "float" in str(key.type)
]


assert {("optim", "lr"), ("train", "epochs"), ("model", "forget_gate_bias")} < set(NUMBERS)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
@pytest.mark.parametrize(("section", "key"), NUMBERS)
def test_every_number_of_a_run_must_be_finite(path, section, key, value):
    path.write_text(f"[{section}]\n{key} = {f'[1.0, {value}]' if key == 'shares' else value}\n")
    with pytest.raises(InputError, match=rf"{section}\.{key} is .*; it must be (a )?finite"):
        load_config(path)


OPTIONS = {
    f"--{place.name}".replace("_", "-")
    for place in _places(RunOptions, RunOptions(), with_help=False)
}


@pytest.mark.parametrize("instead", sorted(set(OTHER_NAMES.values())))
def test_what_is_named_instead_exists(instead):
    for option in re.findall(r"--(?:[a-z]+\.)[a-z-]+", instead):
        assert option in OPTIONS
    constants, file = (
        re.findall(r"\b_?[A-Z]{2,}[A-Z_]*\b", instead),
        re.findall(r"\S+\.py", instead),
    )
    if constants:
        text = (ROOT / file[0]).read_text()
        assert all(f"\n{constant} = " in text for constant in constants)


def test_no_other_name_is_an_option():
    assert not {f"--{name}" for name in OTHER_NAMES} & OPTIONS
