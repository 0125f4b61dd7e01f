"""All ways to add up the ranks' gradients agree; what is sent; which rank computes which lanes."""

import json
import re

import pytest
import torch

from mlstm_sentiment.errors import InputError
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.state import DTYPES
from tests.ranks.exchanging import WAYS
from tests.support.peers import among_peers
from tests.support.runs import ROOT, run_ranks
from tests.support.trainers import make_trainer
from training.parallel.distributed import World, apportion, rebalanced_shares
from training.parallel.exchange import MOST_MEGABYTES, MOST_SHARE, ParallelConfig
from training.precision import make_loss_scaler
from training.trainer import make_exchange

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
    assert result["repeats"]  # the first exchange adds up as all others do: a resume is exact
    assert result["difference"] <= LOSSY.get(way, 1e-6)
    if way in LOSSY:
        assert result["difference"] > 1e-5  # something was rounded to 16 bits


@pytest.mark.parametrize("way", WAYS)
def test_what_is_sent(exchanged, way):
    ranks, results = exchanged
    result, settings = results[way], WAYS[way]
    exchanges = settings.get("exchanges", 1)
    dtype = DTYPES.get(settings.get("compression"), torch.float32)
    payload = exchanges * result["parameters"] * dtype.itemsize
    assert result["sent_bytes"] == 2 * (ranks - 1) / ranks * payload
    assert set(result["dtypes"]) == {str(dtype)}
    assert (len(result["dtypes"]) > exchanges) == ("bucket_cap_mb" in settings)
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
    gradients = {}
    for name, parameter in model.named_parameters():
        gradients[name] = 1e-5 * torch.randn_like(parameter)
    with (
        among_peers(0, 128, all_reduce=add_equals),
        make_exchange(model, config, world, sum_of).during_backward(),
    ):
        for name, parameter in model.named_parameters():
            parameter.grad = scaler.scale(gradients[name].clone())
    for name, parameter in model.named_parameters():
        actual = parameter.grad / scaler.get_scale()
        assert (actual - gradients[name]).norm() <= 2**-10 * gradients[name].norm()
    flat = torch.cat([gradient.flatten() for gradient in gradients.values()])
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


@pytest.mark.parametrize("way", [{"flat": True}, {"combine": "adasum"}])
def test_all_ranks_begin_with_the_weights_of_the_main_one(way):
    main, model = (build_model(ModelConfig(hidden_size=8), seed=seed) for seed in (0, 1))
    sent = iter(main.parameters())
    with among_peers(1, 2, broadcast=lambda tensor, _: tensor.copy_(next(sent))):
        make_exchange(model, ParallelConfig(**way), World(1, 2, CPU), sum_of)
    for own, of_main in zip(model.parameters(), main.parameters(), strict=True):
        assert torch.equal(own, of_main)


REFUSED = [  # the key, and values out of its bounds
    *(("windows_per_step", n) for n in (0, 1025)),
    ("lane_groups", -1),
    *(("bucket_cap_mb", size) for size in (0.0, 1e13)),  # 2^63 bytes and more
    *(("shares", shares) for shares in ((0.0, 0.0), (1.0, -1.0), ())),
    ("shares", (1e308, 1e308)),  # their sum is infinite
]


@pytest.mark.parametrize(("key", "value"), REFUSED)
def test_refused(key, value):
    with pytest.raises(InputError, match=rf"^parallel\.{key}"):
        ParallelConfig(**{key: value})


def test_only_measured_shares_change_and_only_for_a_better_split():
    for shares in ("even", (1.0,)):
        assert not make_trainer(parallel=ParallelConfig(shares=shares)).balance([1.0])
    trainer = make_trainer(lanes=16, parallel=ParallelConfig(shares="measured"))
    divided = []
    trainer.world, trainer.divide_lanes = World(0, 2, CPU), divided.append
    assert not trainer.balance([])  # not measured
    assert not trainer.balance([1.0, 1.05])
    assert trainer.balance([1.0, 3.0])
    assert divided == [(1.0, 3.0)]


def test_shares_are_one_for_each_rank_and_the_largest_ones_are_numbers_to_torch():
    with pytest.raises(InputError, match=r"parallel\.shares has 3 numbers for 2"):
        World(0, 2, CPU, (1.0, 1.0, 2.0))
    most = ParallelConfig(shares=(MOST_SHARE, MOST_SHARE), bucket_cap_mb=MOST_MEGABYTES)
    assert apportion(2**40, most.shares) == [2**39, 2**39]
    assert most.bucket_cap_mb * 2**20 < 2**63


@pytest.mark.parametrize(
    ("speeds", "lanes", "shares"),
    [
        ([400.0, 100.0], [8, 8], (400.0, 100.0)),
        ([400.0, 100.0], [13, 3], None),  # as good as it gets
        ([1.0, 3.0, 2.0], [8, 8, 0], (1.0, 3.0, 0.0)),  # without lanes, it keeps none
        ([100.0, 0.0], [8, 0], None),
        ([0.0, 0.0], [4, 4], None),  # not measured
    ],
)
def test_shares_follow_the_speed_of_computing(speeds, lanes, shares):
    assert rebalanced_shares(speeds, lanes, sum(lanes)) == shares


@pytest.mark.parametrize("items", [0, 1, 7, 64])
@pytest.mark.parametrize("shares", [(1.0,), (1.0, 1.0, 1.0), (5.0, 0.0, 0.3), (0.1, 0.2, 0.7, 9.0)])
def test_all_items_are_split_in_proportion(items, shares):
    counts = apportion(items, shares)
    assert sum(counts) == items
    for count, speed in zip(counts, shares, strict=True):
        assert abs(count - items * speed / sum(shares)) < 1
    world = World(0, len(shares), CPU, shares)
    slices = [world.slice_of(rank, items) for rank in range(len(shares))]
    assert [s.stop - s.start for s in slices] == counts
    assert [s.start for s in slices] == [0, *(s.stop for s in slices[:-1])]


def mean_error(ranks, dtype):
    """The relative error of a ring's sum that every rank rounds, as on compressed gradients."""
    generator = torch.Generator().manual_seed(ranks)
    total, exact = torch.zeros(100_000, dtype=dtype), torch.zeros(100_000, dtype=torch.float64)
    for _ in range(ranks):
        gradient = torch.randn(100_000, generator=generator)
        total, exact = total + gradient.to(dtype), exact + gradient
    return float((total - exact).norm() / exact.norm())


PAGE = (ROOT / "docs/scale.md").read_text()
ERRORS = re.findall(r"\| (\d+) \| ([\d.]+) % \| ([\d.]+) % \|", PAGE)
assert [int(ranks) for ranks, *_ in ERRORS] == [2, 8, 32, 128]


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: f"{row[0]} ranks")
def test_compressed_sums_are_as_wrong_as_the_page_says(row):
    for percent, dtype in zip(row[1:], (torch.float16, torch.bfloat16), strict=True):
        assert 100 * mean_error(int(row[0]), dtype) == pytest.approx(float(percent), abs=0.006)
