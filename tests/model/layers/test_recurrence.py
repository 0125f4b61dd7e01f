"""The recurrence against an independent implementation, its gradient, and its invariances."""

from functools import partial

import numpy as np
import pytest
import torch

from mlstm_sentiment.errors import InputError
from model.cell import mlstm_step
from model.kernels.reference.mlstm import reference_mlstm
from model.kernels.torch.mlstm import torch_mlstm
from model.layers import recurrence
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.layers.recurrence import recur
from model.state import State
from tests.model.kernels.amx.emulation import emulate_tiles
from tests.model.layers import numpy_mlstm
from tests.model.layers.windows import hold_cell_state_in_fp32, make_inputs, outputs_of
from tests.support.cells import random_tokens, whole_and_cut
from tests.support.runs import run_code

BACKENDS = ("reference", "fused")


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_is_the_derivative(backend):
    inputs = make_inputs(torch.float64, T=4, B=2, H=3)
    recurrence = partial(recur, backend)
    assert torch.autograd.gradcheck(lambda *arguments: outputs_of(recurrence, arguments), inputs)


@pytest.mark.processor
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("weight_norm", [True, False])
def test_equals_numpy_written_from_the_paper(backend, weight_norm):
    config = ModelConfig(hidden_size=9, embedding_size=4, weight_norm=weight_norm, backend=backend)
    model = build_model(config, seed=1).double()
    with torch.no_grad():
        for parameter in model.layers.parameters():
            parameter += 0.5 * torch.randn_like(parameter)  # gains away from ||v||
    tokens = random_tokens(3, 20)
    state = State(torch.randn(1, 3, 9).double(), torch.randn(1, 3, 9).double())

    h, after = model.hidden(tokens, state)

    embedded = model.embedding.weight.detach().numpy()[tokens.numpy()]  # [B, T, E]
    expected_h, expected_c = numpy_mlstm.run(
        list(embedded.swapaxes(0, 1)),
        state.h[0].numpy(),
        state.c[0].numpy(),
        numpy_mlstm.matrices_of(model.layers[0]),
    )
    np.testing.assert_allclose(h.detach().numpy(), expected_h, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(after.c[0].detach(), expected_c[-1], rtol=1e-12, atol=1e-13)


@pytest.mark.processor
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_change_with_every_window_are_not_laid_out_for_many(dtype):
    w_mh, w_h = torch.zeros(16, 16, dtype=dtype), torch.zeros(64, 16, dtype=dtype)
    assert recurrence.pack("auto", w_mh, w_h) is None  # gradients are on


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("recurrence", [reference_mlstm, torch_mlstm])
def test_the_cell_state_is_kept_in_fp32(recurrence, dtype):
    hold_cell_state_in_fp32(recurrence, dtype)


@pytest.mark.processor
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("cell", "backend"),
    [
        *(("mlstm", backend) for backend in ("reference", "torch", "cpp", "amx")),
        *(("lstm", "auto"), ("gru", "auto")),
    ],
)
def test_splitting_a_window_changes_nothing(dtype, cell, backend, monkeypatch):
    if backend == "amx":
        emulate_tiles(monkeypatch)
    try:
        recurrence.implementation_for(backend, torch.empty(48, 0, dtype=dtype))
    except InputError as refusal:
        pytest.skip(str(refusal))
    config = ModelConfig(cell=cell, hidden_size=48, embedding_size=16, layers=2, backend=backend)
    model = build_model(config, seed=1, compute_dtype=dtype)
    (whole, last), (cut, state) = whole_and_cut(model, random_tokens(5, 24), [1, 7, 16])
    assert torch.equal(cut, whole)
    for name, part in state.tensors().items():
        assert torch.equal(part, last[name]), name
        assert part.dtype == (torch.float32 if name == "c" else dtype), name


def test_between_the_products_nothing_is_rounded_to_16_bits():
    """The input's part has 16 bits already; as fp32 it is the same."""
    H, B = 16, 3
    draw = torch.Generator().manual_seed(0)
    x_proj, w_mh, w_h = (
        torch.randn(shape, generator=draw).bfloat16() for shape in ((B, 5 * H), (H, H), (4 * H, H))
    )
    state = State(torch.randn(B, H, generator=draw).bfloat16(), torch.randn(B, H, generator=draw))
    b = torch.randn(4 * H, generator=draw)
    narrow, wide = (mlstm_step(x, state, w_mh, w_h, b) for x in (x_proj, x_proj.float()))
    assert torch.equal(narrow.c, wide.c)
    assert torch.equal(narrow.h, wide.h)
    assert (narrow.h.dtype, narrow.c.dtype) == (torch.bfloat16, torch.float32)


UNDER_COMPILE = """
import torch
from model.layers.config import ModelConfig
from model.layers.language_model import build_model

model = build_model(ModelConfig(hidden_size=16, embedding_size=8, layers=2), seed=1)
traced = torch.compile(model, backend="eager")
tokens = torch.arange(18).view(2, 9)
for with_gradient in (False, True):
    with torch.set_grad_enabled(with_gradient):
        expected, found = (each(tokens, model.initial_state(2)) for each in (model, traced))
    assert torch.equal(expected[0], found[0])
    assert torch.equal(expected[1].c, found[1].c)
weights = list(model.parameters())
ours, theirs = (torch.autograd.grad(o[0].square().sum(), weights) for o in (expected, found))
assert all(map(torch.equal, ours, theirs))
print("equal")
"""


def test_torch_compile_calls_the_kernels_and_traces_the_rest():
    # Traced, they wrote into memory that was free again: wrong values, or an aborted process.
    done = run_code(UNDER_COMPILE)
    assert done.stdout == "equal\n", done.stderr[-2000:]
