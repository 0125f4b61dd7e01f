"""Which precision `auto` is, and when losses are scaled."""

import os

import pytest
import torch

from model.kernels.cores import EMULATED_AMX
from tests.support.trainers import ALONE, CPU, make_trainer, make_window
from training.parallel.batch import as_batch
from training.parallel.distributed import World
from training.parallel.exchange import ParallelConfig
from training.precision import agreed_precision, make_loss_scaler

INTEL, AMD = "Intel Xeon Platinum 8481C", "AMD EPYC 9R14"  # as torch names them


def simulate(monkeypatch, processor, instructions, *limits):
    """Stand in for what is read of the processor, and for oneDNN's two variables."""
    capabilities = {"cpu_name": processor, **dict.fromkeys(instructions, True)}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    monkeypatch.delenv(EMULATED_AMX, raising=False)
    for name, limit in zip(("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"), limits, strict=True):
        monkeypatch.setenv(name, limit)


@pytest.mark.parametrize(
    ("processor", "instructions", "limits", "expected"),
    [
        (INTEL, {"amx_bf16"}, ("", ""), "bf16"),
        (INTEL, {"amx_bf16"}, ("AVX512_CORE_BF16", ""), "fp32"),
        (INTEL, {"avx512_bf16", "amx_bf16"}, ("AVX512_CORE_BF16", ""), "fp32"),
        (INTEL, {"avx512_bf16"}, ("", ""), "fp32"),
        (AMD, {"avx512_bf16"}, ("", ""), "bf16"),
        (AMD, {"avx512_bf16"}, ("avx512_core_vnni", ""), "fp32"),
        (AMD, {"avx512_bf16"}, ("", "AVX2"), "fp32"),
        (AMD, {"avx512_bf16"}, ("DEFAULT", "AVX2"), "bf16"),  # as oneDNN: the second is not read
        (AMD, {"avx512_f"}, ("", ""), "fp32"),
    ],
)
def test_auto_is_bf16_if_the_processor_multiplies_it_fast(
    monkeypatch, processor, instructions, limits, expected
):
    simulate(monkeypatch, processor, instructions, *limits)
    assert agreed_precision(ALONE, "auto") == expected


@pytest.mark.processor
@pytest.mark.skipif("ATEN_CPU_CAPABILITY" not in os.environ, reason="no processor is simulated")
def test_a_simulated_processor_has_no_other_instructions():
    """tests/support/processors.py simulates it in a process that has imported torch."""
    assert torch.backends.cpu.get_cpu_capability().lower() == os.environ["ATEN_CPU_CAPABILITY"]


@pytest.mark.processor
def test_auto_is_fp32_if_torch_cannot_tell(monkeypatch):
    monkeypatch.delenv(EMULATED_AMX, raising=False)
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert agreed_precision(ALONE, "auto") == "fp32"


@pytest.mark.parametrize(
    ("capability", "expected", "warned"),
    [
        ((6, 0), "fp32", False),
        ((7, 0), "fp32", True),
        ((7, 5), "fp32", True),
        ((8, 0), "bf16", False),
    ],
)
def test_auto_says_where_fp16_is_faster(monkeypatch, caplog, capability, expected, warned):
    """Tensor cores of V100 and T4 multiply fp16, but not bf16."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch, "tensor", lambda value, **_: torch.as_tensor(value))
    assert agreed_precision(World(0, 1, torch.device("cuda")), "auto") == expected
    assert ("fp16 is faster here" in caplog.text) is warned


@pytest.mark.parametrize(
    ("precision", "ranks", "compression", "scale"),
    [
        ("fp32", 1, "fp16", 1.0),  # nothing is sent
        ("bf16", 1, "none", 1.0),
        ("fp16", 1, "none", 65536.0),
        ("bf16", 2, "none", 1.0),
        ("bf16", 2, "fp16", 65536.0),
    ],
)
def test_losses_are_scaled_where_something_is_in_fp16(precision, ranks, compression, scale):
    config = ParallelConfig(compression=compression)
    scaler = make_loss_scaler(precision, World(0, ranks, CPU), config)
    assert scaler.scale(torch.tensor(1.0)).item() == scale
    if scaler.is_enabled():  # it doubles after as many clean steps as in 2018
        assert (scaler.get_growth_interval(), scaler.get_growth_factor()) == (1000, 2.0)


@pytest.mark.parametrize(
    ("asked", "instructions", "reported"),
    [
        ("bf16", set(), True),
        ("bf16", {"avx512_bf16"}, False),
        ("fp16", {"avx512_bf16"}, True),
        ("fp16", {"avx512_fp16"}, False),
        ("fp32", set(), False),
    ],
)
def test_a_dtype_that_the_hardware_multiplies_slowly_is_reported(
    monkeypatch, caplog, asked, instructions, reported
):
    simulate(monkeypatch, AMD, instructions, "", "")
    assert agreed_precision(ALONE, asked) == asked
    words = f"train.precision {asked}: slow on this hardware; --train.precision fp32 is faster"
    assert (words in caplog.text) is reported


@pytest.mark.parametrize("before", [(True, True), (False, True), (False, False)])
def test_sums_in_16_bits_are_off_during_a_step_and_restored_after_it(before):
    matmul = torch.backends.cuda.matmul
    names = [f"allow_{dtype}_reduced_precision_reduction" for dtype in ("fp16", "bf16")]

    def settings():
        return [(getattr(matmul, name), getattr(matmul, f"{name}_split_k")) for name in names]

    def fail(*inputs, **options):
        seen.append(settings())
        raise RuntimeError("out of memory")

    seen, original = [], settings()
    trainer = make_trainer()
    trainer.model.loss = fail
    try:
        for name in names:
            setattr(matmul, name, before)
        with pytest.raises(RuntimeError, match="out of memory"):
            trainer.train(as_batch(make_window(), CPU))
        assert seen == [[(False, before[1])] * 2]
        assert settings() == [before] * 2
    finally:
        for name, setting in zip(names, original, strict=True):
            setattr(matmul, name, setting)
