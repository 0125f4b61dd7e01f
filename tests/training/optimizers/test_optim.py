"""The papers' learning-rate rule and the schedules, against hand-computed values."""

import math

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


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        ("linear", [1.0, 0.75, 0.5, 0.25]),
        ("cosine", [1.0, (1 + math.cos(math.pi / 4)) / 2, 0.5, (1 - math.cos(math.pi / 4)) / 2]),
        ("constant", [1.0] * 4),
    ],
)
def test_decay_without_warmup(decay, expected):
    config = OptimConfig(lr=1.0, decay=decay)
    assert [config.learning_rate(step, 4, 128) for step in range(4)] == pytest.approx(expected)


def test_warmup_rises_to_the_peak_then_decays():
    config = OptimConfig(lr=1.0, warmup=0.4)
    rates = [config.learning_rate(step, 10, 128) for step in range(10)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[4:] == pytest.approx([1 - k / 6 for k in range(6)])


def test_puri_schedule_ends_at_27_percent_of_the_peak():
    config = OptimConfig(decay_steps=100_000)
    assert config.learning_rate(73_000, 73_000, 2048) == pytest.approx(8.1e-4)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_any_number_of_steps_is_legal(steps):
    config = OptimConfig(lr=1.0, warmup=0.5)
    assert all(0 < config.learning_rate(step, steps, 128) <= 1 for step in range(steps))


def test_the_rate_holds_between_warmup_and_decay():
    config = OptimConfig(lr=1.0, warmup=0.2, hold=0.4)
    rates = [config.learning_rate(step, 10, 128) for step in range(10)]
    assert rates == pytest.approx([1 / 3, 2 / 3, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])


@pytest.mark.parametrize("decay", ["constant", "linear"])
def test_a_cooldown_falls_from_where_the_schedule_is_to_zero(decay):
    plan = OptimConfig(lr=1.0, decay=decay)
    config = OptimConfig(lr=1.0, decay=decay, cooldown_steps=4, cooldown_from=3)
    assert config.last_step(10) == 7
    rates = [config.learning_rate(step, 10, 128) for step in range(8)]
    before = [plan.learning_rate(step, 10, 128) for step in range(4)]
    fall = [before[3] * part for part in (0.75, 0.5, 0.25, 0)]
    assert rates == pytest.approx([*before, *fall])


def test_a_cooldown_from_nowhere_takes_the_last_steps():
    config = OptimConfig(lr=1.0, decay="constant", cooldown_steps=2)
    assert config.last_step(5) == 5
    assert [config.learning_rate(step, 5, 1) for step in range(5)] == [1, 1, 1, 1, 0.5]


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
