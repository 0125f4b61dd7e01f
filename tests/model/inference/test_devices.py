"""The device of a model, and the reason if the one asked for is missing."""

import pytest
import torch

from mlstm_sentiment.errors import InputError
from model.inference.devices import choose_device

MAC = {"built_for_mps": True, "mps": True}


@pytest.fixture
def machine(monkeypatch):
    """Return a function that sets what torch is built for and what is there; its kernels fit."""

    def show(gpus=0, built_for_gpus=True, built_for_mps=False, mps=False):
        monkeypatch.setattr(torch.version, "cuda", "13.0" if built_for_gpus else None)
        monkeypatch.setattr(torch.version, "hip", None)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: [])
        monkeypatch.setattr(torch.backends.mps, "is_built", lambda: built_for_mps)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return show


@pytest.mark.parametrize(
    ("there", "chosen"),
    [({"gpus": 2}, "cuda"), (MAC, "mps"), ({"gpus": 1, **MAC}, "cuda"), ({}, "cpu")],
)
def test_auto_and_none_choose_a_gpu_if_there_is_one(machine, there, chosen):
    machine(**there)
    for name in ("auto", None):
        assert choose_device(name).type == chosen


PYPI = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120"


@pytest.mark.parametrize(
    ("kernels", "capability", "runs"),
    [
        (PYPI, (6, 0), False),
        (PYPI, (7, 0), False),
        (PYPI, (7, 5), True),
        (PYPI, (8, 9), True),  # by sm_86
        (PYPI, (11, 0), False),
        (PYPI, (13, 0), True),  # by PTX
        ("sm_90a", (9, 0), True),
        ("sm_50 sm_60 sm_70", (7, 0), True),
        ("sm_50 sm_60 sm_70", (6, 1), True),
        ("gfx90a", (9, 0), True),  # of AMD
        ("", (7, 0), True),  # torch does not say
    ],
)
def test_a_gpu_for_which_torch_has_no_kernels_is_not_used(
    machine, monkeypatch, caplog, kernels, capability, runs
):
    machine(gpus=2)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: kernels.split())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Tesla V100")
    assert choose_device("auto").type == ("cuda" if runs else "cpu")
    assert bool(caplog.messages) is not runs
    if not runs:
        with pytest.raises(InputError, match="has no kernels for GPU 1, Tesla V100"):
            choose_device("cuda:1")


@pytest.mark.parametrize(
    ("name", "there", "why"),
    [
        ("cuda", {"built_for_gpus": False}, "its CPU build; install .* GPU; use auto or cpu"),
        ("cuda", {}, "driver.*CUDA_VISIBLE_DEVICES"),
        ("cuda:2", {"gpus": 2}, "cuda:2: there are 2 GPUs, numbered from 0"),
        ("mps", {}, "only on a Mac"),
        ("mps", {"built_for_mps": True}, "needs macOS"),
        ("gpu", {}, "'gpu' is unknown; known: auto, cpu, cuda, cuda:N"),
        (1.5, {}, r"1\.5 is unknown; known: auto, cpu"),
        (torch.device("cuda", 2), {"gpus": 2}, "cuda:2: there are 2 GPUs"),
        ("meta", {}, "is not supported; known: "),
    ],
)
def test_what_is_not_there_is_refused_with_the_reason(machine, name, there, why):
    machine(**there)
    with pytest.raises(InputError, match=why):
        choose_device(name)
