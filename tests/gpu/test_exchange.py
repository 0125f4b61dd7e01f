"""On one GPU, and on the CPU as far as it can show the same: NCCL with DDP, fp16 end to end."""

import json
import math

import pytest
import torch

from tests.support.runs import done, run_anew
from tests.support.trainers import make_trainer, make_window
from training.parallel.batch import as_batch
from training.parallel.distributed import World

SCALE = 22  # a power of two, so that the first steps of fp16 overflow
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_an_exchange_with_nobody_changes_nothing_and_the_process_ends(device):
    """NCCL's kernels, DDP's hook and the captures of windows, side by side in one process."""
    process = done(run_anew("-m", "tests.gpu.exchanging_alone", device, timeout=240))
    results = json.loads(process.stdout.splitlines()[-1])
    for precision, tolerance in (("fp32", 1e-5), ("bf16", 1e-3), ("fp16", 1e-3)):
        alone = results[f"{precision} alone"]["nats"]
        for way in ("fp32", "fp16"):
            assert results[f"{precision} {way}"]["nats"] == pytest.approx(alone, rel=tolerance)
            assert results[f"{precision} {way}"]["exposed"] > 0
        assert alone < math.log(256)  # it learns


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "muon", "lamb"])
def test_fp16_recovers_from_overflows_and_learns(device, name):
    """The first steps overflow: they change nothing, and the scale falls until one does not."""
    world = World(0, 1, torch.device(device))
    rate = {"sgd": 0.1, "lamb": 2e-2}.get(name, 1e-2)
    settings = {"lr": rate, "decay": "constant", "clip_norm": 1.0}
    trainer = make_trainer("fp16", name=name, world=world, loss_scale=2.0**SCALE, **settings)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    batch, losses, overflows = as_batch(make_window(), world.device), [], 0
    for step in range(30):
        trainer.train(batch)
        row = trainer.close_row()
        overflows += row["overflows"]
        losses.append(row["train_bits_per_character"])
        unchanged = all(map(torch.equal, before, trainer.model.parameters()))
        assert unchanged is (overflows == step + 1)
    assert 0 < overflows < 16
    assert row["loss_scale"] == 2.0 ** (SCALE - overflows)
    assert math.isfinite(row["gradient_norm"])
    assert losses[-1] < losses[0] - 0.1
    trainer.check_divergence()
