"""Levers: a model with twice the units computes the same; a run begins where another ended."""

import shutil
from dataclasses import replace

import pytest
import torch

from experiments.levers.report import line
from experiments.levers.widening import widened
from experiments.studies import read_runs, start_of
from experiments.training_runs import weights_at_end
from model.errors import InputError
from model.files.weights import load_model, save_model
from model.language_model import ModelConfig, build_model
from model.text.profiles import text_profile


def small(**settings):
    config = ModelConfig(hidden_size=6, embedding_size=5, forget_gate_bias=1.0, **settings)
    model = build_model(config, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():  # gains that are not the norms, biases not alike
            parameter.mul_(1 + 0.3 * torch.rand(parameter.shape))
    return model


def read(model, tokens):
    model = model.double()
    state = model.initial_state(len(tokens))
    return model(tokens, state)


@pytest.fixture
def tokens():
    return torch.randint(0, 256, (3, 40), generator=torch.Generator().manual_seed(3))  # [B, T]


def test_a_widened_model_computes_what_the_narrow_one_does(tokens):
    narrow = small()
    wide = widened(narrow, seed=1)
    (logits, state), (wide_logits, wide_state) = read(narrow, tokens), read(wide, tokens)
    assert wide.config == replace(narrow.config, hidden_size=12)
    # The wide weights were computed in float32.
    torch.testing.assert_close(wide_logits, logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(wide_state["c"], state["c"].repeat(1, 1, 2), rtol=1e-5, atol=1e-5)


def test_the_gradients_drive_twins_apart(tokens):
    wide = widened(small(), seed=1)
    logits, _ = read(wide, tokens)
    logits[..., 0].square().mean().backward()
    one, other = wide.get_parameter("layers.0.w_mh").grad.chunk(2)
    assert not torch.allclose(one, other, rtol=0.01)


@pytest.mark.parametrize("settings", [{"cell": "lstm"}, {"layers": 2}, {"weight_norm": False}])
def test_another_architecture_is_refused(settings):
    with pytest.raises(InputError, match="one layer with weight norm"):
        widened(build_model(ModelConfig(hidden_size=6, **settings), seed=0), seed=0)


@pytest.fixture
def two_runs(tmp_path):
    """A run, and one with twice the units that continues it; the folder of their models."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "runs.toml").write_text(
        '[base]\n"data.lanes" = 1\n"data.window" = 8\n"model.hidden_size" = 6\n'
        "[runs.half]\ncharacters = 80\nseeds = [0, 2]\n"
        '[runs.same]\ncharacters = 80\nafter = "half"\n'
        '[runs.whole]\ncharacters = 80\nafter = "half"\nseeds = [2]\n"model.hidden_size" = 12\n'
    )
    runs = {run.name: run for run in read_runs("study", tmp_path)}
    return runs, tmp_path / "work"


def test_a_run_continues_the_run_of_its_seed(two_runs):
    runs, work = two_runs
    assert {name: run.after for name, run in runs.items()} == {
        "half_seed_0": "", "half_seed_2": "", "same_seed_0": "half_seed_0",
        "whole_seed_2": "half_seed_2",
    }  # fmt: skip
    assert not start_of(runs["half_seed_0"], work)


@pytest.mark.parametrize("until", ["nothing", "the folder", "the best model", "step 4"])
def test_a_run_that_has_not_ended_is_not_continued(two_runs, until):
    runs, work = two_runs
    before = work / "half_seed_2"
    if until != "nothing":
        before.mkdir(parents=True)
    if until in ("the best model", "step 4"):
        end_run(before, step=4, steps=10)
    if until == "the best model":
        shutil.rmtree(before / "checkpoint")
    with pytest.raises(InputError, match="half_seed_2: has no run that has ended; train it first"):
        start_of(runs["whole_seed_2"], work)


def end_run(folder, step, steps):
    """Write what a run of `steps` leaves after `step`: the best model, and another at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f"[train]\nsteps = {steps}\n")
    save_model(folder / "checkpoint" / f"step-{step:08}", small(), text_profile("openai"), {})
    save_model(folder / "model", small(), text_profile("openai"), {"best": True})


def test_a_run_of_more_units_begins_from_the_widened_weights(two_runs):
    runs, work = two_runs
    for seed in (0, 2):
        end_run(work / f"half_seed_{seed}", step=10, steps=10)
    kept = start_of(runs["same_seed_0"], work)["train.start_from"]
    assert kept == str(work / "half_seed_0" / "checkpoint" / "step-00000010")
    found = load_model(start_of(runs["whole_seed_2"], work)["train.start_from"])
    wanted = widened(load_model(weights_at_end(work / "half_seed_2")).model, seed=2)
    for name, tensor in wanted.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], tensor), name


def test_the_line_of_a_run_counts_what_the_run_before_it_read():
    accuracies = {"all_units": {"test_accuracy": 0.625}}

    def run(after, read, bits, **keys):
        keys = {"model.hidden_size": 8, "data.lanes": 64, **keys}
        return {"after": after, "characters_read": read, "keys": keys,
                "valid_bits_per_character": bits,
                "sst": {"last": accuracies, "mean": accuracies}}  # fmt: skip

    results = {"half_seed_0": run("", 2e6, 1.9), "half_seed_1": run("", 3e6, 1.8)}
    later = {"model.hidden_size": 16, "data.lanes": 32}
    grown = [run(f"half_seed_{seed}", 1e6, 1.75 + 0.25 * seed, **later) for seed in (0, 1)]
    speeds = {"mlstm_8": {"median": 1e4}, "mlstm_16_32_lanes": {"median": 2e3}}
    assert list(line("grown", grown, results, speeds))[:4] == [
        "`grown`", "3.5", "750",
        "1.875 (1.750 to 2.000; 2 seeds)",
    ]  # fmt: skip
    assert list(line("half", [results["half_seed_0"]], results, speeds))[1:3] == ["2.0", "200"]
