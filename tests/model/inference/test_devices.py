"""The device of a model, and the reason if the one asked for is missing."""

import pytest
import torch

from mlstm_sentiment.errors import InputError
from model.inference.devices import Machine, choose_device

BARE = Machine(built_for_gpus=True, gpus=0, built_for_mps=False, mps=False)
MAC = {"built_for_mps": True, "mps": True}


@pytest.mark.parametrize(
    ("there", "chosen"),
    [({"gpus": 2}, "cuda"), (MAC, "mps"), ({"gpus": 1, **MAC}, "cuda"), ({}, "cpu")],
)
def test_auto_and_none_choose_a_gpu_if_there_is_one(there, chosen):
    machine = BARE._replace(**there, missing_kernels=lambda index: "")
    for name in ("auto", None):
        assert choose_device(name, machine).type == chosen


@pytest.fixture
def build(monkeypatch):
    """Return a function that shows torch's build, and a GPU of some compute capability."""

    def show(kernels, capability, cuda="13.0"):
        monkeypatch.setattr(torch.version, "cuda", cuda)
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: kernels.split())
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Tesla V100")
        return BARE._replace(gpus=2)

    return show


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
def test_a_gpu_for_which_torch_has_no_kernels_is_not_used(build, caplog, kernels, capability, runs):
    machine = build(kernels, capability)
    assert choose_device("auto", machine).type == ("cuda" if runs else "cpu")
    assert bool(caplog.messages) is not runs
    if not runs:
        with pytest.raises(InputError, match="has no kernels for GPU 1, Tesla V100"):
            choose_device("cuda:1", machine)


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
def test_what_is_not_there_is_refused_with_the_reason(name, there, why):
    with pytest.raises(InputError, match=why):
        choose_device(name, BARE._replace(**there))
