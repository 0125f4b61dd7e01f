"""Which device a process gets."""

import pytest
import torch

from model.errors import InputError
from training.distributed import choose_device


@pytest.mark.parametrize("device", ["auto", "cuda"])
@pytest.mark.parametrize("local_rank", [0, 7])
def test_more_processes_than_gpus_are_refused_on_each(monkeypatch, device, local_rank):
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    with pytest.raises(InputError, match=r"8 processes on this machine, 4 GPUs; .*node 4$"):
        choose_device(device, local_rank)
    assert not chosen
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert choose_device(device, 3) == torch.device("cuda", 3)
    assert choose_device("cpu", local_rank) == torch.device("cpu")
