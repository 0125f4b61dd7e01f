"""The step-time model: against tables worked out or measured elsewhere, its limits, its lemma."""

import math
from dataclasses import replace

import numpy as np
import pytest

from experiments.scaling.publication.explanation import tokens_for
from mlstm_sentiment.errors import InputError
from model.layers.config import ModelConfig
from scaling.step_time import Fabric, Synchronisation, _exposed_seconds, step_time
from scaling.workload import Workload

COMPUTING, OVERHEAD = 0.807, 0.027  # seconds: a V100's step at 4,096 units, and the rest
PARAMETERS = 86_300_000
DGX = Fabric(gpus_per_node=8, link_bytes_per_second=60e9, network_bytes_per_second=1.21e9)
FP32 = Synchronisation(bytes_per_parameter=4)
DEFERRED = Synchronisation(chunks=5, overlap=1 / 3)
EVERY_FOURTH = Synchronisation(windows=4)


def scalings(network, how=Synchronisation(), *, overhead=OVERHEAD, gpus=(16, 32, 64, 128)):  # noqa: B008
    fabric = replace(DGX, network_bytes_per_second=network)
    steps = {p: step_time(COMPUTING, PARAMETERS, p, fabric, how, overhead=overhead) for p in gpus}
    return [p * step.efficiency for p, step in steps.items()]


def test_ethernet_follows_from_its_wire_rate_with_nothing_fitted():
    predicted = scalings(1.25e9 * 0.94, overhead=0.0, gpus=(8, 16, 32, 64, 128))
    assert predicted == pytest.approx([8.0, 11.9, 23.7, 47.1, 94.0], abs=0.06)


# 4,096 units at 16, 32, 64, 128 GPUs, worked out before this code was written, to one decimal.
TABLE = [
    (1.21e9, Synchronisation(), [11.7, 23.3, 46.3, 92.5]),
    (1.21e9, FP32, [9.4, 18.6, 37.0, 73.8]),
    (1.21e9, DEFERRED, [14.5, 28.8, 57.4, 114.5]),
    (1.21e9, EVERY_FOURTH, [14.3, 28.6, 57.1, 114.2]),
    (11e9, Synchronisation(), [15.0, 29.9, 59.7, 119.4]),
    (11e9, FP32, [14.5, 28.9, 57.7, 115.2]),
    (11e9, DEFERRED, [15.4, 30.7, 61.5, 122.9]),
    (11e9, EVERY_FOURTH, [15.3, 30.7, 61.4, 122.7]),
]


@pytest.mark.parametrize(("network", "how", "expected"), TABLE)
def test_the_table_of_predictions(network, how, expected):
    assert scalings(network, how) == pytest.approx(expected, abs=0.11)


def test_nodes_emulated_over_limited_links():
    """Measured with one sleeping rank a node, a hundredth of the bytes over 100 Mb/s."""
    fabric = replace(DGX, link_bytes_per_second=math.inf, ring="nodes")
    fabric = replace(fabric, network_bytes_per_second=0.95 * 1.25e9)
    measured = {
        Synchronisation(): {16: 13.4, 32: 24.9, 64: 48.3, 128: 94.9},
        FP32: {16: 11.6, 32: 20.2, 64: 38.5, 128: 73.9},
        DEFERRED: {16: 15.4, 32: 30.4, 64: 58.9, 128: 116.6},
    }
    for how, points in measured.items():
        for gpus, point in points.items():
            predicted = gpus * step_time(0.79, PARAMETERS, gpus, fabric, how).efficiency
            assert predicted == pytest.approx(point, rel=0.03)


def test_limits_latencies_and_rings():
    gpus = 128
    free = replace(DGX, link_bytes_per_second=math.inf, network_bytes_per_second=math.inf)
    assert step_time(COMPUTING, PARAMETERS, gpus, free).efficiency == 1
    seldom = step_time(COMPUTING, PARAMETERS, gpus, DGX, Synchronisation(windows=10**9))
    assert seldom.efficiency == pytest.approx(1)
    alone = step_time(COMPUTING, PARAMETERS, 1, DGX, overhead=1.0, jitter=1.0)
    assert alone.seconds == COMPUTING
    slow = replace(DGX, network_bytes_per_second=1.0)
    assert gpus * step_time(COMPUTING, PARAMETERS, gpus, slow).efficiency < 1e-6
    late = replace(DGX, latency_seconds=0.5)
    added = [late.all_reduce_seconds(1, p) - DGX.all_reduce_seconds(1, p) for p in (8, 16, 64)]
    assert added == pytest.approx([0.0, 0.5, 1.5])
    piece = late.all_reduce_seconds(PARAMETERS / 5, 64)  # every piece has it
    assert late.all_reduce_seconds(PARAMETERS, 64, pieces=5) == pytest.approx(5 * piece)
    for link, network in ((1.0, 4.0), (4.0, 1.0)):  # a ring is as fast as its slower link
        ring = replace(DGX, link_bytes_per_second=link, network_bytes_per_second=network)
        assert ring.all_reduce_seconds(1.0, 16) == 2 * 15 / 16
    per_node = replace(DGX, link_bytes_per_second=math.inf, network_bytes_per_second=1.0)
    assert per_node.all_reduce_seconds(1.0, 16) == 1.875
    assert replace(per_node, ring="nodes").all_reduce_seconds(1.0, 16) == 1.0


def simulated(communication, computing, how):
    """Send m chunks one after the other as they become ready; return what is left at the end."""
    done = start = computing * (1 - how.overlap)
    for number in range(1, how.chunks + 1):
        ready = start + computing * how.overlap * number / how.chunks
        done = max(done, ready) + communication / how.chunks
    return done - computing


@pytest.mark.parametrize("chunks", [1, 2, 5])
@pytest.mark.parametrize("overlap", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("communication", [0.01, 0.2, 3.0])
def test_what_overlap_hides_is_that_of_a_simulated_queue(chunks, overlap, communication):
    how = Synchronisation(chunks=chunks, overlap=overlap)
    expected = simulated(communication, 0.8, how)
    assert _exposed_seconds(communication, 0.8, how) == pytest.approx(expected)


def test_gpus_wait_for_each_other_only_when_they_synchronize():
    """Draw every window of every GPU; after k windows all wait for the slowest sum."""
    windows, gpus, jitter = 4, 64, 0.1
    draws = 1 + jitter * np.random.default_rng(0).standard_normal((4000, windows, gpus))
    slowest = draws.sum(axis=1).max(axis=1).mean() / windows
    free = replace(DGX, link_bytes_per_second=math.inf, network_bytes_per_second=math.inf)
    how = Synchronisation(windows=windows)
    step = step_time(1.0, PARAMETERS, gpus, free, how, jitter=jitter)
    assert 0 < 1 + step.straggling - slowest < 0.25 * (slowest - 1)


def test_the_lemma_is_the_model_of_many_gpus():
    rate, network = 42e12, 1.21e9
    tokens = tokens_for(0.9, rate, network)
    assert tokens == pytest.approx(6 * rate / network)
    assert tokens == pytest.approx(208_000, rel=0.01)
    seconds = tokens * Workload(PARAMETERS, PARAMETERS, PARAMETERS).operations_per_token / rate
    fabric = replace(DGX, network_bytes_per_second=network)
    reached = step_time(seconds, PARAMETERS, 80_000, fabric).efficiency
    assert reached == pytest.approx(0.9, rel=1e-4)


@pytest.mark.parametrize(("H", "E", "V", "L"), [(12, 6, 256, 1), (12, 6, 256, 3), (7, 5, 300, 1)])
def test_the_workload_is_that_of_the_layers_and_the_decoder(H, E, V, L):
    sizes = {"hidden_size": H, "embedding_size": E, "vocabulary_size": V, "layers": L}
    for weight_norm in (True, False):
        workload = Workload.of(ModelConfig(**sizes, weight_norm=weight_norm))
        assert workload.recurrent_weights == 5 * L * H**2
        inputs = 5 * H * (E + (L - 1) * H)
        assert workload.product_weights == inputs + workload.recurrent_weights + H * V
        others = V * E + 4 * L * H + V + (10 * L * H if weight_norm else 0)
        assert workload.parameters == workload.product_weights + others


def test_the_published_models_are_as_large_as_they_were():
    small, large = (Workload.of(ModelConfig(hidden_size=size)) for size in (4096, 8192))
    assert (small.parameters, large.parameters) == (86_319_360, 340_394_240)
    assert small.operations_per_token == pytest.approx(518e6, rel=2e-3)  # as 6 P
    assert large.operations_per_token / small.operations_per_token == pytest.approx(3.945, abs=5e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Synchronisation(windows=0), "at least 1"),
        (lambda: Synchronisation(overlap=1.5), "overlap"),
        (lambda: Workload.of(ModelConfig(cell="lstm")), "lstm"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
