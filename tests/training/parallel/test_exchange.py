"""All ways to add up the ranks' gradients agree; what is sent, what is lost."""

import json
from types import SimpleNamespace

import pytest
import torch

from configs.options import RunOptions
from model.errors import InputError
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.ranks.exchanging import WAYS
from tests.support.peers import among_peers
from tests.support.runs import run_ranks
from training.parallel import buckets
from training.parallel.adasum import AdasumExchange
from training.parallel.buckets import BucketedExchange, BucketSender, broadcast_parameters
from training.parallel.distributed import World
from training.parallel.exchange import (
    MEGABYTE,
    MOST_MEGABYTES,
    MOST_SHARE,
    ParallelConfig,
    make_exchange,
)
from training.parallel.shares import apportion
from training.precision import make_loss_scaler

CPU = torch.device("cpu")
# The dtype's eps, by norm: what travels is rounded to it, or each rank's own gradient is, where
# the products are in it.
LOSSY = {"fp16": 2**-10, "fp16, flat": 2**-10, "bf16": 2**-7, "products in bf16": 2**-7}


@pytest.fixture(scope="module", params=[3, pytest.param(4, marks=pytest.mark.slow)])
def exchanged(request):
    main, *others = run_ranks(request.param, "-m", "tests.ranks.exchanging")
    assert not any(process.returncode for process in (main, *others)), (main, others)
    return request.param, json.loads(main.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_every_rank_has_the_gradient_of_one_process(exchanged, way):
    result = exchanged[1][way]
    assert result["same"]
    assert result["difference"] <= LOSSY.get(way, 1e-6)
    if way in LOSSY:
        assert result["difference"] > 1e-5  # something was rounded to 16 bits


@pytest.mark.parametrize("way", WAYS)
def test_the_first_exchange_adds_up_as_all_others_do(exchanged, way):
    """So that a resume is exact: three ranks' numbers have another sum in another order."""
    assert exchanged[1][way]["repeats"]


def test_what_is_sent(exchanged):
    ranks, results = exchanged
    for way, width in (("one bucket", 4), ("small buckets", 4), ("flat", 4), ("fp16", 2)):
        result = results[way]
        assert result["sent_bytes"] == 2 * (ranks - 1) / ranks * width * result["parameters"]
        assert 0 < result["exposed"] < 60


def add_equals(tensor, ranks):
    """Sum over ranks that all have the same."""
    tensor.mul_(ranks)


def sum_of(leaves):
    return sum(leaf.sum() for leaf in leaves.all)


def test_small_gradients_survive_fp16_over_128_ranks():
    """The hook of torch divides in fp16 before it sums, and 1e-5 / 128 is below its least number.

    Ranks that all have the same gradient: their sum is 128 times one of them.
    """
    world = World(0, 128, CPU)
    model = build_model(ModelConfig(hidden_size=16), seed=0)
    config = ParallelConfig(compression="fp16", flat=True)
    scaler = make_loss_scaler("fp32", world, config)
    wanted = {}
    for name, parameter in model.named_parameters():
        wanted[name] = 1e-5 * torch.randn_like(parameter)
    with (
        among_peers(0, 128, all_reduce=add_equals),
        make_exchange(model, config, world, sum_of).during_backward(),
    ):
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
    alone = make_exchange(model, config, World(0, 1, CPU), sum_of)
    with alone.during_backward():
        pass
    assert alone.sent_bytes == 0
    assert alone.clock.lap() == 0
    assert not make_loss_scaler("fp32", World(0, 1, CPU), config).is_enabled()


class RecordedDdp:
    """Stands for torch's DDP, which would ask the other ranks."""

    def __init__(self, module, **settings):
        self.leaves, self.settings = list(module.parameters()), settings

    def __call__(self):
        pass

    def zero_grad(self):
        pass

    def register_comm_hook(self, state, hook):
        self.hook = (state, hook)


@pytest.fixture
def choose(monkeypatch):
    """Return a function that makes the exchange of rank 1 of 4, without the others."""
    monkeypatch.setattr(buckets, "DistributedDataParallel", RecordedDdp)
    model = build_model(ModelConfig(hidden_size=8), seed=0)

    def make(**keys):
        return make_exchange(model, ParallelConfig(**keys), World(1, 4, CPU), sum_of)

    with among_peers(1, 4, all_reduce=add_equals):
        yield make


def test_gradients_of_all_ranks_travel_in_buckets_unless_told_otherwise(choose):
    exchange = choose(bucket_cap_mb=3.0)
    assert type(exchange) is BucketedExchange
    assert exchange.ddp.settings["bucket_cap_mb"] == 3.0
    assert exchange.ddp.hook == (exchange.sender, BucketSender.send)
    assert exchange.sender.ranks == 4
    assert exchange.sender.dtype == torch.float32
    leaves = exchange.model.per_gate_parameters().all
    assert [leaf.shape for leaf in exchange.ddp.leaves] == [leaf.shape for leaf in leaves]


def test_what_buckets_send_is_that_of_a_ring_and_the_mean_is_per_token(choose):
    exchange = choose()
    exchange.sender.payload = 100
    assert exchange.sent_bytes == 2 * 3 / 4 * 100
    windows = [SimpleNamespace(transitions=count) for count in (3, 5)]
    assert exchange.gradient_scale(windows) == 4 / 8


@pytest.mark.parametrize(("form", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_gradients_travel_in_the_dtype_that_is_asked_for(choose, form, dtype):
    assert choose(compression=form).sender.dtype == dtype
    assert choose(compression=form, flat=True).dtype == dtype
    assert choose(flat=True).dtype == torch.float32


def test_adasum_combines_single_ranks(choose):
    exchange = choose(combine="adasum")
    assert type(exchange) is AdasumExchange
    assert (exchange.states.count, exchange.states.index) == (4, 1)


def test_a_bucket_becomes_the_mean_over_the_ranks():
    def add_two_others(tensor, ranks):
        assert ranks == 3
        tensor.mul_(3).add_(3)  # who have 1 and 2 more

    with among_peers(0, 3, all_reduce=add_two_others):
        sender = BucketSender(World(0, 3, CPU), torch.float16)
        buffer = torch.tensor([1.0, -2.0])
        for mean in ([2.0, -1.0], [3.0, 0.0]):
            sender.send(SimpleNamespace(buffer=lambda: buffer)).wait()
            assert buffer.tolist() == mean
    assert sender.payload == 2 * 2 * torch.float16.itemsize


def test_what_a_flat_exchange_sends_adds_up(choose):
    exchange = choose(flat=True)
    parameters = list(exchange.model.parameters())
    for _ in range(3):
        with exchange.during_backward():
            for parameter in parameters:
                parameter.grad = torch.ones_like(parameter)
    assert all(bool((parameter.grad == 1).all()) for parameter in parameters)
    ring = 2 * 3 / 4
    assert exchange.sent_bytes == 3 * ring * sum(p.nbytes for p in parameters)


@pytest.mark.parametrize(
    "begin",
    [
        broadcast_parameters,
        lambda model: make_exchange(model, ParallelConfig(flat=True), World(1, 2, CPU), sum_of),
    ],
)
def test_all_ranks_begin_with_the_weights_of_the_main_one(begin):
    main, model = (build_model(ModelConfig(hidden_size=8), seed=seed) for seed in (0, 1))
    sent = iter(main.parameters())
    with among_peers(1, 2, broadcast=lambda tensor, _: tensor.copy_(next(sent))):
        begin(model)
    for own, of_main in zip(model.parameters(), main.parameters(), strict=True):
        assert torch.equal(own, of_main)


@pytest.mark.parametrize(
    ("key", "word"),
    [
        *(("compression", form) for form in ("none", "fp16", "bf16")),
        *(("shares", how) for how in ("even", "measured")),
        *(("combine", how) for how in ("mean", "adasum")),
    ],
)
def test_every_way_has_a_word_on_the_command_line(key, word):
    options = RunOptions.from_command_line([f"--parallel.{key}", word])
    assert getattr(options.run.parallel, key) == word


def test_by_default_a_step_is_one_window_and_the_mean_of_all_ranks_in_fp32():
    assert ParallelConfig() == ParallelConfig(
        compression="none",
        flat=False,
        windows_per_step=1,
        lane_groups=1,
        shares="even",
        combine="mean",
    )


def test_shares_may_be_fractions_and_some_of_them_nothing():
    assert ParallelConfig(shares=(0.0, 0.25, 0.5)).shares == (0.0, 0.25, 0.5)


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"windows_per_step": 0}, "windows_per_step"),
        ({"lane_groups": -1}, "lane_groups"),
        ({"bucket_cap_mb": 0.0}, "bucket_cap_mb"),
        ({"bucket_cap_mb": 1e13}, "bucket_cap_mb"),  # 2^63 bytes and more
        ({"shares": (0.0, 0.0)}, "shares"),
        ({"shares": (1.0, -1.0)}, "shares"),
        ({"shares": (1e308, 1e308)}, "shares"),  # their sum is infinite
        ({"shares": ()}, "shares"),
    ],
)
def test_refused(keys, word):
    with pytest.raises(InputError, match=rf"^parallel\.{word}"):
        ParallelConfig(**keys)


def test_the_largest_shares_and_buckets_are_numbers_to_torch_and_to_a_deal():
    most = ParallelConfig(shares=(MOST_SHARE, MOST_SHARE), bucket_cap_mb=MOST_MEGABYTES)
    assert apportion(2**40, most.shares) == [2**39, 2**39]
    assert most.bucket_cap_mb * MEGABYTE < 2**63


def test_losses_are_scaled_where_gradients_travel_in_fp16():
    pair, fp16 = World(0, 2, CPU), ParallelConfig(compression="fp16")
    assert make_loss_scaler("bf16", pair, fp16).is_enabled()
    assert not make_loss_scaler("bf16", pair, ParallelConfig()).is_enabled()
