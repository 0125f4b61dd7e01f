"""The loss in pieces against torch's, and its gradient."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from model.layers.cross_entropy import linear_cross_entropy, rows_at_once
from model.state import IGNORED
from tests.model.kernels.amx.emulation import emulate_tiles


def make_inputs(dtype, N=50, H=12, V=256):
    generator = torch.Generator().manual_seed(0)
    h, w = (torch.randn(n, H, generator=generator, dtype=torch.float64) for n in (N, V))
    b = torch.randn(V, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, V, (N,), generator=generator)
    targets[::7] = IGNORED
    wide = torch.promote_types(dtype, torch.float32)
    return [h.to(dtype), w.to(dtype), b.to(wide)], targets


def exact_loss(inputs, targets):
    h, w, b = (tensor.detach().double().requires_grad_() for tensor in inputs)
    nats = F.cross_entropy(h @ w.t() + b, targets, ignore_index=IGNORED, reduction="sum")
    return nats.detach(), torch.autograd.grad(3 * nats, (h, w, b))


@pytest.mark.processor
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [7, 50, 1000])
def test_equals_cross_entropy_in_fp64(dtype, rows):
    inputs, targets = make_inputs(dtype)
    inputs = [tensor.requires_grad_() for tensor in inputs]
    expected_nats, expected = exact_loss(inputs, targets)
    nats = linear_cross_entropy(*inputs, targets, rows)
    # Logits are of size 4 and rounded to the dtype: each adds an error of a few eps.
    eps = torch.finfo(dtype).eps
    assert abs(nats.double() - expected_nats) <= 8 * eps * expected_nats
    for actual, exact in zip(torch.autograd.grad(3 * nats, inputs), expected, strict=True):
        assert (actual.double() - exact).norm() <= 8 * eps * exact.norm()


@pytest.mark.processor
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_gradient_scale_changes_the_gradient_and_not_the_value(dtype):
    inputs, targets = make_inputs(dtype)
    inputs = [tensor.requires_grad_() for tensor in inputs]
    whole = linear_cross_entropy(*inputs, targets, 20)
    expected = torch.autograd.grad(whole / 50, inputs)
    eps = torch.finfo(dtype).eps
    for scale in (1 / 50, inputs[2].new_tensor(1 / 50)):
        nats = linear_cross_entropy(*inputs, targets, 20, scale)
        assert torch.equal(nats, whole)
        for actual, precise in zip(torch.autograd.grad(nats, inputs), expected, strict=True):
            assert (actual.double() - precise).norm() <= 2 * eps * precise.double().norm()


@pytest.mark.processor
@pytest.mark.parametrize("scale", [1.0, 1 / 50])
def test_on_amx_it_is_the_same(scale, monkeypatch):
    emulate_tiles(monkeypatch)
    inputs, targets = make_inputs(torch.bfloat16)
    inputs = [tensor.requires_grad_() for tensor in inputs]
    nats = linear_cross_entropy(*inputs, targets, gradient_scale=scale)
    h, w, b = exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    each = F.cross_entropy(h @ w.t() + b, targets, ignore_index=IGNORED, reduction="none")
    expected = torch.autograd.grad(3 * scale * each.sum(), exact)
    eps = torch.finfo(torch.bfloat16).eps
    assert nats.item() == pytest.approx(each.sum().item(), rel=eps)
    for actual, precise in zip(torch.autograd.grad(3 * nats, inputs), expected, strict=True):
        assert (actual.double() - precise).norm() <= 2 * eps * precise.norm()


@pytest.mark.processor
def test_what_does_not_count_and_what_is_beyond_the_range_of_exp():
    inputs, targets = make_inputs(torch.float32)
    inputs = [tensor.requires_grad_() for tensor in inputs]
    nats = linear_cross_entropy(*inputs, torch.full_like(targets, IGNORED))
    assert nats == 0
    gradients = torch.autograd.grad(nats, inputs, retain_graph=True)
    assert not any(gradient.any() for gradient in gradients)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        nats.backward()  # a second time
    far = [inputs[0].detach() * 1e4, *inputs[1:]]
    expected, _ = exact_loss(far, targets)
    nats = linear_cross_entropy(*far, targets).item()
    assert nats == pytest.approx(expected.item(), rel=1e-5)


def test_a_sum_of_gradients_beyond_the_range_of_fp16():
    """Three pieces of 30,000 each; fp16 ends at 65,504."""
    h = torch.full((3, 1), 6e4, dtype=torch.float16)
    w = torch.zeros(2, 1, dtype=torch.float16, requires_grad=True)
    nats = linear_cross_entropy(h, w, torch.zeros(2), torch.zeros(3, dtype=torch.int64), rows=1)
    (nats / 3).backward()
    assert w.grad.flatten().tolist() == [-3e4, 3e4]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_logits_are_few_whatever_the_vocabulary(device):
    assert rows_at_once(device, 256) == {"cpu": 2048, "cuda": 32768}[device]
    assert rows_at_once(device, 512) == {"cpu": 1024, "cuda": 16384}[device]
    assert rows_at_once(device, 32_000) * 32_000 * 4 <= 300e6  # bytes of fp32


class LargestTensor(TorchDispatchMode):
    """Keeps the number of elements of the largest tensor that is made inside."""

    elements = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        if isinstance(result, torch.Tensor):
            self.elements = max(self.elements, result.numel())
        return result


def test_a_large_vocabulary_is_never_whole():
    inputs, targets = make_inputs(torch.float32, N=600, H=4, V=32_000)
    expected, _ = exact_loss(inputs, targets)
    with LargestTensor() as largest:
        nats = linear_cross_entropy(*inputs, targets)
    assert nats == pytest.approx(expected.item(), rel=1e-5)
    assert largest.elements == 512 * 32_000
