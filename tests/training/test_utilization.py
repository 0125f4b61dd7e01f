"""Memory, MFU and the fraction of the limit in the rows of a run on GPUs, by stand-ins."""

from types import SimpleNamespace

import pytest
import torch

from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from scaling.workload import Workload
from tests.support.trainers import make_trainer
from training.parallel.distributed import World
from training.throughput import ThroughputMeter, utilization_of
from training.utilization import PEAKS, Utilization, limit_seconds, operations_per_token, peak_of

H200 = PEAKS["H200"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100.*40GB"),
        ("NVIDIA A10G", "A10G?"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_a_gpu_is_known_by_its_name(name, expected):
    assert peak_of(name) == PEAKS.get(expected)


def test_the_limit_is_that_of_the_products_or_of_reading_the_weights():
    """Microseconds for a byte of all lanes on an H200, from its data sheet."""

    def limit(units, lanes, dtype=torch.bfloat16):
        return 1e6 * limit_seconds(5 * units**2, lanes, dtype, H200)

    assert limit(4096, 256) == pytest.approx(3 * 43.43, rel=1e-3)
    assert limit(8192, 96) == pytest.approx(2 * 139.8 + 65.1, rel=1e-3)  # reads longer
    assert limit(4096, 256, torch.float32) == pytest.approx(3 * 641, rel=1e-3)


@pytest.mark.parametrize("config", [{}, {"layers": 2}, {"weight_norm": False}])
def test_operations_are_those_of_the_performance_model(config):
    made = ModelConfig(hidden_size=32, **config)
    expected = Workload.of(made).operations_per_token
    assert operations_per_token(build_model(made, 0)) == expected


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
        return Utilization.of(Gpus(0, 2, torch.device("cuda", 0)), model, 256), model

    return start


def test_a_row_of_gpus_says_how_much_of_them_is_used(on_gpus):
    measured, model = on_gpus("NVIDIA H200")
    row = measured.row(10e6)
    assert row["peak_memory_bytes"] == 5 << 30
    assert row["mfu"] == pytest.approx(10e6 * operations_per_token(model) / (2 * 989e12))
    limit = 2 * 256 / limit_seconds(5 * 1024**2, 256, torch.bfloat16, H200)
    assert row["fraction_of_limit"] == pytest.approx(10e6 / limit)
    assert 0 < row["mfu"] < 1


@pytest.mark.parametrize(
    ("name", "other", "cell", "keys"),
    [
        ("NVIDIA Thing", 1.0, "mlstm", {"peak_memory_bytes"}),
        ("NVIDIA H200", 0.0, "mlstm", {"peak_memory_bytes"}),  # one rank's is not known
        ("NVIDIA H200", 1.0, "lstm", {"peak_memory_bytes", "mfu"}),
    ],
)
def test_what_is_not_known_is_left_out(on_gpus, name, other, cell, keys):
    measured, _ = on_gpus(name, other, cell)
    assert measured.row(1e6).keys() == keys


def test_the_meter_adds_it_to_its_rows(on_gpus):
    measured, _ = on_gpus("NVIDIA H200")
    now = iter([0.0, 2.0])
    still = SimpleNamespace(clock=SimpleNamespace(lap=lambda: 0.0), sent_bytes=0.0)
    alone = World(0, 1, torch.device("cpu"))
    meter = ThroughputMeter(
        alone, still, SimpleNamespace(waited=0.0), measured, clock=lambda: next(now)
    )
    meter.advance(4_000_000, 1.0)
    assert meter.close_row()["mfu"] == measured.row(2e6)["mfu"]


def test_nothing_is_measured_on_a_cpu():
    assert utilization_of(make_trainer(), 1.0) is None
