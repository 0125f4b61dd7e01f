"""All ways to add up the ranks' gradients agree; what is sent, what is lost."""

import json

import pytest
import torch

from model.errors import InputError
from model.language_model import ModelConfig, build_model
from tests.exchanging_ranks import WAYS
from tests.runs import run
from training.parallel import flat as flat_exchange
from training.parallel.distributed import World
from training.parallel.exchange import ParallelConfig, make_exchange
from training.precision import make_loss_scaler

CPU = torch.device("cpu")
# The dtype's eps, by norm: what travels is rounded to it, or each rank's own gradient is, where
# the products are in it.
LOSSY = {"fp16": 2**-10, "fp16, flat": 2**-10, "bf16": 2**-7, "products in bf16": 2**-7}
FIRST_GUESSES = ("powersgd", "powersgd, small buckets")  # of rank 1: far from the gradient


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def exchanged(request):
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", request.param]
    process = run(*command, "-m", "tests.exchanging_ranks")
    assert process.returncode == 0, process.stderr
    return request.param, json.loads(process.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_every_rank_has_the_gradient_of_one_process(exchanged, way):
    result = exchanged[1][way]
    assert result["same"]
    if way not in FIRST_GUESSES:
        assert result["difference"] <= LOSSY.get(way, 1e-6)
    if way in LOSSY:
        assert result["difference"] > 1e-5  # something was rounded to 16 bits


def test_what_is_sent(exchanged):
    ranks, results = exchanged
    for way, width in (("one bucket", 4), ("small buckets", 4), ("flat", 4), ("fp16", 2)):
        result = results[way]
        assert result["sent_bytes"] == 2 * (ranks - 1) / ranks * width * result["parameters"]
        assert 0 < result["exposed"] < 60
    # Two exchanges in full, and in the third two factors of rank 1 for each matrix.
    plain = results["one bucket"]["sent_bytes"]
    assert 2 * plain < results["powersgd"]["sent_bytes"] < 2.1 * plain


def test_small_gradients_survive_fp16_over_128_ranks(monkeypatch):
    """The hook of torch divides in fp16 before it sums, and 1e-5 / 128 is below its least number.

    Ranks that all have the same gradient: their sum is 128 times one of them.
    """
    world = World(0, 128, CPU)
    monkeypatch.setattr(flat_exchange.dist, "broadcast", lambda *a, **k: None)
    monkeypatch.setattr(flat_exchange.dist, "all_reduce", lambda tensor, **k: tensor.mul_(128))
    model = build_model(ModelConfig(hidden_size=16), seed=0)
    config = ParallelConfig(compression="fp16", flat=True)
    exchanging = make_exchange(model, config, world)
    scaler = make_loss_scaler("fp32", world, config)
    wanted = {}
    for name, parameter in model.named_parameters():
        wanted[name] = 1e-5 * torch.randn_like(parameter)
    with exchanging.during_backward():
        for name, parameter in model.named_parameters():
            parameter.grad = scaler.scale(wanted[name].clone())
    for name, parameter in model.named_parameters():
        found = parameter.grad / scaler.get_scale()
        assert (found - wanted[name]).norm() <= 2**-10 * wanted[name].norm()
    flat = torch.cat([gradient.flatten() for gradient in wanted.values()])
    torchs = flat.to(torch.float16).div_(128).mul_(128).float()
    assert (torchs - flat).norm() > 0.1 * flat.norm()


def test_a_single_process_sends_nothing():
    model = build_model(ModelConfig(hidden_size=8), seed=0)
    config = ParallelConfig(compression="fp16")
    alone = make_exchange(model, config, World(0, 1, CPU))
    with alone.during_backward():
        pass
    assert alone.sent_bytes == 0
    assert alone.clock.lap() == 0
    assert not make_loss_scaler("fp32", World(0, 1, CPU), config).is_enabled()


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"windows_per_step": 0}, "windows_per_step"),
        ({"lane_groups": -1}, "lane_groups"),
        ({"bucket_cap_mb": 0.0}, "bucket_cap_mb"),
        ({"powersgd_start": 1}, "powersgd_start"),
        ({"flat": True, "compression": "powersgd"}, "powersgd"),
        ({"shares": (0.0, 0.0)}, "shares"),
        ({"shares": (1.0, -1.0)}, "shares"),
        ({"shares": ()}, "shares"),
    ],
)
def test_refused(keys, word):
    with pytest.raises(InputError, match=word):
        ParallelConfig(**keys)


def test_powersgd_does_not_go_with_a_scaled_loss():
    config = ParallelConfig(compression="powersgd")
    with pytest.raises(InputError, match="powersgd"):
        make_loss_scaler("fp16", World(0, 2, CPU), config)
