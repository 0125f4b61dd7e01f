"""Random windows for any implementation of the recurrence, and how far its results may be off."""

import torch

from model.kernels.reference.mlstm import reference_mlstm
from model.kernels.window import RecurrenceInput, RecurrentWeights
from model.state import State

EPS = {dtype: torch.finfo(dtype).eps for dtype in (torch.float32, torch.bfloat16, torch.float16)}


def tolerance(dtype, T, H):
    """Return the relative error that roundings explain; outputs of zeros are off by 1.

    Sums of 4H products are in fp32, whose roundings add up like their square root, over T bytes
    too, with a margin of 4. What lies between two products is rounded to 16 bits: what a byte's
    roundings come to, about EPS / 2, adds up over T bytes as well, with a margin of 2. Of few units
    it may be more, where a sum of a few numbers cancels.
    """
    bound = 4 * EPS[torch.float32] * (T * 4 * H) ** 0.5
    if dtype != torch.float32:
        bound += EPS[dtype] * T**0.5 * (1 + 8 / H)
    assert bound < 0.1, "what is far off would pass"
    return bound


def make_inputs(dtype, T=7, B=3, H=5, seed=0):
    """x_proj, h, c, w_mh, w_h, b with gradients."""
    generator = torch.Generator().manual_seed(seed)
    acc = torch.promote_types(dtype, torch.float32)

    def draw(*shape, dtype=dtype):
        values = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return values.to(dtype).requires_grad_()

    return [
        draw(T, B, 5 * H),
        draw(B, H),
        draw(B, H, dtype=acc),
        draw(H, H),
        draw(4 * H, H),
        draw(4 * H, dtype=acc),
    ]


def window_of(x_proj, h, c, *weights, indices=None, packed=None, deferred=None) -> RecurrenceInput:
    return RecurrenceInput(
        x_proj, State(h, c), RecurrentWeights(*weights, packed=packed, deferred=deferred), indices
    )


def hold_cell_state_in_fp32(recurrence, dtype, device="cpu"):
    """Check that c rounds as fp32: all products are 0, which 16 bits hold exactly."""
    inputs = [tensor.detach().to(device) for tensor in make_inputs(dtype, T=12, B=3, H=34)]
    for weight in inputs[3:5]:
        weight.zero_()
    _, state = recurrence(window_of(*inputs))
    expected = reference_mlstm(window_of(*(tensor.double() for tensor in inputs)))[1].c
    assert state.c.dtype == torch.float32
    assert state.h.dtype == dtype
    # What a byte adds is forgotten as fast as its roundings: they do not grow with T.
    assert (state.c.double() - expected).norm() <= 4 * EPS[torch.float32] * expected.norm()


def scaled_inputs(dtype, T, B, H):
    inputs = make_inputs(dtype, T, B, H)
    with torch.no_grad():
        for weight in inputs[3:5]:
            weight /= H**0.5
    return inputs


def outputs_of(recurrence, inputs, **more):
    """h, and the last h and c. more: as for `window_of`."""
    outputs, state = recurrence(window_of(*inputs, **more))
    return outputs, *state.tensors().values()


def loss_of(outputs):
    return sum(out.double().square().sum() for out in outputs)


def results(recurrence, inputs, indices=None):
    """h, the last h and c, and the gradient of every input."""
    outputs = outputs_of(recurrence, inputs, indices=indices)
    return (*outputs, *torch.autograd.grad(loss_of(outputs), inputs))


def assert_equal(actual, expected):
    """Assert that tensors are the same to the bit."""
    for a, b in zip(actual, expected, strict=True):
        assert torch.equal(a, b)


def assert_near(actual, expected, limit):
    """Assert that no tensor's relative error is larger than the limit."""
    for a, e in zip(actual, expected, strict=True):
        assert a.shape == e.shape
        assert error(a, e) <= limit


def assert_as_reference(recurrence, inputs, limit, indices=None):
    """Assert that outputs and gradients are those of the reference in float64, up to a limit."""
    expected = results(reference_mlstm, exact(inputs), indices)
    assert_near(results(recurrence, inputs, indices), expected, limit)


def exact(inputs):
    return [tensor.detach().double().requires_grad_() for tensor in inputs]


def error(actual, expected):
    return ((actual.double() - expected).norm() / expected.norm()).item()
