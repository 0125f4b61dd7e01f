"""What only a GPU can show: the recurrence and training there, against the CPU in fp64."""

import pytest
import torch

from model.language_model import ModelConfig, build_model
from tests.model.test_recurrence import make_inputs, run
from tests.runs import rows_of, small_run
from tests.runs import run as run_command

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_recurrence_on_the_gpu_equals_fp64(backend, dtype):
    T, B, H = 32, 16, 128
    exact = make_inputs(torch.float64, T, B, H)
    with torch.no_grad():
        for weight in exact[3:5]:
            weight /= H**0.5
    inputs = [
        tensor.detach().to(dtype if index in (0, 1, 3, 4) else torch.float32).cuda()
        for index, tensor in enumerate(exact)
    ]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    results = []
    for name, given in (("reference", exact), (backend, inputs)):
        outputs = run(name, *given)
        loss = sum(out.double().square().sum() for out in outputs)
        results.append((*outputs, *torch.autograd.grad(loss, given)))
    tolerance = 4 * torch.finfo(dtype).eps * (T * 4 * H) ** 0.5
    for expected, actual in zip(*results, strict=True):
        error = (actual.cpu().double() - expected).norm() / expected.norm()
        assert error <= tolerance


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_training_on_the_gpu_follows_the_cpu(precision, tmp_path):
    changes = {"train.precision": precision, "optim.clip_norm": 1.0}
    for device in ("cpu", "cuda"):
        process = run_command(
            *small_run(
                tmp_path / device,
                40,
                **{**changes, "train.device": device},
            )
        )
        assert process.returncode == 0, process.stderr
    cpu, gpu = rows_of(tmp_path / "cpu")[-1], rows_of(tmp_path / "cuda")[-1]
    key = "valid_bits_per_character"
    assert gpu[key] == pytest.approx(cpu[key], abs=0.02)


def test_a_large_model_fits_and_learns():
    model = build_model(ModelConfig(hidden_size=1024), seed=0, compute_dtype=torch.bfloat16).cuda()
    tokens = torch.randint(0, 256, (64, 64), device="cuda")
    logits, _ = model(tokens, model.initial_state(64))
    logits.square().mean().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
