"""The planner: memory counted by torch, interruptions simulated, and answers that agree."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from configs.toml_file import read_toml
from experiments.scaling.publication import explanation
from model.errors import InputError
from model.fused import recycling
from model.fused.cpu import runs_compiled
from model.language_model import ModelConfig, build_model
from scaling.hardware import ClusterConfig, NetworkConfig, NodeConfig
from scaling.memory import MemoryModel
from scaling.planning import Job, Plan
from scaling.reliability import Interruptions
from scaling.step_time import Synchronisation
from scaling.workload import Workload
from training.objective import Objective

CLUSTERS = Path("configs/clusters")
PAPER = Job(model=ModelConfig(hidden_size=4096), characters=38.27e9, gpus=8)
SMALL = ModelConfig(hidden_size=64, embedding_size=16)


def counted_peak(lanes, window, recycle_into):
    """Return the most bytes of activations in use at once, as the pool that hands them out counts.

    Its count is of the whole window on a CPU; small tensors go through it here too.
    """
    pool = recycle_into(recycling.MemoryPool(smallest=1))
    model = build_model(SMALL, seed=0)
    tokens = torch.randint(0, 256, (lanes, window))
    nats, _ = Objective(model)(tokens, tokens, model.initial_state(lanes))
    nats.backward()
    return pool.most_used


def test_activations_are_what_is_allocated(recycle_into):
    if not runs_compiled(torch.zeros(64, 64)):
        pytest.skip("no compiler: the recurrence takes its memory from torch")
    window = 48
    few, many = (counted_peak(lanes, window, recycle_into) for lanes in (8, 40))
    model = MemoryModel(model=SMALL, window=window, precision="fp32", graphs=False)
    assert (many - few) / 32 == pytest.approx(model.bytes_per_lane, rel=0.03)


def test_memory_grows_by_lane_and_by_parameter():
    paper = MemoryModel(model=PAPER.model, window=256)
    one, two = paper.needed(100).total, paper.needed(101).total
    assert two - one == pytest.approx(paper.bytes_per_lane)
    # h, W_mh h, c, four gates; of backward seven more; h and its gradient for the graph: fp16
    assert paper.bytes_per_lane == pytest.approx(36 * 4096 * 256, rel=0.01)
    weights = paper.needed(0)
    adam = 2 * 4 * Workload.of(PAPER.model).parameters
    assert weights.optimizer == adam
    assert weights.total > 16 * Workload.of(PAPER.model).parameters
    assert replace(paper, precision="fp32").needed(8).total > paper.needed(8).total


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("size", [1024, 4096, 8192])
def test_the_largest_batch_fits_and_one_group_more_does_not(size, groups):
    memory = MemoryModel(model=ModelConfig(hidden_size=size), window=256, lane_groups=groups)
    lanes = memory.largest_lanes(16.9e9, headroom=0.1)
    assert memory.needed(lanes).total <= 0.9 * 16.9e9 < memory.needed(lanes + groups).total


def test_nothing_fits_if_the_weights_do_not():
    memory = MemoryModel(model=ModelConfig(hidden_size=8192), window=256)
    assert memory.largest_lanes(8e9, headroom=0.1) == 0


def test_memory_that_is_not_modelled_is_refused():
    with pytest.raises(InputError, match="one mLSTM layer"):
        MemoryModel(model=ModelConfig(layers=2), window=256)


def simulated_slowdown(stops, work):
    """Work, save, be stopped at random, restart; return how many times the work it took."""
    random = np.random.default_rng(0)
    elapsed = done = 0.0
    next_stop = random.exponential(stops.between)
    while done < work:
        end = elapsed + stops.interval + stops.checkpoint
        if end <= next_stop:
            elapsed, done = end, done + stops.interval
            continue
        elapsed = next_stop + stops.restart
        next_stop = elapsed + random.exponential(stops.between)
    return elapsed / done


@pytest.mark.parametrize("between", [400.0, 5000.0])
def test_interruptions_cost_what_a_simulation_of_them_does(between):
    stops = Interruptions(between=between, checkpoint=3.0, restart=20.0)
    told = stops.slowdown
    assert simulated_slowdown(stops, work=between * 4000) == pytest.approx(told, rel=0.02)
    assert stops.expected_loss == stops.interval / 2 + 20


def test_youngs_interval_is_the_best():
    stops = Interruptions(between=10_000.0, checkpoint=2.0, restart=30.0)
    assert stops.interval == 200.0

    def lost(interval):  # of a second of work: saving, and half an interval for each interruption
        return 2.0 / interval + interval / 2 / 10_000.0

    assert lost(200.0) < min(lost(190.0), lost(210.0))


def test_a_job_that_never_gets_anywhere():
    assert Interruptions(between=1.0, checkpoint=10.0, restart=1e4).slowdown == float("inf")


def cluster(name):
    return read_toml(CLUSTERS / f"{name}.toml", ClusterConfig)


def test_the_published_run_takes_its_hours():
    eight = Plan(cluster("dgx1v_infiniband"), PAPER)
    assert eight.steps == pytest.approx(73_000, rel=1e-3)
    assert eight.seconds / 3600 == pytest.approx(17, rel=0.01)
    three_epochs = replace(PAPER, gpus=128, characters=3 * 38.27e9)
    many = Plan(cluster("dgx1v_infiniband"), three_epochs)
    assert many.seconds / 3600 == pytest.approx(4, rel=0.12)  # they say 4 hours, all in all


def test_clusters_have_what_was_fitted():
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
        efficiency = Plan(one, replace(PAPER, gpus=128)).timing.efficiency
        curve = "ethernet_4096" if one is ethernet else "infiniband_4096"
        predicted = explanation.predict(fitted, explanation.Constants())[curve][-1]
        assert 128 * efficiency == pytest.approx(predicted, rel=2e-3)


@pytest.mark.parametrize("path", sorted(CLUSTERS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_cluster_is_planned_for(path):
    one = read_toml(path, ClusterConfig)
    plan = Plan(one, replace(PAPER, gpus=one.total_gpus, lanes_per_gpu=64))
    assert 0 < plan.timing.efficiency < 1
    assert plan.offer(spot=False).hours > plan.seconds / 3600
    lanes = sum(plan.lanes_of(pool) * pool.gpus for pool in plan.pools)
    assert lanes == pytest.approx(64 * one.total_gpus, rel=0.02)


def test_the_number_of_gpus_at_which_efficiency_ends():
    plan = Plan(cluster("dgx1v_ethernet"), PAPER)
    tokens = PAPER.tokens_per_gpu
    assert plan.most_gpus(0.8, whole_batch=False) == 8
    assert plan.timing_of(16, tokens).efficiency < 0.8 <= plan.timing_of(8, tokens).efficiency
    assert plan.most_gpus(0.5, whole_batch=False) is None  # a ring's cost has a limit
    last = Plan(cluster("dgx1v_infiniband"), PAPER).most_gpus(0.5, whole_batch=True)
    few, more = (
        Plan(cluster("dgx1v_infiniband"), PAPER).timing_of(p, 8 * tokens / p)
        for p in (last, last + 8)
    )
    assert more.efficiency < 0.5 <= few.efficiency


def test_a_batch_of_few_lanes_is_not_for_more_gpus_than_these():
    """However fast they would be: training refuses a rank without a lane."""
    job = replace(PAPER, gpus=8, lanes_per_gpu=1, window=10**6)
    plan = Plan(cluster("h200_nodes"), job)
    assert plan.timing_of(16, job.tokens_per_gpu / 2).efficiency > 0.9
    assert plan.most_gpus(0.9, whole_batch=True) == 8
    assert plan.most_gpus(0.9, whole_batch=False) is None
    more = Plan(cluster("h200_nodes"), replace(job, lanes_per_gpu=3))  # 24: three nodes of eight
    assert more.most_gpus(0.9, whole_batch=True) == 24


@pytest.mark.parametrize("bound", [0.5, 0.8, 0.85, 0.9])
def test_slower_gpus_may_raise_the_efficiency_again(bound):
    """They compute longer for the same exchange; what is answered is the end of it all."""
    plan = Plan(cluster("mixed_lab"), replace(PAPER, gpus=18))
    of = {p: plan.timing_of(p, PAPER.tokens_per_gpu).efficiency for p in plan._counts()}
    assert of[6] < 0.8 < of[18]
    most = plan.most_gpus(bound, whole_batch=False)
    assert of[most or max(of)] >= bound
    assert all(of[p] < bound for p in of if p > (most or max(of)))


def test_the_tokens_for_an_efficiency_give_it():
    for how in (Synchronisation(), Synchronisation(chunks=5, overlap=0.29)):
        plan = Plan(cluster("dgx1v_ethernet"), replace(PAPER, gpus=64, how=how))
        tokens = plan.tokens_for(0.9)
        assert 0.9 <= plan.timing_of(64, tokens).efficiency == pytest.approx(0.9, rel=1e-4)
    assert Plan(cluster("dgx1v_ethernet"), replace(PAPER, gpus=1)).tokens_for(0.9) == 1


def node(speed, memory=20e9, **more):
    return NodeConfig(
        device=f"{speed:g}", gpus=1, memory_bytes=memory, operations_per_second=speed,
        link_bytes_per_second=1e10, **more,
    )  # fmt: skip


def two(fast, slow, **more):
    network = NetworkConfig(name="wire", bytes_per_second=1e9)
    nodes = (node(fast, 40e9, **more), node(slow, **more))
    return ClusterConfig(name="two", nodes=nodes, network=network)


def test_unequal_gpus_share_by_speed():
    job = replace(PAPER, gpus=2, lanes_per_gpu=128)
    by_speed = Plan(two(3e13, 1e13), job)
    assert [by_speed.lanes_of(pool) for pool in by_speed.pools] == [192, 64]
    even = Plan(two(3e13, 1e13), replace(job, by_speed=False))
    assert even.timing.step.computing == pytest.approx(2 * by_speed.timing.step.computing)
    assert even.timing.efficiency < by_speed.timing.efficiency
    assert even.tokens_for(0.9) is None  # the fast one waits half of the time
    same = [Plan(two(2e13, 2e13), replace(job, by_speed=flag)).timing for flag in (True, False)]
    assert same[0].step == same[1].step
    assert same[0].efficiency == pytest.approx(same[0].step.efficiency)


@pytest.mark.parametrize(("gpus", "nodes", "largest"), [(8, 1, 8), (9, 2, 8), (13, 6, 8)])
def test_unlike_nodes_are_counted_and_the_largest_exchanges_longest(gpus, nodes, largest):
    """Their mean would be three nodes of five GPUs."""
    kinds = [
        NodeConfig(
            device=f"{size} a node",
            count=count,
            gpus=size,
            memory_bytes=24e9,
            operations_per_second=1e13,
            link_bytes_per_second=1e10,
        )
        for size, count in ((8, 1), (1, 5))
    ]
    network = NetworkConfig(name="slow", bytes_per_second=1e9, latency_seconds=1.0, ring="nodes")
    mixed = ClusterConfig(name="mixed", nodes=tuple(kinds), network=network)
    fabric = mixed.fabric(mixed.first_gpus(gpus))
    within, between = (2 * (n - 1) / n * 1e9 / rate for n, rate in ((largest, 1e10), (nodes, 1e9)))
    assert fabric.nodes(gpus) == nodes
    assert fabric.all_reduce_seconds(1e9, gpus) == pytest.approx(
        within + between + math.log2(nodes)
    )


def test_the_largest_batch_of_unequal_gpus():
    plan = Plan(two(3e13, 1e13), replace(PAPER, gpus=2, lanes_per_gpu=8))
    lanes = plan.largest_lanes(0.1)
    fast, slow = (plan.memory.largest_lanes(size, 0.1) for size in (40e9, 20e9))
    assert lanes == min(int(fast / 0.75), slow * 4)


def test_prices():
    job = replace(PAPER, gpus=2)
    priced = two(2e13, 2e13, dollars_per_gpu_hour=3.0, spot_dollars_per_gpu_hour=1.0)
    plan = Plan(priced, job)
    on_demand, spot = plan.offer(spot=False), plan.offer(spot=True)
    assert on_demand.dollars == pytest.approx(2 * 3.0 * on_demand.hours)
    assert spot.dollars == pytest.approx(2 * 1.0 * spot.hours)
    assert spot.hours > on_demand.hours > plan.seconds / 3600
    assert spot.interruptions.between == 24 / 2 * 3600
    often = plan.offer(spot=True, node_hours=1.0)
    assert often.interruptions.interval < spot.interruptions.interval
    free = Plan(two(2e13, 2e13), job)
    assert free.offer(spot=False).dollars is None
    assert free.offer(spot=True) is None


def test_a_checkpoint_is_as_large_as_one_that_was_written():
    """Two moments and the weights in fp32, h and c of every lane; see training/checkpoint.py."""
    folder = Path("tests/fixtures/v1/run/checkpoint/step-00000010")
    written = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    job = Job(
        model=ModelConfig(hidden_size=8, embedding_size=4), characters=1e3, gpus=1,
        lanes_per_gpu=4, window=32, precision="fp32",
    )  # fmt: skip
    told = Plan(cluster("h200"), job).checkpoint_bytes
    assert written - 20_000 < told < written  # names, and torch's random state of 5 kB


def test_more_gpus_than_there_are():
    assert Plan(cluster("dgx1v_ethernet"), replace(PAPER, gpus=1024)).timing.efficiency > 0.7
    with pytest.raises(InputError, match="has 8 and no network"):
        Plan(cluster("h200"), replace(PAPER, gpus=16))
    with pytest.raises(InputError, match="characters"):
        replace(PAPER, characters=0)


@pytest.mark.parametrize(
    ("changed", "per_parameter", "per_product", "bytes_of_lane"),
    [
        # fp32, product copy, normed; gradient; moments; a gradient before it is fp32; sent
        ({}, (4 + 2 + 4) + 4 + 8 + 6 + 2, 16, 10 * (64 * (16 * 2 + 4) + 256 * 2)),
        ({"graphs": False}, (4 + 2 + 4) + 4 + 8 + 6 + 2, 16, 10 * 64 * (14 * 2 + 4)),
        ({"precision": "fp32"}, (4 + 4 + 4) + 4 + 8 + 8 + 2, 16, 10 * (64 * 17 * 4 + 256 * 4)),
        ({"gradient_bytes": 4.0}, (4 + 2 + 4) + 4 + 8 + 6, 16, None),  # sent as they are
        ({"gradient_bytes": 0.0}, (4 + 2 + 4) + 4 + 8 + 6, 0, None),  # by a GPU alone: never joined
        # Without the weight norm, the optimiser's copies are the larger.
        ({"model": replace(SMALL, weight_norm=False)}, (4 + 2) + 4 + 8 + 4 + 2, 16, None),
    ],
)
def test_memory_adds_up_by_hand(changed, per_parameter, per_product, bytes_of_lane):
    given = {"model": SMALL, "window": 10, "precision": "bf16", "lane_groups": 3, "runtime": 7.0}
    memory = MemoryModel(**(given | changed))
    parameters = Workload.of(memory.model).parameters
    expected = per_parameter * parameters + per_product * 64 * 64 + 7
    assert memory.needed(0).total == expected
    assert memory.needed(7).total == expected + 3 * memory.bytes_per_lane  # of the largest group
    assert bytes_of_lane in (None, memory.bytes_per_lane)


def test_a_price_that_one_kind_lacks_leaves_the_job_without_one():
    network = NetworkConfig(name="wire", bytes_per_second=1e9)
    nodes = (node(2e13, dollars_per_gpu_hour=3.0), node(2e13))
    mixed = Plan(ClusterConfig(name="two", nodes=nodes, network=network), replace(PAPER, gpus=2))
    assert mixed.offer(spot=False).dollars is None


def test_interruptions_are_those_of_the_time_that_the_job_takes_with_them():
    plan = Plan(two(2e13, 2e13, spot_dollars_per_gpu_hour=1.0), replace(PAPER, gpus=2))
    offer = plan.offer(spot=True, node_hours=1.0)
    stops = offer.interruptions
    assert offer.hours == pytest.approx(plan.seconds * stops.slowdown / 3600)
    assert stops.slowdown > 1.1
    assert offer.expected_interruptions == pytest.approx(offer.hours * 3600 / stops.between)


def test_only_the_gradients_of_several_gpus_take_memory_to_send():
    alone, pair = (Plan(two(2e13, 2e13), replace(PAPER, gpus=gpus)) for gpus in (1, 2))
    assert (alone.memory.gradient_bytes, pair.memory.gradient_bytes) == (0.0, 2.0)


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4 + 4), ("fp16", 2 + 4)])
def test_a_checkpoint_holds_h_as_it_is_and_c_in_fp32(precision, size):
    job = replace(PAPER, gpus=2, lanes_per_gpu=5, precision=precision)
    checkpoint = Plan(two(2e13, 2e13), job).checkpoint_bytes
    moments_and_weights = 12 * Workload.of(PAPER.model).parameters
    assert checkpoint == moments_and_weights + 2 * 5 * 4096 * size


def test_the_jitter_and_overhead_of_a_cluster_reach_its_steps():
    late = replace(two(2e13, 2e13), overhead_seconds=0.5, jitter=0.25)
    step = Plan(late, replace(PAPER, gpus=2)).timing.step
    assert step.overhead == 0.5
    assert step.straggling == pytest.approx(0.25 * step.computing * math.sqrt(2 * math.log(2)))


def test_two_nodes_are_several_whether_alike_or_not():
    for nodes in ((node(2e13, count=2),), (node(2e13), node(1e13))):
        with pytest.raises(InputError, match=r"several nodes needs a \[network\]"):
            ClusterConfig(name="two", nodes=nodes)
    assert not ClusterConfig(name="one", nodes=(node(2e13),)).extensible


@pytest.mark.parametrize("fault", ["several nodes", "more GPUs"])
def test_what_is_written_as_advised_is_a_network(fault, tmp_path):
    """The error for a missing network says what to add; with that the plan is made."""
    several = "count = 2\n" if fault == "several nodes" else ""
    text = (CLUSTERS / "h200.toml").read_text().replace("gpus = 8", f"{several}gpus = 8")
    path = tmp_path / "cluster.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"add .*\[network\] with a name, .*bytes_per_second"):
        Plan(read_toml(path, ClusterConfig), replace(PAPER, gpus=16)).seconds  # noqa: B018
    path.write_text(f'{text}\n[network]\nname = "InfiniBand"\nbytes_per_second = 50e9\n')
    assert Plan(read_toml(path, ClusterConfig), replace(PAPER, gpus=16)).seconds > 0


def test_nodes_of_h200_are_as_their_data_sheets_say():
    one, several = cluster("h200"), cluster("h200_nodes")
    (node,) = several.nodes
    assert node.operations_per_second == one.nodes[0].operations_per_second < 989e12
    assert node.link_bytes_per_second == 900e9 / 2
    assert several.network.bytes_per_second == node.gpus * 400e9 / 8
    assert several.reliability.hours_between_failures == pytest.approx(
        16_384 / 8 * 54 * 24 / 419, rel=0.01
    )
    plans = [Plan(several, replace(PAPER, gpus=gpus)) for gpus in (8, 16, 128)]
    efficiencies = [plan.timing.efficiency for plan in plans]
    assert 1 > efficiencies[0] > efficiencies[1] > efficiencies[2] > 0.8
    assert plans[0].timing.efficiency == pytest.approx(Plan(one, PAPER).timing.efficiency, rel=0.05)


def test_clusters_and_jobs_of_nothing_are_refused():
    with pytest.raises(InputError, match=r"at least one \[\[nodes\]\]"):
        ClusterConfig(name="none", nodes=())
    with pytest.raises(InputError, match="0 GPUs; give at least 1"):
        two(2e13, 2e13).first_gpus(0)
    with pytest.raises(InputError, match=r"network\.ring is 'star'; known: gpus, nodes"):
        NetworkConfig(name="wire", bytes_per_second=1e9, ring="star")


def test_a_job_has_the_slowest_link_of_its_nodes_alone():
    slow, fast = node(1e13), replace(node(2e13), link_bytes_per_second=3e10)
    network = NetworkConfig(name="wire", bytes_per_second=1e9)
    for nodes, of_one in (((slow, fast), 1e10), ((fast, slow), 3e10)):
        mixed = ClusterConfig(name="mixed", nodes=nodes, network=network)
        links = [mixed.fabric(mixed.first_gpus(gpus)).link_bytes_per_second for gpus in (1, 2)]
        assert links == [of_one, 1e10]


def test_a_job_that_takes_a_few_gpus_of_a_large_node_exchanges_among_those():
    large = replace(node(2e13), gpus=8)
    network = NetworkConfig(name="wire", bytes_per_second=1e9, ring="nodes")
    mixed = ClusterConfig(name="mixed", nodes=(replace(large, gpus=4), large), network=network)
    assert mixed.fabric(mixed.first_gpus(4 + 2)).gpus_per_node == 4
    assert mixed.fabric(mixed.first_gpus(4 + 8)).gpus_per_node == 8


def test_the_search_for_efficiency_ends_at_a_last_whole_node():
    assert Plan(cluster("dgx1v_ethernet"), PAPER).most_looked_at == 4096
    assert Plan(cluster("h200"), PAPER).most_looked_at == 8  # without a network: all it has
