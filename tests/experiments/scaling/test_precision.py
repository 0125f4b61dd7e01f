"""Memory and precision: what the runs differ in, and bytes counted another way."""

from dataclasses import replace

import pytest

from configs.options import RunOptions
from experiments.scaling import precision
from experiments.scaling.learning.footprint import footprint, recurrence_of
from model.language_model import ModelConfig
from tests.runs import ROOT

CORPUS = ROOT / "tests/fixtures/v1/corpus"
PARAMETERS = {64: 74_880, 256: 495_360}  # of OpenAI's form: one bias, a gain for every row


def configs(tmp_path):
    """Return the config of each run, flat."""
    found = {}
    for way in precision.WAYS:
        arguments = precision.run_of(way, 10**6).recipe.arguments(CORPUS, tmp_path)
        found[way] = RunOptions.from_command_line(arguments[1:]).run
    return found


def test_runs_differ_in_precision_scale_or_seed_alone(tmp_path):
    found = configs(tmp_path)
    yardstick = found["fp32"]
    assert yardstick.train.precision == "fp32"
    assert [config.train.precision for config in found.values()].count("fp16") == 2
    assert found["fp16, scale from 2^32"].train.loss_scale == 2**32
    for config in found.values():
        assert config.train.steps == yardstick.train.steps == round(10**6 / (32 * 64))
        assert (config.data, config.optim) == (yardstick.data, yardstick.optim)
        model = replace(config.model, backend=yardstick.model.backend)
        assert model == yardstick.model
    assert {config.seed for config in found.values()} == {0, 1, 2}
    others = [way for way, c in found.items() if c.model.backend != yardstick.model.backend]
    assert others == ["fp32, plain torch"]


@pytest.mark.parametrize("size", PARAMETERS)
def test_bytes_of_weights_gradients_and_adam_are_those_of_the_parameters(size):
    held = footprint(ModelConfig(hidden_size=size), "bf16", lanes=1, window=8)
    parameters = PARAMETERS[size]
    assert held["weights"] == held["gradients"] == 4 * parameters
    # Two moments; and each of the twelve tensors counts its steps.
    assert held["optimizer"] == 2 * 4 * parameters + 4 * 12
    assert held["weights_as_multiplied"] > 2 * parameters


@pytest.mark.parametrize(("name", "width"), [("fp32", 4), ("bf16", 2)])
def test_activations_are_what_the_code_keeps(name, width):
    H, lanes, window = 64, 5, 24
    config = ModelConfig(hidden_size=H)
    if recurrence_of(config, name) == "plain torch":
        pytest.skip("no compiled recurrence here: another one keeps other tensors")
    held = footprint(config, name, lanes=lanes, window=window)
    # h, W_mh h, four gates, and the gradient of h that the loss makes in forward; c in fp32; the
    # byte itself, int64; and the state that the window began with.
    of_a_byte = H * (7 * width + 4) + 8
    assert held["activations"] == lanes * (window * of_a_byte + H * (width + 4))


def test_the_published_batches_are_those_that_fit():
    held = precision.worked_out()
    v100 = 16.9e9
    assert held["fp32"]["128"] < v100 < held["fp32"]["256"]
    assert held["fp16"]["256"] < v100


def study():
    """Return a study with a run in each way; fp16 has overflown."""
    runs = []
    for number, way in enumerate(precision.WAYS):
        scaled = {"loss_scale": 2.0**20, "overflows": 6} if "fp16" in way else {}
        row = {"step": 5, "characters": 10**6, "train_bits_per_character": 3.0, **scaled}
        later = {**row, "step": 10, "characters": 2 * 10**6}
        if scaled:
            later |= {"loss_scale": 2.0**21, "overflows": 1}
        runs.append(
            {
                "way": way,
                "keys": dict(precision.WAYS[way]),
                "valid_bits_per_character": 2.5 + number / 1000,
                "training_seconds": 100.0,
                "rows": [row, later],
            }
        )
    sizes = dict.fromkeys(
        ("weights", "weights_as_multiplied", "gradients", "optimizer", "activations"), 3_000_000
    )
    memory = {p: {"recurrence": "plain torch", "bytes": sizes} for p in precision.PRECISIONS}
    published = precision.worked_out()
    return {"runs": runs, "memory": memory, "memory_of_the_published_model": published}


def test_tables_and_figure(tmp_path):
    text = precision.tables(study())
    assert "| fp32 | 2.5000 | +0.0000 |  |  |" in text
    assert "| fp16 | 2.5040 | +0.0040 | 7 | 2^21 |" in text
    assert "| gradients | 3.00 | 3.00 | 3.00 |" in text
    assert "| 256 lanes |" in text
    precision.draw(tmp_path / "figure.png", study())
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_a_run_that_diverged_and_one_alone_are_told(tmp_path):
    one = study()
    one["runs"] = [{**one["runs"][4], "valid_bits_per_character": None}]
    assert "| fp16 | diverged |  | 7 |" in precision.tables(one)
    precision.draw(tmp_path / "figure.png", one)
    one["runs"][0]["rows"] = []  # in its first row already
    assert "| fp16 | diverged |  |  |" in precision.tables(one)
    precision.draw(tmp_path / "figure.png", one)
