"""The device of a model, and the reason if the one asked for is missing."""

import pytest
import torch

from model.errors import InputError
from model.files.devices import Machine, choose_device

BARE = Machine(built_for_gpus=True, gpus=0, built_for_mps=False, mps=False)
MAC = {"built_for_mps": True, "mps": True}


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        ({"gpus": 2}, "cuda"),
        (MAC, "mps"),
        ({"gpus": 1, **MAC}, "cuda"),
        ({}, "cpu"),
    ],
)
def test_auto_and_none_choose_a_gpu_if_there_is_one(there, chosen):
    for name in ("auto", None):
        assert choose_device(name, BARE._replace(**there)).type == chosen


def test_a_gpu_has_a_number():
    for name in ("cuda:1", torch.device("cuda", 1)):
        assert choose_device(name, BARE._replace(gpus=2)) == torch.device("cuda", 1)


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
        ("meta", {}, "nothing here runs on one"),
    ],
)
def test_what_is_not_there_is_refused_with_the_reason(name, there, why):
    with pytest.raises(InputError, match=why):
        choose_device(name, BARE._replace(**there))
