"""The optimisers and their settings, the learning rate of every step, LAMB's formula."""

import sys

import numpy as np
import pytest
import torch

from mlstm_sentiment.errors import InputError
from tests.training.test_float64 import Optimizer
from training.optimizers.optim import (
    BETAS,
    MOST_STEPS,
    OptimConfig,
    Schedule,
    make_lamb,
    make_optimizers,
    set_learning_rate,
)
from training.runs.checkpoint_store import flatten_optimizers


@pytest.mark.parametrize(
    ("lanes", "peak"), [(64, 2.5e-4), (128, 5e-4), (768, 3e-3), (1024, 3e-3), (32_768, 3e-3)]
)
def test_peak_follows_the_published_rule(lanes, peak):
    assert OptimConfig().peak(lanes) == pytest.approx(peak)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "muon", "lamb"])
def test_the_state_before_the_first_step_is_zeros_and_asking_for_it_changes_nothing(
    name, small_model
):
    optimizers = make_optimizers(small_model, OptimConfig(name=name, weight_decay=0.5))
    set_learning_rate(optimizers, 0.25)
    weights = [parameter.detach().clone() for parameter in small_model.parameters()]
    for parameter in small_model.parameters():
        parameter.grad = torch.ones_like(parameter)
    tensors = flatten_optimizers(optimizers)
    assert tensors
    assert not any(tensor.any() for tensor in tensors.values())
    for parameter, before in zip(small_model.parameters(), weights, strict=True):
        assert torch.equal(parameter, before)
        assert parameter.grad.all()
    assert {group["lr"] for each in optimizers for group in each.param_groups} == {0.25}


def test_the_tensors_of_a_second_optimizer_are_numbered_on_from_the_first_ones(small_model):
    optimizers = make_optimizers(small_model, OptimConfig(name="muon"))
    matrices, others = (
        sum(len(group["params"]) for group in each.param_groups) for each in optimizers
    )
    numbers = {"momentum_buffer": [], "exp_avg": []}
    for name in flatten_optimizers(optimizers):
        number, kind = name.split(".")
        numbers.setdefault(kind, []).append(int(number))
    assert sorted(numbers["momentum_buffer"]) == list(range(matrices))
    assert sorted(numbers["exp_avg"]) == list(range(matrices, matrices + others))


WRONG = [
    *({"lr": 0.0}, {"warmup": 1.0}, {"weight_decay": -1.0}, {"cooldown": 0}),
    {"warmup": 0.5, "hold": 0.6},
    {"cooldown_from": -1, "cooldown": 0.1},
    {"fused": "apex", "name": "muon"},
    {"weight_decay": 334.0, "name": "adamw"},  # of the highest rate that lanes give, 3e-3
    {"weight_decay": 1e38, "name": "muon", "lr": 1e-2},
    {"weight_decay": 3.0, "name": "sgd", "lr": 0.5},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_impossible_values_are_refused(wrong):
    with pytest.raises(InputError, match=rf"^optim\.{next(iter(wrong))}"):
        OptimConfig(**wrong)


def planned(steps, **shape):
    return OptimConfig(lr=1.0, **shape).schedule(steps, lanes=1)


def rates_of(steps, **shape):
    schedule = planned(steps, **shape)
    return [schedule.rate(step) for step in range((schedule.cooldown or range(steps)).stop)]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({"decay": "linear"}, [1 - k / 10 for k in range(10)]),
        ({"decay": "constant"}, [1.0] * 10),
        ({"warmup": 0.4}, [0.2, 0.4, 0.6, 0.8, *(1 - k / 6 for k in range(6))]),
        ({"warmup": 0.2, "hold": 0.4}, [1 / 3, 2 / 3, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25]),
        ({"decay": "constant", "cooldown": 0.2}, [1.0] * 9 + [0.5]),
    ],
)
def test_rates_are_the_ones_computed_by_hand(shape, expected):
    assert rates_of(10, **shape) == pytest.approx(expected)


@pytest.mark.parametrize("decay", ["constant", "linear"])
def test_a_cooldown_falls_from_where_the_schedule_is_to_zero(decay):
    plan = rates_of(10, decay=decay)
    schedule = planned(10, decay=decay, cooldown=0.4, cooldown_from=3)
    assert schedule.cooldown == range(3, 7)
    fall = [plan[3] * part for part in (0.75, 0.5, 0.25, 0)]
    assert [schedule.rate(step) for step in range(8)] == pytest.approx([*plan[:4], *fall])


def test_no_step_of_a_run_has_a_rate_of_zero():
    schedule = Schedule(peak=1e-3, steps=MOST_STEPS)
    assert 0 < schedule.rate(MOST_STEPS - 1) < 1e-11
    assert schedule.rate(MOST_STEPS) == 0
    with pytest.raises(InputError, match=r"^optim\.lr is .*: so low that the last step"):
        Schedule(peak=5e-324, steps=10**6)
    with pytest.raises(InputError, match=r"begin at step 10, where .* is already zero"):
        planned(10, cooldown=0.4, cooldown_from=10)


# Shapes, and scales of the weights: norms of 14, of 600 (which the package's own setting clamps at
# 10), and of zero.
TENSORS = {"a": ((30, 7), 1.0), "b": ((400,), 30.0), "c": ((3,), 0.0)}


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_lamb_is_the_papers_formula(dtype, weight_decay):
    """You et al. 2020, algorithm 2, without the correction of bias, phi(z) = z."""
    draw = np.random.default_rng(99).standard_normal
    expected = {name: scale * draw(shape) for name, (shape, scale) in TENSORS.items()}
    parameters = [torch.nn.Parameter(torch.tensor(w, dtype=dtype)) for w in expected.values()]
    lamb = make_lamb(parameters, betas=BETAS, weight_decay=weight_decay)
    by_hand = Optimizer("lamb", weight_decay)
    set_learning_rate([lamb], 0.02)
    for _ in range(5):
        gradients = {
            name: draw(shape) * 10.0 ** (place - 1)
            for place, (name, (shape, _)) in enumerate(TENSORS.items())
        }
        for parameter, gradient in zip(parameters, gradients.values(), strict=True):
            parameter.grad = torch.tensor(gradient, dtype=dtype)
        lamb.step()
        by_hand.step(expected, gradients, 0.02)
    # The package adds its epsilon of 1e-6 to |r| as well, which is 1.7 and more.
    tolerance = 5 * 0.02 * 1e-6 if dtype == torch.float64 else 10 * torch.finfo(dtype).eps
    for parameter, weight in zip(parameters, expected.values(), strict=True):
        difference = np.linalg.norm(parameter.detach().double().numpy() - weight)
        assert difference <= tolerance * np.linalg.norm(weight)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_optimizer", None)
    with pytest.raises(InputError, match="pip install pytorch-optimizer"):
        make_lamb([], betas=BETAS, weight_decay=0.0)
