"""Where a step's time goes, and how much of a GPU it uses, by stand-ins."""

from types import SimpleNamespace

import pytest
import torch

from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from training.parallel.distributed import World
from training.throughput import ThroughputMeter, Times, bottleneck
from training.utilization import PEAKS, Utilization, limit_seconds, operations_per_token, peak_of


def times(total=10.0, exposed=0.0, waited=0.0, characters=1000.0):
    return Times(total, exposed, waited, characters, 0.0)


def test_a_pause_is_not_in_a_lap_and_a_line_takes_nothing_from_the_row():
    now = iter([0.0, 3.0, 5.0, 105.0, 108.0, 110.0, 117.0])
    exchange = SimpleNamespace(clock=SimpleNamespace(lap=lambda: 0.0), sent_bytes=0.0)
    world = World(0, 1, torch.device("cpu"))
    trainer = SimpleNamespace(own_fraction=1.0, world=world, exchange=exchange)
    prefetcher = SimpleNamespace(waited=0.0)
    meter = ThroughputMeter(trainer, prefetcher, clock=lambda: next(now))  # at 0
    meter.advance(840)
    assert meter.line() == {"characters_per_second": 840 / 3}
    with meter.paused():  # 5 to 105
        pass
    assert meter.line() == {"characters_per_second": 840 / 8}  # at 108, since 0
    assert meter.close_row()["characters_per_second"] == 840 / 10  # at 110, since 0
    meter.advance(840)
    assert meter.close_row()["characters_per_second"] == 840 / 7  # at 117, since 110
    now = iter([0.0, 4.0, 5.0])
    meter = ThroughputMeter(trainer, prefetcher, clock=lambda: next(now))
    meter.advance(1000)
    assert meter.line() == {"characters_per_second": 250.0}
    meter.advance(1000)
    assert meter.line() == {"characters_per_second": 400.0}
    assert (meter.steps, meter.characters) == (2, 2000)


class Cluster:
    """Two ranks whose clocks, exchanges and prefetchers say what a test sets."""

    size, device = 2, "cpu"

    def __init__(self):
        self.now, self.exposed, self.other = 0.0, [], None
        self.exchange = SimpleNamespace(clock=SimpleNamespace(lap=self.exposed.pop), sent_bytes=0.0)
        self.prefetcher = SimpleNamespace(waited=0.0)

    def gather(self, own):
        return torch.stack([own, torch.tensor(self.other, dtype=own.dtype)])

    def work(self, *, seconds, exposed, waited, sent_bytes, other):
        """Let a row's time pass; other: the `Times` of rank 1."""
        self.now += seconds
        self.prefetcher.waited += waited
        self.exchange.sent_bytes += sent_bytes
        self.exposed.append(exposed)
        self.other = other


def test_a_row_has_the_speeds_since_the_one_before():
    cluster = Cluster()
    cluster.now = 100.0
    on_gpus = SimpleNamespace(row=lambda speed: {"mfu": speed / 1e4})
    trainer = SimpleNamespace(world=cluster, exchange=cluster.exchange, own_fraction=0.25)
    meter = ThroughputMeter(trainer, cluster.prefetcher, on_gpus, clock=lambda: cluster.now)
    for _ in range(2):
        meter.advance(6000)
    cluster.work(
        seconds=10.0, exposed=4.0, waited=1.0, sent_bytes=600.0,
        other=[10.0, 0.5, 0.5, 9000.0, 600.0],
    )  # fmt: skip
    assert meter.close_row() == {
        "characters_per_second": 1200.0,  # 2 * 6,000 in 10 s, by both ranks
        "data_wait_seconds": 0.5,  # a step's, of the rank that waits most
        "exposed_seconds": 1.125,  # a step's, of the mean rank
        "sent_bytes": 300.0,
        "rank_characters_per_second": [600.0, 1000.0],  # 3,000 in 5 s, 9,000 in 9 s
        "slowest_rank": 1,
        "bottleneck": "straggler 18%",  # the 3.5 s that rank 0 waits longer, of 20
        "mfu": 0.12,
    }
    trainer.own_fraction = 0.5
    meter.advance(1000)
    cluster.work(
        seconds=4.0, exposed=0.5, waited=0.25, sent_bytes=300.0,
        other=[4.0, 1.0, 0.0, 500.0, 300.0],
    )  # fmt: skip
    assert meter.close_row() == {
        "characters_per_second": 250.0,
        "data_wait_seconds": 0.25,
        "exposed_seconds": 0.75,
        "sent_bytes": 300.0,
        "rank_characters_per_second": [153.8, 166.7],  # 500 in 3.25 s, 500 in 3 s
        "slowest_rank": 0,
        "bottleneck": "communication 12%",  # of 8 s, the 0.5 that each rank waits at least
        "mfu": 0.025,
    }


def test_ranks_leave_a_pause_together():
    """No rank counts another's evaluation as its own computing or waiting."""
    events = []
    world = SimpleNamespace(barrier=lambda: events.append("met"))
    meter = ThroughputMeter(SimpleNamespace(world=world), prefetcher=None)
    before = meter._started
    with meter.paused():
        events.append("evaluated")
    assert events == ["evaluated", "met"]
    assert meter._started > before
    with pytest.raises(KeyboardInterrupt), meter.paused():
        raise KeyboardInterrupt
    assert events == ["evaluated", "met"]  # a rank that fails keeps none waiting for itself


@pytest.mark.parametrize(
    ("ranks", "named"),
    [
        ([times()], "compute"),
        ([times(exposed=0.5), times(exposed=0.9)], "compute"),
        ([times(exposed=4.0), times(exposed=3.0)], "communication 30%"),
        ([times(exposed=0.5), times(exposed=6.0), times(exposed=6.0)], "straggler 37%"),
        ([times(waited=2.0)], "input 20%"),
    ],
)
def test_what_holds_the_step_up_is_named(ranks, named):
    assert bottleneck(ranks) == named


H200 = PEAKS["H200"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100.*40GB"),
        ("NVIDIA A10G", "A10G?"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA GeForce RTX 9999", None),
        ("NVIDIA H100 80GB HBM3 MIG 9g.1gb", None),
    ],
)
def test_a_gpu_is_known_by_its_name(name, expected):
    assert peak_of(name) == PEAKS.get(expected)


@pytest.mark.parametrize(
    ("name", "processors", "memory"),
    [
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 1 / 7, 1 / 8),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 3 / 7, 1 / 2),
        ("NVIDIA A100-SXM4-80GB MIG 7g.80gb", 1, 1),
    ],
)
def test_a_slice_of_a_gpu_has_its_fraction_of_the_peak(name, processors, memory):
    whole, part = PEAKS["A100"], peak_of(name)
    assert part.operations == pytest.approx(whole.operations * processors)
    assert part.operations_in_fp32 == pytest.approx(whole.operations_in_fp32 * processors)
    assert part.bytes == pytest.approx(whole.bytes * memory)


def test_the_limit_is_that_of_the_products_or_of_reading_the_weights():
    """The limits are microseconds for a byte of all lanes on an H200, from its data sheet."""

    def limit(units, lanes, dtype=torch.bfloat16):
        return 1e6 * limit_seconds(5 * units**2, lanes, dtype, H200)

    assert limit(4096, 256) == pytest.approx(3 * 43.43, rel=1e-3)
    assert limit(8192, 96) == pytest.approx(2 * 139.8 + 65.1, rel=1e-3)  # reads longer
    assert limit(4096, 256, torch.float32) == pytest.approx(3 * 641, rel=1e-3)


class Gpus(World):
    """Two ranks, of which the other one has the same numbers, or no known GPU."""

    other = 1.0

    def gather(self, own):
        other = type(self).other
        return torch.stack([own, torch.as_tensor(own * other, dtype=own.dtype)])


@pytest.fixture
def on_gpus(monkeypatch):
    def start(name, other=1.0, cell="mlstm"):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 5 << 30)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
        monkeypatch.setattr(Gpus, "other", other)
        tensor = torch.tensor
        monkeypatch.setattr(torch, "tensor", lambda v, **kw: tensor(v, dtype=kw.get("dtype")))
        model = build_model(ModelConfig(hidden_size=1024, cell=cell), 0, torch.bfloat16)
        return Utilization(Gpus(0, 2, torch.device("cuda", 0)), model, 256), model

    return start


def test_a_row_of_gpus_says_how_much_of_them_is_used(on_gpus):
    measured, model = on_gpus("NVIDIA H200")
    row = measured.row(10e6)
    assert row["peak_memory_bytes"] == 5 << 30
    assert row["mfu"] == pytest.approx(10e6 * operations_per_token(model) / (2 * 989e12))
    limit = 2 * 256 / limit_seconds(5 * 1024**2, 256, torch.bfloat16, H200)
    assert row["fraction_of_limit"] == pytest.approx(10e6 / limit)
    assert 0 < row["mfu"] < 1
    for unknown in (("NVIDIA Thing",), ("NVIDIA H200", 0.0)):  # the other rank's
        assert on_gpus(*unknown)[0].row(1e6).keys() == {"peak_memory_bytes"}
