"""NVIDIA's apex, with stand-ins: how it is called, and how it is recognised."""

import sys
from types import MappingProxyType

import pytest
import torch

from mlstm_sentiment.errors import InputError
from model.inference.tensors import save_tensors
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from training.optimizers import nvidia_apex
from training.optimizers.optim import OptimConfig, make_optimizers
from training.runs.checkpoint_store import flatten_optimizers, restore_optimizers


class Fused(torch.optim.Optimizer):
    """Settings and state as in NVIDIA/apex's fused_adam.py and fused_lamb.py; a simpler update."""

    def __init__(self, params, **settings):
        assert settings.keys() <= self.SETTINGS.keys()
        super().__init__(params, self.SETTINGS | settings)

    def step(self):
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            correction = 1 - group["betas"][0] ** group["step"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state |= {name: torch.zeros_like(p.data) for name in ("exp_avg", "exp_avg_sq")}
                state["exp_avg"].lerp_(p.grad, 1 - group["betas"][0])
                p.data.sub_(state["exp_avg"] / correction, alpha=group["lr"])


class FusedAdam(Fused):
    SETTINGS = MappingProxyType({
        "lr": 1e-3, "bias_correction": True, "betas": (0.9, 0.999), "eps": 1e-8,
        "adam_w_mode": True, "weight_decay": 0.0, "amsgrad": False, "set_grad_none": True,
        "capturable": False, "master_weights": False,
    })  # fmt: skip


class FusedLAMB(Fused):
    SETTINGS = MappingProxyType({
        "lr": 1e-3, "bias_correction": True, "betas": (0.9, 0.999), "eps": 1e-6,
        "weight_decay": 0.01, "amsgrad": False, "adam_w_mode": True, "grad_averaging": True,
        "set_grad_none": True, "max_grad_norm": 1.0, "use_nvlamb": False,
    })  # fmt: skip


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that puts a package `apex` with given files on the path."""
    forgotten = [name for name in sys.modules if name.split(".")[0] == "apex"]
    for name in forgotten:
        monkeypatch.delitem(sys.modules, name)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / "apex" / f"{name.replace('__init__', '')}" / "__init__.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.syspath_prepend(tmp_path)

    yield write
    for name in [name for name in sys.modules if name.split(".")[0] == "apex"]:
        monkeypatch.delitem(sys.modules, name)


def nvidia(available=True, optimizers=f"from {__name__} import FusedAdam, FusedLAMB"):
    applier = f"class multi_tensor_applier:\n    available = {available}\n"
    return {"__init__": "", "multi_tensor_apply": applier, "optimizers": optimizers}


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(nvidia_apex, "DEVICE", "cpu")  # where the stand-ins run
    return build_model(ModelConfig(hidden_size=8), seed=1)


@pytest.mark.parametrize("name", ["adam", "adamw", "lamb"])
def test_apex_updates_if_it_is_asked_for(install, model, name):
    install(**nvidia())
    config = OptimConfig(name=name, fused="apex", weight_decay=0.3)
    (optimizer,) = make_optimizers(model, config)
    (group,) = optimizer.param_groups
    assert group["betas"] == (0.9, 0.999)
    assert group["weight_decay"] == 0.3
    assert len(group["params"]) == len(list(model.parameters()))
    if name == "lamb":  # what training/optimizers/optim.py has
        assert type(optimizer).__name__ == "FusedLAMB"
        assert (group["bias_correction"], group["eps"]) == (False, 1e-6)
        assert group["max_grad_norm"] == float("inf")
        assert group["use_nvlamb"]
        assert group["adam_w_mode"]
    else:  # as torch's: bias corrected, epsilon of 1e-8; only adamw decays apart from the gradient
        assert type(optimizer).__name__ == "FusedAdam"
        assert (group["bias_correction"], group["eps"]) == (True, 1e-8)
        assert group["adam_w_mode"] == (name == "adamw")


@pytest.mark.parametrize("fused", ["auto", "torch"])
def test_apex_is_not_imported_unless_asked_for(install, model, fused):
    install(**nvidia())
    (optimizer,) = make_optimizers(model, OptimConfig(fused=fused))
    assert type(optimizer) is torch.optim.Adam
    assert "apex" not in sys.modules


def test_its_count_of_steps_is_saved(install, model, tmp_path):
    install(**nvidia())
    config = OptimConfig(fused="apex")
    first, again = make_optimizers(model, config), make_optimizers(model, config)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    for _ in range(3):
        first[0].step()
    save_tensors(tmp_path / "optimizer.safetensors", flatten_optimizers(first))
    restore_optimizers(again, tmp_path / "optimizer.safetensors")
    assert again[0].param_groups[0]["step"] == 3
    for mine, theirs in zip(first[0].state.values(), again[0].state.values(), strict=True):
        assert torch.equal(mine["exp_avg"], theirs["exp_avg"])


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"__init__": "from pyramid.session import that_is_not_here"}, "No module named 'pyramid'"),
        ({"__init__": ""}, "No module named 'apex.multi_tensor_apply'"),
        (nvidia(optimizers="raise ImportError('undefined\\nsymbol')"), "(undefined symbol)"),
        ({}, "No module named 'apex"),
        (nvidia(available=False), "without its kernels"),
    ],
)
def test_why_apex_cannot_be_used_is_said_in_one_line(install, files, said):
    install(**files)
    with pytest.raises(InputError) as error:
        nvidia_apex._load_optimizers_of_apex()
    words = (
        ["without"] if "kernels" in said else ["PyPI", "pip uninstall apex", "optim.fused torch"]
    )
    assert "\n" not in str(error.value)
    for word in (said, *words, "github.com/NVIDIA/apex"):
        assert word in str(error.value)


def test_apex_needs_a_gpu(install):
    install(**nvidia())
    model = build_model(ModelConfig(hidden_size=8), seed=1)
    with pytest.raises(InputError, match="needs a GPU, the model is on cpu"):
        make_optimizers(model, OptimConfig(fused="apex"))


@pytest.mark.parametrize("name", ["sgd", "muon"])
def test_what_apex_does_not_have_is_refused(name):
    with pytest.raises(InputError, match=f"adam, adamw and lamb, not {name}"):
        OptimConfig(name=name, fused="apex")
