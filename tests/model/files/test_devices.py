"""The device of a model, and the reason if the one asked for is missing."""

import pytest
import torch

from model.errors import InputError
from model.files.devices import choose_device


def machine(monkeypatch, *, cuda=0, build="13.0", mps=False):
    """Make torch tell of a machine with so many GPUs, or of Apple's."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.version, "cuda", build)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: mps)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        ({"cuda": 2}, "cuda"),
        ({"mps": True}, "mps"),
        ({"cuda": 1, "mps": True}, "cuda"),
        ({}, "cpu"),
    ],
)
def test_auto_chooses_a_gpu_if_there_is_one(monkeypatch, there, chosen):
    machine(monkeypatch, **there)
    assert choose_device("auto").type == chosen


def test_a_gpu_has_a_number(monkeypatch):
    machine(monkeypatch, cuda=2)
    assert choose_device("cuda:1") == torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("name", "there", "why"),
    [
        ("cuda", {"build": None}, "its CPU build; install the one for your GPU; use auto or cpu"),
        ("cuda", {}, "driver.*CUDA_VISIBLE_DEVICES"),
        ("cuda:2", {"cuda": 2}, "cuda:2: there are 2 GPUs, numbered from 0"),
        ("mps", {}, "only on a Mac"),
        ("gpu", {}, "'gpu' is unknown; known: auto, cpu, cuda, cuda:N"),
        ("meta", {}, "nothing here runs on one"),
    ],
)
def test_what_is_not_there_is_refused_with_the_reason(monkeypatch, name, there, why):
    machine(monkeypatch, **there)
    with pytest.raises(InputError, match=why):
        choose_device(name)
