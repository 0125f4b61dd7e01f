"""Muon's iterations and the loss on Intel AMX, against their definitions and against torch."""

import pytest
import torch
import torch.nn.functional as F

from experiments.speed.benchmark.tiles import SummedProduct
from model.kernels.amx.training.cross_entropy import cross_entropy_on_tiles
from model.kernels.amx.training.orthogonal import iterate
from tests.model.kernels.amx.emulation import emulate_tiles
from tests.model.layers.windows import EPS, error

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    emulate_tiles(monkeypatch)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def by_whole_products(matrix, iterations):
    """The same iterations by one product after the other, none of them halved."""
    a, b, c = COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = ((matrix.t() if is_tall else matrix) / matrix.norm()).bfloat16()
    for _ in range(iterations):
        gram = SummedProduct(x, x.t(), torch.bfloat16)().clone()
        polynomial = c * SummedProduct(gram, gram)() + b * gram.float()
        polynomial.diagonal().add_(a)
        x = SummedProduct(polynomial.bfloat16(), x, torch.bfloat16)().clone()
    return (x.t() if is_tall else x).float()


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "shape", [(1, 1), (24, 24), (96, 24), (24, 96), (100, 33), (1300, 70), (7, 1100)]
)
def test_iterations_are_those_of_whole_products(shape, count, threads):
    matrix = drawn(*shape)
    threads(count)
    iterated = iterate(matrix, matrix.norm(), COEFFICIENTS, 5)
    assert torch.equal(iterated, by_whole_products(matrix, 5))
    part = matrix[:, : shape[1] // 2 + 1]  # not dense
    dense = part.contiguous()
    iterated = iterate(part, dense.norm(), COEFFICIENTS, 2)
    assert torch.equal(iterated, by_whole_products(dense, 2))


@pytest.mark.parametrize("count", [1, 3])
def test_matrices_of_several_chunks_each_way(count, threads):
    """Beyond 1,024 rows or columns, squares are also summed chunk by chunk."""
    matrix = drawn(1060, 1030)
    threads(count)
    iterated = iterate(matrix, matrix.norm(), COEFFICIENTS, 1)
    x = (matrix.double() / matrix.double().norm()).bfloat16().double()
    gram = x.t() @ x
    a, b, c = COEFFICIENTS
    expected = a * x + x @ (b * gram + c * gram @ gram)
    assert error(iterated, expected) <= 2 * EPS[torch.bfloat16]


@pytest.mark.processor
def test_zeros_stay_zeros_and_what_is_no_number_shows_in_the_result():
    assert not iterate(torch.zeros(6, 3), torch.tensor(1.0), COEFFICIENTS, 5).any()
    matrix = drawn(40, 50)
    matrix[3, 4] = torch.nan
    assert iterate(matrix, torch.tensor(50.0), COEFFICIENTS, 1).isnan().all()


def loss_inputs(N, H, V):
    h, w = drawn(N, H).bfloat16(), drawn(V, H, seed=1).bfloat16()
    targets = torch.randint(0, V, (N,), generator=torch.Generator().manual_seed(2))
    targets[1::7] = -100
    return h, w, drawn(V, seed=3), targets


def exact_loss(h, w, b, targets, weights):
    """In float64: the plain sum of the nats, and the gradients of the weighted one."""
    h, w, b = exact = [tensor.double().requires_grad_() for tensor in (h, w, b)]
    nats = F.cross_entropy(h @ w.t() + b, targets, ignore_index=-100, reduction="none")
    return nats.sum().detach(), *torch.autograd.grad((nats * weights.double()).sum(), exact)


LOSSES = [
    *((1, 1, 1), (1, 1, 2), (50, 12, 256), (65, 33, 40), (200, 40, 70), (130, 70, 1000)),
    (1100, 12, 40),  # the products' depth is more than a chunk
]


@pytest.mark.processor
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("rows", [None, 33, 64])
@pytest.mark.parametrize(("N", "H", "V"), LOSSES)
def test_the_loss_is_cross_entropy(N, H, V, rows, count, threads):
    *inputs, targets = loss_inputs(N, H, V)
    threads(count)
    weights = torch.linspace(0.5, 1, N)
    exact_nats, *exact = exact_loss(*inputs, targets, weights)
    weighted = cross_entropy_on_tiles(*inputs, targets, rows, weights)
    # Logits are sums of H products in fp32; what is exponentiated is off by their absolute error.
    off = 8 * EPS[torch.float32] * inputs[0].double().norm(dim=1).max() * H**0.5
    assert abs(weighted.nats - exact_nats) <= off * max(exact_nats, 1)
    assert [tensor.shape for tensor in weighted[1:]] == [tensor.shape for tensor in exact]
    for actual, expected in zip(weighted[1:3], exact[:2], strict=True):  # of gradients in bf16
        assert (actual - expected).norm() <= max(EPS[torch.bfloat16] * expected.norm(), N * off)
    assert (weighted.d_b - exact[2]).norm() <= N * off
    plain = cross_entropy_on_tiles(*inputs, targets, rows)
    _, *exact = exact_loss(*inputs, targets, torch.ones(N))
    assert torch.equal(plain.nats, weighted.nats)
    for actual, expected in zip(plain[1:], exact, strict=True):
        assert (actual - expected).norm() <= max(EPS[torch.bfloat16] * expected.norm(), N * off)


def test_what_the_kernel_would_misread_is_refused():
    h, w, b, targets = loss_inputs(5, 4, 3)
    with pytest.raises(IndexError, match="target 3 is not below the vocabulary's 3 tokens"):
        cross_entropy_on_tiles(h, w, b, targets + (targets == targets.max()))
    for bad in (
        (h.float(), w, b, targets),
        (h, w, b.double(), targets),
        (h, w, b, targets.int()),
        (h, w, b, targets, None, torch.ones(5).double()),
    ):
        with pytest.raises(TypeError, match="of the loss is"):
            cross_entropy_on_tiles(*bad)


def test_threads_and_rows_at_a_time_change_only_the_order_of_sums(threads):
    *inputs, targets = loss_inputs(300, 40, 70)
    threads(1)
    expected = cross_entropy_on_tiles(*inputs, targets, 128)
    threads(3)
    for rows in (128, 64):
        actual = cross_entropy_on_tiles(*inputs, targets, rows)
        assert torch.equal(actual.nats, expected.nats)
        assert torch.equal(actual.d_h, expected.d_h)
        assert error(actual.d_w, expected.d_w.double()) <= 4 * EPS[torch.float32]


def test_rows_and_threads():
    h, w, b, targets = loss_inputs(40, 12, 50)
    for loss in (
        cross_entropy_on_tiles(h[:0], w, b, targets[:0]),
        cross_entropy_on_tiles(h, w, b, torch.full_like(targets, -100)),
    ):
        assert loss.nats == 0
        assert not any(gradient.any() for gradient in loss[1:])
        assert loss.d_w.shape == w.shape


@pytest.mark.processor
def test_logits_beyond_the_range_of_exp():
    h, w, b, targets = loss_inputs(40, 12, 50)
    large = (h.float() * 1e4).bfloat16()
    expected, *_ = exact_loss(large, w, b, targets, torch.ones(40))
    actual = cross_entropy_on_tiles(large, w, b, targets)
    assert actual.nats.item() == pytest.approx(expected.item(), rel=1e-5)
    assert all(gradient.isfinite().all() for gradient in actual[1:])
    h[3, 3] = torch.inf
    assert not cross_entropy_on_tiles(h, w, b, targets).nats.isfinite()
