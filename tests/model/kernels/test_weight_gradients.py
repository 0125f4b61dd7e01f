"""A node for each weight gradient: the same gradients, one after the other."""

import copy
import importlib.util

import pytest
import torch

from model.kernels.reference.mlstm import reference_mlstm
from model.kernels.torch.mlstm import torch_mlstm
from model.kernels.triton.mlstm import triton_mlstm
from model.kernels.weight_gradients import DeferredWeightGradients, join
from model.kernels.window import RecurrenceInput, RecurrentWeights
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.state import State
from tests.model.kernels.amx.emulation import emulate_tiles
from tests.model.kernels.compiled import KERNELS, Kernel, skip_unless_it_runs
from tests.model.layers.windows import EPS

T, B, H = 5, 3, 12


def no_packing(*weights):
    raise NotImplementedError


# Every way to compute the recurrence.
IMPLEMENTATIONS = KERNELS | {
    "reference": Kernel(reference_mlstm, no_packing, torch.float32),
    "deferred": Kernel(torch_mlstm, no_packing, torch.float32),
}
if importlib.util.find_spec("triton") and not torch.cuda.is_available():
    IMPLEMENTATIONS["triton"] = Kernel(triton_mlstm, no_packing, torch.float32)  # its interpreter


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request, monkeypatch):
    chosen = IMPLEMENTATIONS[request.param]
    if chosen.emulated:
        emulate_tiles(monkeypatch)
    if request.param in KERNELS:
        skip_unless_it_runs(chosen)
    return chosen


def loss_of(h, last):
    return h.square().sum() + last.h.sum() + last.c.sum()


@pytest.mark.parametrize("size", [H, 40])
def test_postponed_gradients_are_the_gradients(implementation, size):
    torch.manual_seed(0)
    recurrence, dtype = implementation.run, implementation.dtype
    x, b = torch.randn(T, B, 5 * size).to(dtype), torch.randn(4 * size)
    state = State(torch.randn(B, size).to(dtype), torch.randn(B, size))
    drawn = (torch.randn(n, size) / size**0.5 for n in (size, 4 * size))
    w_mh, w_h = (weight.to(dtype).requires_grad_() for weight in drawn)

    def gradients(deferred):
        w_mh.grad = w_h.grad = None
        weights = RecurrentWeights(w_mh, w_h, b)
        if deferred is not None:
            whole_w_mh = join([w_mh * 1], w_mh, deferred.grad_w_mh)
            whole_w_h = join((g * 1 for g in w_h.chunk(4)), w_h, deferred.grad_w_h)
            weights = RecurrentWeights(whole_w_mh, whole_w_h, b, deferred=deferred)
        # Two windows with the same weights: both have a part in every gradient.
        h, last = recurrence(RecurrenceInput(x, state, weights))
        more, after = recurrence(RecurrenceInput(x.flip(0), last, weights))
        (loss_of(h, last) + loss_of(more, after)).backward()
        return w_mh.grad.clone(), w_h.grad.clone()

    for deferred, expected in zip(
        gradients(DeferredWeightGradients()), gradients(None), strict=True
    ):
        # Products over all bytes or over some, added in another order.
        tolerance = 4 * EPS[torch.float32] * (2 * T * B) ** 0.5 + implementation.rounding
        assert (deferred - expected).norm() <= tolerance * expected.norm()


def readiness(model):
    """Return the model's gradients by name, and in which order its leaves got theirs."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    leaves, order = model.per_gate_parameters(), []
    for layer in model.layers:
        gates = zip(leaves.of(layer.w_h), "ifuo", strict=True)
        names |= {id(gate): f"gate {name}" for gate, name in gates}
    for leaf in leaves.all:
        leaf.register_post_accumulate_grad_hook(lambda leaf: order.append(names[id(leaf)]))
    gradients_of(model, leaves)
    leaves.gather_gradients()
    return {name: p.grad for name, p in model.named_parameters()}, order


def gradients_of(model, leaves=None):
    tokens = torch.randint(0, 256, (B, T + 1), generator=torch.Generator().manual_seed(0))
    state = model.initial_state(B)
    nats, _ = model.loss(tokens[:, :-1], tokens[:, 1:], state, leaves=leaves)
    model.zero_grad()
    nats.backward()
    return {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.processor
@pytest.mark.parametrize("weight_norm", [True, False])
@pytest.mark.parametrize("backend", ["reference", "fused", "tiles"])
def test_gates_are_ready_one_by_one_and_join_to_the_same_gradient(
    backend, weight_norm, monkeypatch
):
    dtype, rounding = torch.float32, 1e-5
    if backend == "tiles":
        emulate_tiles(monkeypatch)
        backend, dtype, rounding = "fused", torch.bfloat16, EPS[torch.bfloat16]
    config = ModelConfig(hidden_size=H, backend=backend, weight_norm=weight_norm)
    expected = gradients_of(build_model(config, seed=0, compute_dtype=dtype))
    gradients, order = readiness(build_model(config, seed=0, compute_dtype=dtype))
    for name, gradient in expected.items():
        atol = rounding / 10 * gradient.abs().max()
        assert torch.allclose(gradients[name], gradient, rtol=rounding, atol=atol)
    gates = [name for name in order if name.startswith("gate")]
    assert gates == ["gate o", "gate u", "gate f", "gate i"]
    assert order.index("decoder.weight") < order.index("gate o")
    assert order.index("gate i") < order.index("layers.0.w_mh")


def test_gates_share_the_memory_of_the_weight_and_leave_the_model_as_it_is():
    model = build_model(ModelConfig(hidden_size=H), seed=0)
    layer, leaves = model.layers[0], model.per_gate_parameters()
    with torch.no_grad():
        layer.w_h.fill_(3.0)
    assert all((gate == 3.0).all() for gate in leaves.of(layer.w_h))
    model = build_model(ModelConfig(hidden_size=H), seed=0)
    expected = gradients_of(model)
    leaves = model.per_gate_parameters()
    gradients_of(model, leaves)
    leaves.gather_gradients()
    for learner in (model, copy.deepcopy(model)):
        for name, gradient in gradients_of(learner).items():
            assert torch.equal(gradient, expected[name]), name
