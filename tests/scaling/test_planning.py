"""The planner: memory counted by torch, the published run, and answers that agree."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from configs.options import load_config, read_toml
from data_utils.lanes import DataConfig
from experiments.scaling.publication import explanation
from mlstm_sentiment.errors import InputError
from model.kernels import memory_pool
from model.kernels.cpp.mlstm import runs_compiled
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from scaling.hardware import ClusterConfig, NetworkConfig, NodeConfig
from scaling.planner import PlanOptions, read_job
from scaling.planning import Plan, TextSize
from scaling.workload import OF_GRAPHS, MemoryModel, Workload

CLUSTERS = Path("configs/clusters")
PAPER, _ = read_job(PlanOptions(model="4096", cluster=CLUSTERS))
EPOCH = TextSize(38.27e9)
SMALL = ModelConfig(hidden_size=64, embedding_size=16)


def with_lanes(lanes, run=PAPER):
    """Return a run with so many lanes on each GPU."""
    return replace(run, data=DataConfig(lanes_per_rank=lanes, window=run.data.window))


def measured_peak(lanes, window, recycle_into):
    """Return the most bytes of activations ever in use, as the pool that hands them out counts.

    Its count is of the whole window on a CPU; small tensors go through it here too.
    """
    pool = recycle_into(memory_pool.MemoryPool(smallest=1))
    model = build_model(SMALL, seed=0)
    tokens = torch.randint(0, 256, (lanes, window))
    nats, _ = model.loss(tokens, tokens, model.initial_state(lanes))
    nats.backward()
    return pool.most_used


def test_activations_are_what_is_allocated(recycle_into):
    if not runs_compiled(torch.zeros(64, 64)):
        pytest.skip("no compiler: the recurrence takes its memory from torch")
    window = 48
    few, many = (measured_peak(lanes, window, recycle_into) for lanes in (8, 40))
    model = MemoryModel(model=SMALL, window=window, precision="fp32")
    graphs = 4 * window * (OF_GRAPHS * SMALL.hidden_size + 256)  # only a GPU has them
    assert (many - few) / 32 == pytest.approx(model.bytes_per_lane - graphs, rel=0.03)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("size", [1024, 4096, 8192])
def test_the_largest_batch_fits_and_one_group_more_does_not(size, groups):
    memory = MemoryModel(model=ModelConfig(hidden_size=size), window=256, lane_groups=groups)
    lanes = memory.largest_lanes(16.9e9, headroom=0.1)
    assert memory.needed(lanes).total <= 0.9 * 16.9e9 < memory.needed(lanes + groups).total
    assert memory.largest_lanes(memory.needed(0).total, headroom=0.1) == 0


def cluster(name):
    return read_toml(CLUSTERS / f"{name}.toml", ClusterConfig)


def test_the_published_run_takes_its_hours_and_clusters_have_what_was_fitted():
    eight = Plan(cluster("dgx1v_infiniband"), PAPER, 8, EPOCH)
    assert eight.steps == pytest.approx(73_000, rel=1e-3)
    assert eight.training_seconds / 3600 == pytest.approx(17, rel=0.01)
    many = Plan(cluster("dgx1v_infiniband"), PAPER, 128, TextSize(3 * 38.27e9))
    assert many.training_seconds / 3600 == pytest.approx(4, rel=0.12)  # they say 4 hours in all
    fitted = explanation.fit_model().values
    ethernet, infiniband = cluster("dgx1v_ethernet"), cluster("dgx1v_infiniband")
    assert ethernet.network.bytes_per_second == pytest.approx(
        fitted["ethernet_bytes_per_second"], rel=0.01
    )
    assert infiniband.network.bytes_per_second == pytest.approx(
        fitted["infiniband_bytes_per_second_4096"], rel=0.01
    )
    for one in (ethernet, infiniband):
        assert one.overhead_seconds == pytest.approx(fitted["overhead_seconds"], rel=0.01)
        efficiency = Plan(one, PAPER, 128, EPOCH).efficiency
        curve = "ethernet_4096" if one is ethernet else "infiniband_4096"
        predicted = explanation.predict(fitted, explanation.Constants())[curve][-1]
        assert 128 * efficiency == pytest.approx(predicted, rel=2e-3)


@pytest.mark.parametrize("path", sorted(CLUSTERS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_cluster_is_planned_for(path):
    one = read_toml(path, ClusterConfig)
    plan = Plan(one, with_lanes(64), one.total_gpus, EPOCH)
    assert 0 < plan.efficiency < 1 or one.total_gpus == 1
    groups = plan.answers()["groups"]
    lanes = sum(group["lanes_per_gpu"] * group["gpus"] for group in groups)
    assert lanes == pytest.approx(64 * one.total_gpus, rel=0.02)


def with_parallel(**settings):
    return replace(PAPER, parallel=replace(PAPER.parallel, **settings))


def test_the_exchange_is_that_of_the_config():
    def step(gpus=128, **settings):
        return Plan(cluster("dgx1v_ethernet"), with_parallel(**settings), gpus, EPOCH)

    flat, fp32 = step(flat=True), step(flat=True, compression="none")
    assert fp32.step.exposed == pytest.approx(2 * flat.step.exposed)
    assert step(flat=False).step.exposed < flat.step.exposed
    seldom = step(flat=True, windows_per_step=4)
    assert seldom.step.exposed == pytest.approx(flat.step.exposed / 4)
    assert seldom.steps == pytest.approx(flat.steps / 4, rel=1e-3)
    assert seldom.answers()["step_seconds"] == pytest.approx(4 * seldom.step.seconds)
    sent = [plan.memory.gradient_bytes for plan in (flat, fp32, step(gpus=1))]
    assert sent == [2.0, 4.0, 0.0]


@pytest.mark.parametrize(("precision", "planned"), [("auto", "bf16"), ("fp32", "fp32")])
def test_the_precision_is_that_of_the_config(precision, planned):
    run = replace(PAPER, train=replace(PAPER.train, precision=precision))
    plan = Plan(cluster("h200"), run, 8, EPOCH)
    assert plan.memory.precision == planned
    assert f"products in {planned} (train.precision {precision})" in list(plan.assumptions())


def test_a_pass_takes_at_least_the_time_to_read_the_recurrent_weights():
    """8,192 units, 16 lanes, 256 bytes on one H200, by hand."""
    run = replace(PAPER, model=ModelConfig(hidden_size=8192))
    (node,) = cluster("h200").nodes
    reading = 2 * 5 * 8192**2 / node.memory_bytes_per_second
    assert 2 * 256 * reading == pytest.approx(0.080, abs=5e-4)
    workload = Workload.of(run.model)
    others = 6 * workload.product_weights - 4 * 5 * 8192**2  # operations besides the two passes'
    expected = 256 * (2 * reading + 16 * others / node.operations_per_second)
    expected += 256 * 8 * node.launch_seconds
    once = node.window_seconds + 68 * workload.parameters / node.memory_bytes_per_second
    few = Plan(cluster("h200"), with_lanes(16, run), 1, EPOCH)
    assert few.step.computing == pytest.approx(expected + once)
    grouped = replace(run, parallel=replace(run.parallel, lane_groups=2))
    two_groups = Plan(cluster("h200"), with_lanes(32, grouped), 1, EPOCH)
    assert two_groups.step.computing == pytest.approx(2 * expected + once)
    many = Plan(cluster("h200"), with_lanes(256, run), 1, EPOCH)
    tokens = 256 * 256
    assert many.step.computing == pytest.approx(
        tokens * workload.operations_per_token / node.operations_per_second
        + 256 * 8 * node.launch_seconds
        + once
    )


def test_evaluations_and_checkpoints_take_time():
    text = TextSize(38.27e9, valid_tokens=38e6)
    plan = Plan(cluster("dgx1v_infiniband"), PAPER, 8, text)
    answers = plan.answers()
    assert (answers["evaluations"], answers["checkpoints"]) == (20, 77)  # every 2e9, 5e8 characters
    # 32 lanes of each GPU wait for the weights: 38e6 / 256 tokens one after the other.
    assert plan.evaluation_seconds == pytest.approx(
        38e6 / 256 * (168e6 / 0.9e12 + 2 * 256 * (4096 + 5 * 64) * 32 / 42e12), rel=0.02
    )
    pauses = 20 * plan.evaluation_seconds + 77 * answers["checkpoint_seconds"]
    assert answers["hours"] == pytest.approx(answers["training_hours"] + pauses / 3600)
    assert answers["gpu_hours"] == 8 * answers["hours"]
    assert answers["dollars"] == pytest.approx(3.0 * answers["gpu_hours"])


def node(speed, memory=20e9, **more):
    return NodeConfig(
        device=f"{speed:g}", gpus=1, memory_bytes=memory, operations_per_second=speed,
        link_bytes_per_second=1e10, **more,
    )  # fmt: skip


def two(fast, slow, **more):
    network = NetworkConfig(name="wire", bytes_per_second=1e9)
    nodes = (node(fast, 40e9, **more), node(slow, **more))
    return ClusterConfig(name="two", nodes=nodes, network=network)


def test_unequal_gpus_share_by_speed_or_evenly():
    def plan(one, shares):
        return Plan(one, with_lanes(128, with_parallel(shares=shares)), 2, EPOCH)

    by_speed, even = (plan(two(3e13, 1e13), shares) for shares in ("measured", "even"))
    for one, expected in ((by_speed, [192, 64]), (even, [128, 128])):
        assert [group["lanes_per_gpu"] for group in one.answers()["groups"]] == expected
    assert even.step.computing == pytest.approx(2 * by_speed.step.computing)
    assert even.efficiency < by_speed.efficiency
    late = replace(two(2e13, 2e13), overhead_seconds=0.5)
    same = [plan(late, shares) for shares in ("measured", "even")]
    assert same[0].step == same[1].step
    assert same[0].step.overhead == 0.5
    assert same[0].efficiency == pytest.approx(same[0].step.efficiency)


def test_lanes_that_do_not_divide_evenly_are_counted_once_and_computed_as_on_the_fullest_gpu():
    """Of 128 lanes one of 127 GPUs has two, and all others wait for it."""
    run = replace(with_parallel(shares="even"), data=DataConfig(lanes=128))
    uneven = Plan(cluster("h200_nodes"), run, 127, EPOCH)
    rounded = Plan(cluster("h200_nodes"), with_lanes(2, run), 127, EPOCH)
    assert uneven.step == rounded.step
    assert (uneven.lanes, rounded.lanes) == (128, 254)
    assert uneven.steps == pytest.approx(Plan(cluster("h200_nodes"), run, 128, EPOCH).steps)
    assert uneven.training_seconds == pytest.approx(rounded.training_seconds * 254 / 128)
    assert uneven.efficiency < rounded.efficiency
    assert uneven.answers()["groups"] == rounded.answers()["groups"]


@pytest.mark.parametrize(("gpus", "nodes", "largest"), [(8, 1, 8), (9, 2, 8), (13, 6, 8)])
def test_unlike_nodes_are_counted_and_the_largest_exchanges_longest(gpus, nodes, largest):
    """Their mean would be three nodes of five GPUs."""
    kinds = [replace(node(1e13), gpus=size, count=count) for size, count in ((8, 1), (1, 5))]
    network = NetworkConfig(name="slow", bytes_per_second=1e9)
    mixed = ClusterConfig(name="mixed", nodes=tuple(kinds), network=network)
    fabric = replace(mixed.fabric(mixed.first_gpus(gpus), 1e9), latency_seconds=1.0, ring="nodes")
    within, between = (2 * (n - 1) / n * 1e9 / rate for n, rate in ((largest, 1e10), (nodes, 1e9)))
    assert fabric.nodes(gpus) == nodes
    assert fabric.all_reduce_seconds(1e9, gpus) == pytest.approx(
        within + between + math.log2(nodes)
    )


def test_the_batch_and_the_price_of_unequal_gpus():
    plan = Plan(two(3e13, 1e13), with_lanes(8), 2, EPOCH)
    fast, slow = (plan.memory.largest_lanes(size, 0.1) for size in (40e9, 20e9))
    assert plan.answers()["largest_lanes"] == min(int(fast / 0.75), slow * 4)
    network = NetworkConfig(name="wire", bytes_per_second=1e9)
    for prices, has_price in (((3.0, None), False), ((3.0, 1.0), True)):
        nodes = tuple(node(2e13, dollars_per_gpu_hour=price) for price in prices)
        one = ClusterConfig(name="two", nodes=nodes, network=network)
        assert (Plan(one, PAPER, 2, EPOCH).answers()["dollars"] is not None) is has_price


def test_a_checkpoint_is_as_large_as_one_that_was_written():
    """Two moments and the weights in fp32, h and c of every lane; see training/checkpoint.py."""
    folder = Path("tests/fixtures/v1/run/checkpoint/step-00000010")
    written = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    run = load_config(Path("tests/fixtures/v1/run/config.toml"))
    planned = Plan(cluster("h200"), run, 1, TextSize(1e3)).checkpoint_bytes
    assert written - 20_000 < planned < written  # names, and torch's random state of 5 kB


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4 + 4), ("fp16", 2 + 4)])
def test_a_checkpoint_holds_h_as_it_is_and_c_in_fp32(precision, size):
    run = replace(PAPER, train=replace(PAPER.train, precision=precision))
    checkpoint = Plan(two(2e13, 2e13), with_lanes(5, run), 2, EPOCH).checkpoint_bytes
    moments_and_weights = 12 * Workload.of(PAPER.model).parameters
    assert checkpoint == moments_and_weights + 2 * 5 * 4096 * size


@pytest.mark.parametrize(
    ("changed", "per_parameter", "per_product", "bytes_of_lane"),
    [
        # fp32, product copy, normed; gradient; moments; a gradient before it is fp32; sent
        ({}, (4 + 2 + 4) + 4 + 8 + 6 + 2, 16, 10 * (64 * (16 * 2 + 4) + 256 * 2)),
        ({"precision": "fp32"}, (4 + 4 + 4) + 4 + 8 + 8 + 2, 16, 10 * (64 * 17 * 4 + 256 * 4)),
        ({"gradient_bytes": 4.0}, (4 + 2 + 4) + 4 + 8 + 6, 16, None),  # sent as they are
        ({"gradient_bytes": 0.0}, (4 + 2 + 4) + 4 + 8 + 6, 0, None),  # by a GPU alone: never joined
        # Without the weight norm, the optimiser's copies are the larger.
        ({"model": replace(SMALL, weight_norm=False)}, (4 + 2) + 4 + 8 + 4 + 2, 16, None),
    ],
)
def test_memory_adds_up_by_hand(changed, per_parameter, per_product, bytes_of_lane):
    fields = {"model": SMALL, "window": 10, "precision": "bf16", "lane_groups": 3}
    memory = MemoryModel(**(fields | changed))
    parameters = Workload.of(memory.model).parameters
    expected = per_parameter * parameters + per_product * 64 * 64 + 0.5e9
    assert memory.needed(0).total == expected
    assert memory.needed(7).total == expected + 3 * memory.bytes_per_lane  # of the largest group
    assert bytes_of_lane in (None, memory.bytes_per_lane)


def test_a_job_has_the_slowest_link_of_its_nodes_and_exchanges_among_the_gpus_it_takes():
    slow, fast = node(1e13), replace(node(2e13), link_bytes_per_second=3e10)
    network = NetworkConfig(name="wire", bytes_per_second=1e9)
    for nodes, of_one in (((slow, fast), 1e10), ((fast, slow), 3e10)):
        mixed = ClusterConfig(name="mixed", nodes=nodes, network=network)
        links = [mixed.fabric(mixed.first_gpus(gpus), 1e9).link_bytes_per_second for gpus in (1, 2)]
        assert links == [of_one, 1e10]
    large = replace(node(2e13), gpus=8)
    network = NetworkConfig(name="wire", bytes_per_second=1e9)
    mixed = ClusterConfig(name="mixed", nodes=(replace(large, gpus=4), large), network=network)
    assert mixed.fabric(mixed.first_gpus(4 + 2), 1e9).gpus_per_node == 4
    assert mixed.fabric(mixed.first_gpus(4 + 8), 1e9).gpus_per_node == 8


def test_nodes_of_h200_are_as_their_data_sheets_say():
    one, several = cluster("h200"), cluster("h200_nodes")
    (node,) = several.nodes
    assert node.operations_per_second == one.nodes[0].operations_per_second < 989e12
    assert node.memory_bytes_per_second == one.nodes[0].memory_bytes_per_second < 4.8e12
    assert node.link_bytes_per_second == 900e9 / 2
    assert several.network.bytes_per_second == node.gpus * 400e9 / 8
    plans = [Plan(several, PAPER, gpus, EPOCH) for gpus in (8, 16, 128)]
    assert 1 > plans[0].efficiency > plans[1].efficiency > plans[2].efficiency > 0.8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MemoryModel(model=ModelConfig(layers=2), window=256), "one mLSTM layer"),
        (lambda: ClusterConfig(name="none", nodes=()), r"at least one \[\[nodes\]\]"),
        (lambda: two(2e13, 2e13).first_gpus(0), "0 GPUs; give at least 1"),
        (
            lambda: Plan(two(2e13, 2e13), with_parallel(shares=(3.0, 1.0)), 2, EPOCH),
            "parallel.shares has numbers; the planner knows even and measured",
        ),
        *(
            (lambda nodes=nodes: ClusterConfig(name="two", nodes=nodes), r"needs a \[network\]")
            for nodes in ((node(2e13, count=2),), (node(2e13), node(1e13)))
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
