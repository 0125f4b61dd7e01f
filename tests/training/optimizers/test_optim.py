"""The papers' learning-rate rule, and every optimiser taking a step."""

import math

import pytest
import torch
from pytorch_optimizer import Lamb

from model.errors import InputError
from tests.support.trainers import CPU, make_trainer, make_window
from training.optimizers.lamb import make_lamb
from training.optimizers.muon import Muon
from training.optimizers.optim import (
    BETAS,
    MUON_MOMENTUM,
    OptimConfig,
    Schedule,
    make_optimizers,
    make_sgd,
    set_learning_rate,
)
from training.optimizers.overflow import SkipsOverflows
from training.parallel.batch import as_batch
from training.runs.checkpoint_store import GROUP_STEP, flatten_optimizers


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


def test_a_cooldown_falls_from_the_papers_rate():
    config = OptimConfig(decay="constant", cooldown_steps=2)
    assert config.schedule(5, 256).rate(4) == pytest.approx(1e-3 / 2)


def test_the_schedule_has_every_field_of_the_config():
    fields = {
        "decay": "constant", "decay_steps": 90, "warmup": 0.125, "hold": 0.25,
        "cooldown_steps": 10,
    }  # fmt: skip
    made = OptimConfig(lr=0.5, **fields, cooldown_from=20).schedule(80, lanes=4)
    assert made == Schedule(peak=0.5, steps=80, **fields, cooldown_begin=20)


@pytest.mark.parametrize("begin", [None, 4])
def test_without_its_cooldown_a_config_is_the_one_that_had_none(begin):
    cooled = OptimConfig(lr=0.5, warmup=0.25, cooldown_steps=3, cooldown_from=begin)
    assert cooled.without_cooldown() == OptimConfig(lr=0.5, warmup=0.25)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_muon_multiplies_in_the_dtype_that_is_asked_for(small_model, dtype):
    muon, _ = make_optimizers(small_model, OptimConfig(name="muon"), lambda: dtype)
    assert muon.dtype == dtype


SET = {"weight_decay": 0.125}
ADAM = {"betas": (0.9, 0.999), "weight_decay": 0.125, "lr": 0.0, "fused": True}
MUON = {"momentum": 0.95, "weight_decay": 0.125, "lr": 0.0}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("adam", {torch.optim.Adam: ADAM}),
        ("adamw", {torch.optim.AdamW: ADAM}),
        ("sgd", {torch.optim.SGD: {"momentum": 0.9, "weight_decay": 0.125, "lr": 0.0}}),
        ("muon", {Muon: MUON, torch.optim.AdamW: ADAM}),
        ("lamb", {Lamb: {"betas": (0.9, 0.999), "weight_decay": 0.125, "lr": 0.0}}),
    ],
)
def test_every_setting_reaches_its_optimizer(name, expected, small_model):
    optimizers = make_optimizers(small_model, OptimConfig(name=name, **SET))
    for optimizer, (kind, settings) in zip(optimizers, expected.items(), strict=True):
        assert isinstance(optimizer, kind)
        (group,) = optimizer.param_groups
        assert {name: group.get(name) for name in settings} == settings


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "muon", "lamb"])
def test_every_optimizer_takes_a_step_downhill(name, small_model):
    before = {key: value.clone() for key, value in small_model.state_dict().items()}
    optimizers = make_optimizers(small_model, OptimConfig(name=name))
    sum(parameter.square().sum() for parameter in small_model.parameters()).backward()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = 1e-3
        optimizer.step()
    for key, value in small_model.state_dict().items():
        assert value.square().sum() < before[key].square().sum() or not before[key].any(), key


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


def test_muon_takes_the_matrices_of_the_layers_and_adamw_the_rest(small_model):
    muon, adam = make_optimizers(small_model, OptimConfig(name="muon"))
    names = {parameter: name for name, parameter in small_model.named_parameters()}
    taken = {names[p] for p in muon.param_groups[0]["params"]}
    assert taken == {f"layers.0.w_{part}" for part in ("x", "h", "mx", "mh")}
    others = [names[p] for p in adam.param_groups[0]["params"]]
    assert others == [name for name in names.values() if name not in taken]


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": 0.0},
        {"lr": -1.0},
        {"warmup": 1.0},
        {"clip_norm": 0.0},
        {"weight_decay": -1.0},
        {"hold": -0.1},
        {"warmup": 0.5, "hold": 0.6},
        {"cooldown_steps": 0},
        {"cooldown_from": -1, "cooldown_steps": 1},
        {"lr": math.inf},
        {"fused": "apex", "name": "muon"},
        {"weight_decay": 334.0, "name": "adamw"},  # of the highest rate that lanes give, 3e-3
        {"weight_decay": 1e38, "name": "muon", "lr": 1e-2},
        {"weight_decay": 3.0, "name": "sgd", "lr": 0.5},
    ],
)
def test_impossible_values_are_refused(wrong):
    with pytest.raises(InputError, match=rf"^optim\.{next(iter(wrong))}"):
        OptimConfig(**wrong)


@pytest.mark.parametrize(
    "right",
    [
        {"warmup": 0.5, "hold": 0.5},
        {"weight_decay": 2.0, "name": "sgd", "lr": 0.5},
        {"weight_decay": 3.0, "name": "lamb", "lr": 0.5},  # it divides by the norm of the step
        {"cooldown_steps": 1, "cooldown_from": 0},
        {"weight_decay": 0.0},
        *({"fused": "apex", "name": name} for name in ("adam", "adamw", "lamb")),
    ],
)
def test_the_ends_of_the_ranges_are_accepted(right):
    OptimConfig(**right)


def test_momenta_are_the_published_ones_unless_told():
    """Kingma and Ba's for Adam (arXiv:1412.6980), Jordan's for Muon; one rate fits both."""
    assert (BETAS, MUON_MOMENTUM, OptimConfig().weight_decay) == ((0.9, 0.999), 0.95, 0.0)


def test_a_fused_sgd_is_the_same_and_survives_a_first_step_that_overflows():
    """On a GPU it learns of the overflow there; torch's own would leave its momentum undefined."""
    found = []
    for fused in (False, True):
        weight = torch.nn.Parameter(torch.ones(5))
        sgd = make_sgd([weight], 0.1, fused=fused)
        sgd.param_groups[0]["lr"] = 0.5
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        for factor in (float("inf"), 1.0, 2.0):
            weight.grad = scaler.scale(torch.arange(5.0)) * factor
            scaler.unscale_(sgd)
            scaler.step(sgd)
            scaler.update()
        found.append((weight.detach(), sgd.state[weight]["momentum_buffer"]))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("name", ["muon", "lamb"])
@pytest.mark.parametrize("overflows", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_a_step_that_overflowed_is_undone_on_the_device(name, overflows, first, monkeypatch):
    """Without a copy to the host: as `found_inf` on a GPU."""
    matrices = [torch.nn.Parameter(torch.randn(8, 4, generator=torch.Generator().manual_seed(1)))
                for _ in range(2)]  # fmt: skip
    optimizers = [_one_optimizer(name, matrix) for matrix in matrices]
    for matrix, optimizer in zip(matrices, optimizers, strict=True):
        if not first:
            matrix.grad = torch.randn(8, 4, generator=torch.Generator().manual_seed(7))
            optimizer.step()
        matrix.grad = torch.full((8, 4), math.nan if overflows else 1.0)
    asked, told = optimizers
    if not overflows:
        asked.step()
    monkeypatch.setattr(SkipsOverflows, "overflowed", lambda optimizer: torch.tensor(overflows))
    told.step()
    monkeypatch.undo()
    assert torch.equal(*matrices)
    expected = flatten_optimizers([asked])
    for key, tensor in flatten_optimizers([told]).items():
        assert torch.equal(tensor, expected[key]) or (key.endswith(GROUP_STEP) and overflows), key


def _one_optimizer(name, matrix):
    if name == "muon":
        return Muon([matrix], dtype=torch.float32, lr=0.1, momentum=0.9, weight_decay=0.1)
    lamb = make_lamb([matrix], betas=BETAS, weight_decay=0.1)
    set_learning_rate([lamb], 0.1)
    return lamb


@pytest.mark.parametrize("name", ["adam", "adamw", "muon", "lamb"])
def test_a_scaled_step_asks_no_optimizer_whether_it_overflowed(name, monkeypatch):
    """That would wait for the GPU in every step."""

    def wait(*arguments):
        raise AssertionError("waits")

    trainer = make_trainer("fp16", name=name)
    monkeypatch.setattr(torch.amp.GradScaler, "_maybe_opt_step", wait)
    trainer.train(as_batch(make_window(), CPU))
