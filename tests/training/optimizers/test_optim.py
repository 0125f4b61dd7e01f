"""The papers' learning-rate rule, and every optimiser taking a step."""

import pytest

from model.errors import InputError
from training.optimizers.optim import OptimConfig, make_optimizers


@pytest.mark.parametrize(
    ("lanes", "peak"),
    [(64, 2.5e-4), (128, 5e-4), (768, 3e-3), (1024, 3e-3), (2048, 3e-3), (32_768, 3e-3)],
)
def test_peak_follows_the_published_rule(lanes, peak):
    assert OptimConfig().peak(lanes) == pytest.approx(peak)


def test_a_given_rate_wins():
    assert OptimConfig(lr=0.1).peak(128) == 0.1


def test_puri_schedule_ends_at_27_percent_of_the_peak():
    config = OptimConfig(decay_steps=100_000)
    assert config.schedule(73_000, 2048).rate(73_000) == pytest.approx(8.1e-4)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "muon", "lamb"])
def test_every_optimizer_takes_a_step_downhill(name, small_model):
    before = {key: value.clone() for key, value in small_model.state_dict().items()}
    optimizers = make_optimizers(small_model, OptimConfig(name=name))
    sum(parameter.square().sum() for parameter in small_model.parameters()).backward()
    for optimizer in optimizers:
        optimizer.param_groups[0]["lr"] = 1e-3
        optimizer.step()
    for key, value in small_model.state_dict().items():
        assert value.square().sum() < before[key].square().sum() or not before[key].any(), key


def test_muon_takes_the_matrices_of_the_layers_and_adamw_the_rest(small_model):
    muon, adam = make_optimizers(small_model, OptimConfig(name="muon"))
    names = {parameter: name for name, parameter in small_model.named_parameters()}
    taken = {names[p] for p in muon.param_groups[0]["params"]}
    assert taken == {f"layers.0.w_{part}" for part in ("x", "h", "mx", "mh")}
    assert {names[p] for p in adam.param_groups[0]["params"]} == set(names.values()) - taken


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": 0.0},
        {"lr": -1.0},
        {"warmup": 1.0},
        {"clip_norm": 0.0},
        {"beta1": 1.0},
        {"weight_decay": -1.0},
        {"hold": -0.1},
        {"warmup": 0.5, "hold": 0.6},
        {"momentum": 1.0},
        {"cooldown_steps": 0},
        {"cooldown_from": 3},
    ],
)
def test_impossible_values_are_refused(wrong):
    with pytest.raises(InputError, match=f"optim.{next(iter(wrong))}"):
        OptimConfig(**wrong)
