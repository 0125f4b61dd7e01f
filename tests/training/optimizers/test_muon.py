"""Our Muon against torch's, whose iterations multiply the whole matrix, and against the SVD."""

import pytest
import torch

from tests.model.kernels.amx.emulation import emulate_tiles, take_no_tiles
from training.optimizers.muon import Muon, orthogonalized

A, B, C, ITERATIONS = 3.4445, -4.7750, 2.0315, 5  # as published
SHAPES = [(24, 24), (96, 24), (24, 96), (96, 8)]


def as_written(matrix):
    """The iteration as Jordan et al. write it, in float64."""
    x = matrix.double() / matrix.double().norm()
    for _ in range(ITERATIONS):
        gram = x @ x.t()
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x


@pytest.mark.parametrize("shape", SHAPES)
def test_the_gram_form_is_the_iteration_as_written(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    # fp32, some 15 products of up to 96 terms, each iteration magnifying by at most A
    torch.testing.assert_close(
        orthogonalized(matrix).double(), as_written(matrix), rtol=0, atol=1e-4
    )


def spread_out(shape, spread):
    """Return a matrix whose singular values fall from 1 to `spread`."""
    generator = torch.Generator().manual_seed(5)
    u, s, v = torch.linalg.svd(torch.randn(shape, generator=generator), full_matrices=False)
    return u * s.new_tensor(spread).pow(torch.linspace(0, 1, len(s))) @ v


@pytest.mark.processor
@pytest.mark.parametrize("take_tiles", [take_no_tiles, emulate_tiles])
@pytest.mark.parametrize("spread", [1.0, 0.01])
@pytest.mark.parametrize("shape", [*SHAPES, (100, 33)])
def test_products_in_bf16_stay_near_float64(take_tiles, shape, spread, monkeypatch):
    take_tiles(monkeypatch)
    matrix = spread_out(shape, spread)
    in_bf16, expected = orthogonalized(matrix, torch.bfloat16), as_written(matrix)
    # bf16 rounds by 2^-9, a dozen times; each iteration magnifies the error of small values by A.
    assert (in_bf16 - expected).norm() < 0.06 * expected.norm()


@pytest.mark.processor
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_update_is_of_products_in_the_dtype_that_is_asked_for(dtype):
    weight = torch.nn.Parameter(torch.zeros(96, 24))
    weight.grad = torch.randn(96, 24, generator=torch.Generator().manual_seed(7))
    Muon([weight], dtype=dtype, lr=1.0, momentum=0.0, weight_decay=0.0).step()
    direction = weight.detach() / (0.2 * 96**0.5)
    off = (direction - direction.bfloat16().float()).abs().max() / direction.abs().max()
    few_roundings = 4 * torch.finfo(torch.float32).eps
    assert (off <= few_roundings) == (dtype == torch.bfloat16)


@pytest.mark.processor
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_direction_that_fades_away_stays_finite(dtype):
    """Momentum without gradients falls below what fp32 can square, in some hundred steps."""
    matrix = torch.randn(24, 24, generator=torch.Generator().manual_seed(2))
    for exponent in range(-44, 1, 4):
        assert orthogonalized(matrix * 10.0**exponent, dtype).isfinite().all()
    small = orthogonalized(matrix * 1e-12, dtype)
    torch.testing.assert_close(small, orthogonalized(matrix, dtype), rtol=0, atol=0.02)


def test_steps_without_a_gradient_leave_zeros_and_weights_as_they_are():
    """A first window of a single token, for example, gives recurrent matrices no gradient."""
    start = torch.randn(6, 3, generator=torch.Generator().manual_seed(8))
    start[2] = 0
    weight = torch.nn.Parameter(start.clone())
    muon = Muon([weight], dtype=torch.float32, lr=0.1, weight_decay=0.0)
    for _ in range(2):
        weight.grad = torch.zeros(6, 3)
        muon.step()
    assert torch.equal(weight.detach(), start)
