"""LAMB against You et al.'s formula in float64."""

import sys

import numpy as np
import pytest
import torch

from model.errors import InputError
from training.optimizers.lamb import make_lamb

BETAS = (0.9, 0.99)
SHAPES = [(30, 7), (400,), (3,)]
SCALES = [1.0, 30.0, 0.0]  # norms of 14, 600 (clamped at 10 by the package's own setting), none


def gradients(step):
    random = np.random.default_rng(step)
    return [
        random.standard_normal(shape) * 10.0 ** (index - 1) for index, shape in enumerate(SHAPES)
    ]


def starting_weights():
    random = np.random.default_rng(99)
    return [scale * random.standard_normal(s) for scale, s in zip(SCALES, SHAPES, strict=True)]


def formula(steps, rate, weight_decay):
    """You et al. 2020, algorithm 2, without the correction of bias, phi(z) = z."""
    weights = starting_weights()
    m = [np.zeros(shape) for shape in SHAPES]
    v = [np.zeros(shape) for shape in SHAPES]
    for step in range(steps):
        for i, g in enumerate(gradients(step)):
            m[i] = BETAS[0] * m[i] + (1 - BETAS[0]) * g
            v[i] = BETAS[1] * v[i] + (1 - BETAS[1]) * g * g
            r = m[i] / (np.sqrt(v[i]) + 1e-6) + weight_decay * weights[i]
            norms = np.linalg.norm(weights[i]), np.linalg.norm(r)
            ratio = norms[0] / norms[1] if all(norms) else 1.0
            weights[i] = weights[i] - rate * ratio * r
    return weights


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_it_is_the_papers_formula(dtype, weight_decay):
    parameters = [torch.nn.Parameter(torch.tensor(w, dtype=dtype)) for w in starting_weights()]
    lamb = make_lamb(parameters, betas=BETAS, weight_decay=weight_decay)
    lamb.param_groups[0]["lr"] = 0.02
    for step in range(5):
        for parameter, gradient in zip(parameters, gradients(step), strict=True):
            parameter.grad = torch.tensor(gradient, dtype=dtype)
        lamb.step()
    # The package adds its epsilon of 1e-6 to |r| as well, which is 1.7 and more.
    tolerance = 5 * 0.02 * 1e-6 if dtype == torch.float64 else 10 * torch.finfo(dtype).eps
    for parameter, expected in zip(parameters, formula(5, 0.02, weight_decay), strict=True):
        difference = np.linalg.norm(parameter.detach().double().numpy() - expected)
        assert difference <= tolerance * np.linalg.norm(expected)


def test_the_scale_of_the_gradients_does_not_matter():
    ends = []
    for scale in (1.0, 2.0**10):
        parameter = torch.nn.Parameter(torch.linspace(-1, 1, 50))
        lamb = make_lamb([parameter], betas=BETAS, weight_decay=0.0)
        lamb.param_groups[0]["lr"] = 0.1
        parameter.grad = scale * torch.linspace(1, 2, 50)
        lamb.step()
        ends.append(parameter.detach())
    # epsilon beside sqrt(v) of 0.1 and more
    torch.testing.assert_close(*ends, rtol=0, atol=1e-5)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_optimizer", None)
    with pytest.raises(InputError, match="pip install pytorch-optimizer"):
        make_lamb([], betas=BETAS, weight_decay=0.0)
