"""The scale model: what is sent, when gradients leave, what is foretold, which runs count."""

import math
import time
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

from experiments.scaling import emulated, readings
from experiments.scaling.emulation import machine, schedule
from experiments.scaling.emulation.gates import Run, disturbances
from experiments.scaling.emulation.points import NODES, Study
from experiments.scaling.emulation.scale import Scale, correction, gpus_of
from experiments.scaling.emulation.schedule import BACKWARD, Leaf, in_buckets
from model.errors import InputError
from model.files.storage import read_json
from scaling import step_time
from scaling.step_time import Fabric, Synchronisation

PROFILES = read_json(emulated.PROFILES)
PARAMETERS = 86_319_360  # of 4,096 units (reference: the published models)


@pytest.fixture(scope="module")
def study():
    return Study(Scale(), PROFILES)


def test_a_ring_of_nodes_loads_a_link_as_one_of_all_gpus():
    """By hand: 2 (p - 1) / p of all GPUs over 2 (N - 1) / N."""
    expected = [
        (15 / 16) / (1 / 2),
        (31 / 32) / (3 / 4),
        (63 / 64) / (7 / 8),
        (127 / 128) / (15 / 16),
    ]
    assert [correction(nodes) for nodes in NODES] == pytest.approx(expected, rel=1e-12)
    assert [gpus_of(nodes) for nodes in NODES] == [16, 32, 64, 128]


def test_every_point_sends_what_the_cluster_would(study):
    for group in study.parts(["ethernet", "today", "buckets"]):
        for point in group:
            numbers = sum(math.prod(leaf["shape"]) for leaf in point.case["leaves"])
            sent = step_time.ring_seconds(2 * numbers, point.nodes, 1.0)
            p = gpus_of(point.nodes)
            assert sent * 100 == pytest.approx(2 * (p - 1) / p * 2 * PARAMETERS, rel=1e-4)


def test_links_and_bytes_shrink_by_one_factor_so_that_seconds_stay():
    ethernet = 10e9 / 8 * 1448 / 1538  # TCP's payload of a frame over its bytes on the wire
    for factor, stretch in ((1.0, 1.0), (100.0, 1.0), (100.0, 2.0)):
        scale = Scale(factor=factor, stretch=stretch)
        seconds = PARAMETERS * 2 / factor / scale.payload_bytes_per_second
        assert seconds == pytest.approx(stretch * PARAMETERS * 2 / ethernet)
        assert scale.computing_seconds() == pytest.approx(stretch * readings.COMPUTING_SECONDS)
    # tc counts 14 bytes of header, not the 24 of preamble, checksum and gap
    assert Scale().rate == f"{100_000 * 1514 / 1538:.0f}kbit"
    with pytest.raises(InputError, match="--factor"):
        Scale(factor=0.5)


def test_the_curve_foretold_is_the_closed_form(study):
    """Against the model of the published figure, with no overhead and NVLink out of the way."""
    bandwidth = Scale(factor=1.0).payload_bytes_per_second
    fabric = Fabric(gpus_per_node=8, link_bytes_per_second=60e9, network_bytes_per_second=bandwidth)
    for (point,) in study.parts(["ethernet"]):
        p, computing = gpus_of(point.nodes), readings.COMPUTING_SECONDS
        expected = step_time.step_time(computing, PARAMETERS, p, fabric).seconds
        assert point.predicted == pytest.approx(expected, rel=1e-5)
        published = dict(zip(readings.GPUS, readings.SCALING["ethernet_4096"], strict=True))[p]
        assert p * computing / point.predicted == pytest.approx(published, rel=0.03)


def test_todays_schedule_is_near_the_planners_closed_form(study):
    """Five equal chunks over the last 0.29 of computing (measured in experiments/exchange)."""
    for every, fourth in study.parts(["today"]):
        communication = 2 * (127 / 128) * 2 * PARAMETERS / 1.1769e9
        how = Synchronisation(chunks=5, overlap=0.29)
        closed = step_time.exposed_seconds(communication, readings.COMPUTING_SECONDS, how)
        assert every.predicted - every.computing == pytest.approx(closed, abs=0.04)
        # of four windows one exchanges
        assert fourth.computing == pytest.approx(4 * every.computing)
        exposed = fourth.predicted - fourth.computing
        assert exposed == pytest.approx(every.predicted - every.computing)


@pytest.mark.parametrize("chunks", [1, 2, 5])
@pytest.mark.parametrize("communication", [0.01, 0.2, 3.0])
def test_equal_pieces_are_exposed_as_the_closed_form_says(chunks, communication):
    overlap, computing, nodes = 0.4, 0.8, 4
    numbers = communication / step_time.ring_seconds(2.0, nodes, 1.0) / chunks
    moments = [1 - overlap * (1 - (k + 1) / chunks) for k in range(chunks)]  # of computing
    pieces = [Leaf(numbers, 1 - (1 - moment) / BACKWARD) for moment in moments]
    found = schedule.exposed_seconds(pieces, computing, nodes, 1.0)
    how = Synchronisation(chunks=chunks, overlap=overlap)
    assert found == pytest.approx(step_time.exposed_seconds(communication, computing, how))


@pytest.mark.parametrize("cap", [1, 300, 1000, 10**6])
def test_buckets_are_those_of_ddp(cap):
    sizes = [10, 200, 3, 90, 90, 90, 500, 1, 1]
    tensors = [torch.empty(size) for size in sizes]
    indices, _ = dist._compute_bucket_assignment_by_size(tensors, [cap])
    expected = [sum(sizes[i] for i in bucket) for bucket in indices]
    leaves = [Leaf(size, (k + 1) / len(sizes)) for k, size in enumerate(sizes)]
    found = in_buckets(leaves, cap)
    assert [bucket.numbers for bucket in found] == expected
    assert found[-1].ready == 1.0


def test_leaves_are_those_of_4096_units():
    for kind, gates in (("one by one", 4), ("per byte", 0)):
        leaves = schedule.recorded(PROFILES, kind)
        assert sum(leaf.numbers for leaf in leaves) == PARAMETERS
        assert sum(leaf.numbers == 4096**2 for leaf in leaves) == gates + 1  # w_mh
        assert [leaf.ready for leaf in leaves] == sorted(leaf.ready for leaf in leaves)
    with pytest.raises(InputError, match="of 256 units"):
        schedule.recorded({**PROFILES, "settings": {"hidden_size": 256}}, "per byte")
    even = schedule.feed_forward(100, 4)
    assert [(leaf.numbers, leaf.ready) for leaf in even] == [(25, 0.25 * k) for k in (1, 2, 3, 4)]


def test_no_point_is_measured_for_two_parts(study):
    names = ["ethernet", "today", "allreduce", "buckets", "skipped"]
    points = [point for group in study.parts(names) for point in group]
    assert len({point.key for point in points}) == len(points)
    alone = sum(len(group) for name in names for group in study.parts([name]))
    assert alone - len(points) == 4 + 8  # 2018's and today's, both in `skipped` again
    seconds = sum(point.expected_seconds for point in points)
    assert seconds < 20 * 60
    with pytest.raises(InputError, match="--only nothing"):
        study.parts(["nothing"])
    assert {p.nodes for g in replace(study, most_nodes=2).parts(names) for p in g} == {2}
    (group,) = replace(study, least_nodes=16).parts(["ethernet"])
    assert [point.nodes for point in group] == [16]


def quiet(**changes):
    """A run that nothing disturbed, but for the changes."""
    facts = {
        "seconds": [1.0, 1.01, 1.0, 0.99, 1.0],
        "late": [0.001] * 5,
        "computing": 0.8,
        "others": 0.01,
        "traffic": 0.1,
    }
    return Run(**{**facts, **changes})


DISTURBED = {
    "others": {"others": 0.11},
    "traffic": {"traffic": 0.5},
    "overshoot": {"late": [0.0, 0.016, 0.016, 0.016, 0.0]},
}


def test_a_quiet_run_counts():
    run = quiet()
    assert disturbances(run.measures()) == {}
    assert run.median == 1.0
    assert run.quartiles == (1.0, 1.0)
    assert run.measures()["overshoot"] == pytest.approx(0.001 / 0.8)


@pytest.mark.parametrize("gate", DISTURBED)
def test_each_gate_leaves_out_what_is_not_below_its_limit(gate):
    assert list(disturbances(quiet(**DISTURBED[gate]).measures())) == [gate]


def test_what_a_run_came_to_is_held_against_nothing():
    assert quiet(seconds=[9.0, 1.0, 5.0, 0.1, 7.0]).measures() == quiet().measures()


def test_an_exchange_alone_computes_nothing_late():
    assert list(quiet(computing=0.0).measures()) == ["others", "traffic"]


def test_no_number_at_all_is_no_run_that_counts():
    assert "others" in disturbances(quiet(others=float("nan")).measures())


def test_others_are_what_is_neither_ours_nor_idle(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "STAT", tmp_path / "stat")

    def at(user, nice, system, idle, iowait, irq, softirq, steal):
        columns = [user, nice, system, idle, iowait, irq, softirq, steal]
        (tmp_path / "stat").write_text(f"cpu  {' '.join(map(str, columns))} 0 0\ncpu0 1\n")
        return machine.Snapshot.now([])

    before, after = at(10, 0, 0, 100, 0, 0, 0, 0), at(40, 10, 10, 200, 5, 5, 40, 10)
    assert after.total - before.total == 210
    assert after.others_since(before) == pytest.approx((30 + 10 + 10 + 10) / 210)
    ours = replace(after, own=50)
    assert ours.others_since(before) == pytest.approx(10 / 210)
    assert before.others_since(before) == 0.0


def test_a_process_has_its_ticks():
    begun = machine.ticks_of(machine.os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert machine.ticks_of(machine.os.getpid()) > begun
    assert machine.ticks_of(2**22 + 1) == 0  # there is none


def test_more_ranks_than_memory_holds_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "MEMORY", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:  2000000 kB\n")
    machine.require_memory(4)
    with pytest.raises(InputError, match=r"16 ranks take 4\.0 GB"):
        machine.require_memory(16)
