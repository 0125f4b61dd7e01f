"""The compiled recurrence equals the reference, whatever the sizes, threads and gradients."""

import os
import subprocess
import sys

import pytest
import torch

from model.fused import weight_gradients
from model.fused.compilation import window_library
from model.fused.cpu import compiled_mlstm, pack, runs_compiled
from model.recurrence import reference_mlstm
from model.state import State
from tests.model.test_recurrence import EPS, make_inputs
from tests.runs import ROOT

DTYPES = (torch.float32, torch.bfloat16)


@pytest.fixture(autouse=True)
def compiled(request):
    """fp32 runs wherever there is a compiler; 16-bit products need a newer processor."""
    if window_library() is None:
        pytest.skip("no compiler")
    dtype = getattr(request.node, "callspec", None) and request.node.callspec.params.get("dtype")
    wanted = dtype or torch.float32
    if not runs_compiled(torch.empty(2, 2, dtype=wanted)):
        assert wanted != torch.float32
        pytest.skip(f"this processor has no products in {wanted}")


@pytest.fixture
def threads():
    """Set the number of threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def scaled_inputs(dtype, T, B, H):
    inputs = make_inputs(dtype, T, B, H)
    with torch.no_grad():
        for weight in inputs[3:5]:
            weight /= H**0.5
    return inputs


def results(recurrence, inputs, rows=None):
    """h, the last h and c, and the gradient of every input."""
    x_proj, h, c, *weights = inputs
    outputs, state = recurrence(x_proj, State(h, c), *weights, rows)
    made = (outputs, *state)
    loss = sum(out.double().square().sum() for out in made)
    return (*made, *torch.autograd.grad(loss, inputs))


def exact(inputs):
    return [tensor.detach().double().requires_grad_() for tensor in inputs]


def error(actual, expected):
    return ((actual.double() - expected).norm() / expected.norm()).item()


# H: below, at and beyond a panel of 32 units, with a remainder of one vector and of less.
# B: fewer lanes than threads, one group of threads, several.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("T", "B", "H"), [(1, 1, 2), (7, 1, 34), (3, 70, 32), (5, 131, 48), (4, 67, 74), (2, 3, 600)]
)
def test_equals_the_reference_in_fp64(dtype, count, T, B, H, threads):
    threads(count)
    inputs = scaled_inputs(dtype, T, B, H)
    # As in test_fused_equals_reference: rounding errors of T products of depth 4H.
    tolerance = 4 * EPS[dtype] * (T * 4 * H) ** 0.5
    expected = results(reference_mlstm, exact(inputs))
    for a, e in zip(results(compiled_mlstm, inputs), expected, strict=True):
        assert error(a, e) <= tolerance


@pytest.mark.parametrize("dtype", [torch.bfloat16])
def test_weight_gradients_as_matrix_units_want_them(dtype, monkeypatch):
    inputs = scaled_inputs(dtype, 5, 40, 48)
    plain = results(compiled_mlstm, inputs)
    monkeypatch.setattr(weight_gradients, "has_matrix_units", lambda: True)
    for a, b in zip(results(compiled_mlstm, inputs), plain, strict=True):
        assert error(a, b.double()) <= EPS[torch.bfloat16]  # the last rounding may differ


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_odd_number_of_units(dtype):
    inputs = scaled_inputs(dtype, 4, 3, 33)
    runs = runs_compiled(inputs[3])
    assert runs == (dtype == torch.float32)  # 16-bit products take units two by two
    if runs:
        expected = results(reference_mlstm, exact(inputs))
        for a, e in zip(results(compiled_mlstm, inputs), expected, strict=True):
            assert error(a, e) <= 4 * EPS[dtype] * (4 * 4 * 33) ** 0.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_a_table_are_inputs_that_repeat(dtype):
    T, B, H = 6, 40, 48
    x_proj, *rest = scaled_inputs(dtype, T, B, H)
    table = x_proj.detach().view(-1, 5 * H)[:11].clone().requires_grad_()
    rows = torch.randint(0, 11, (T, B), generator=torch.Generator().manual_seed(1))
    by_row = results(compiled_mlstm, [table, *rest], rows)
    dense = table.detach()[rows].requires_grad_()
    by_byte = results(compiled_mlstm, [dense, *rest])
    for a, b in zip(by_row[:3], by_byte[:3], strict=True):
        assert torch.equal(a, b)
    summed = torch.zeros(11, 5 * H, dtype=torch.float64)
    summed.index_add_(0, rows.flatten(), by_byte[3].double().view(-1, 5 * H))
    # One row adds up about T * B / 11 gradients, each rounded to the dtype.
    assert error(by_row[3], summed) <= EPS[dtype] * (T * B / 11) ** 0.5
    for a, b in zip(by_row[4:], by_byte[4:], strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_states_depend_neither_on_threads_nor_on_the_other_lanes(dtype, threads):
    T, B, H = 5, 130, 72
    x_proj, h, c, *weights = (tensor.detach() for tensor in scaled_inputs(dtype, T, B, H))
    states = []
    for count in (1, 2, 4):
        threads(count)
        states.append(compiled_mlstm(x_proj, State(h, c), *weights))
    for few in (1, 5, 67):
        part, state = compiled_mlstm(x_proj[:, :few], State(h[:few], c[:few]), *weights)
        states.append((states[0][0][:, :few], states[0][1].narrow(few)))
        assert torch.equal(part, states[-1][0])
        assert torch.equal(state.c, states[-1][1].c)
    for h_all, state in states[1:3]:
        assert torch.equal(h_all, states[0][0])
        assert torch.equal(state.c, states[0][1].c)


def test_inference_gives_what_training_gives():
    inputs = scaled_inputs(torch.float32, 9, 70, 40)
    x_proj, h, c, *weights = inputs
    trained, last = compiled_mlstm(x_proj, State(h, c), *weights)
    with torch.inference_mode():
        packed = pack(*weights[:2])
        for given in (None, packed):
            inferred, after = compiled_mlstm(x_proj, State(h, c), *weights, None, given)
            assert torch.equal(inferred, trained)
            assert torch.equal(after.h, last.h)
            assert torch.equal(after.c, last.c)


@pytest.mark.parametrize("used", [0, 1, 2])
def test_gradient_of_one_output_alone(used):
    inputs = scaled_inputs(torch.float32, 4, 3, 34)

    def gradients(recurrence, given):
        x_proj, h, c, *weights = given
        outputs, state = recurrence(x_proj, State(h, c), *weights)
        loss = (outputs, *state)[used].double().square().sum()
        return torch.autograd.grad(loss, given)

    expected = gradients(reference_mlstm, exact(inputs))
    for a, e in zip(gradients(compiled_mlstm, inputs), expected, strict=True):
        assert error(a, e) <= 4 * EPS[torch.float32] * (4 * 4 * 34) ** 0.5


def test_strided_inputs():
    x_proj, h, c, w_mh, w_h, b = scaled_inputs(torch.float32, 4, 6, 32)
    state = State(h.t().contiguous().t(), c.repeat(1, 2)[:, :32])
    strided = (w_mh.t().contiguous().t(), w_h.repeat(1, 2)[:, :32], b)
    batch_first = x_proj.transpose(0, 1).contiguous().transpose(0, 1)
    expected, _ = compiled_mlstm(x_proj, State(h, c), w_mh, w_h, b)
    actual, _ = compiled_mlstm(batch_first, state, *strided)
    assert torch.equal(actual, expected)


def test_strided_gradients():
    """A loss on transposed outputs sends back gradients that are dense but not contiguous."""
    inputs = scaled_inputs(torch.float32, 4, 6, 32)
    places = torch.arange(32 * 6).view(32, 6)

    def gradients(recurrence, inputs):
        x_proj, h, c, *weights = inputs
        outputs, state = recurrence(x_proj, State(h, c), *weights, None)
        made = (outputs[-1], outputs[0], *state)
        loss = sum((tensor.double().t().square() * places).sum() for tensor in made)
        return torch.autograd.grad(loss, inputs)

    expected = gradients(reference_mlstm, exact(inputs))
    for a, e in zip(gradients(compiled_mlstm, inputs), expected, strict=True):
        assert error(a, e) < 1e-5


def test_what_does_not_fit_is_refused():
    """C++ would read beyond the end."""
    x_proj, h, c, *weights = (t.detach() for t in scaled_inputs(torch.float32, 2, 3, 32))
    with pytest.raises(ValueError, match="instead of"):
        compiled_mlstm(x_proj, State(h[:2], c), *weights)
    table = x_proj.reshape(-1, 160)
    for row in (6, -1):
        rows = torch.tensor([[0, 1, row]])
        with pytest.raises(IndexError, match="0 to 5"):
            compiled_mlstm(table, State(h, c), *weights, rows)
    with pytest.raises(ValueError, match="with rows"):
        compiled_mlstm(table, State(h, c), *weights, torch.zeros(2, 4, dtype=torch.long))
    few = torch.tensor([[0, 1, 5]], dtype=torch.int32)
    by_row, _ = compiled_mlstm(table, State(h, c.double()), *weights, few)
    assert torch.equal(by_row, compiled_mlstm(table, State(h, c), *weights, few.long())[0])


def test_mixed_dtypes_are_brought_to_the_weights():
    """As under autocast, which makes x_proj and h 16-bit beside fp32 weights."""
    inputs = scaled_inputs(torch.float32, 4, 3, 34)
    mixed = [t.detach().bfloat16() if i < 2 else t.detach() for i, t in enumerate(inputs)]
    mixed = [tensor.requires_grad_() for tensor in mixed]
    expected = results(reference_mlstm, exact(mixed))
    actual = results(compiled_mlstm, mixed)
    for a, m in zip(actual[3:], mixed, strict=True):
        assert a.dtype == m.dtype
    for a, e in zip(actual, expected, strict=True):
        limit = EPS[a.dtype] if a.dtype == torch.bfloat16 else 4 * EPS[a.dtype] * 24
        assert error(a, e) <= limit


def test_windows_alive_at_once_keep_their_own_memory():
    """Two layers, or two passes before their backwards: no buffer may serve twice."""
    first, second = (scaled_inputs(torch.float32, 40, 70, 64) for _ in range(2))
    with torch.no_grad():
        second[0].mul_(-1)
    alone = [results(compiled_mlstm, inputs) for inputs in (first, second)]
    losses = []
    for x_proj, h, c, *weights in (first, second):
        outputs, state = compiled_mlstm(x_proj, State(h, c), *weights)
        losses.append(sum(out.double().square().sum() for out in (outputs, *state)))
    for loss, inputs, expected in zip(losses, (first, second), alone, strict=True):
        for a, e in zip(torch.autograd.grad(loss, inputs), expected[3:], strict=True):
            assert torch.equal(a, e)


def test_backward_twice():
    inputs = scaled_inputs(torch.float32, 40, 70, 64)
    x_proj, h, c, *weights = inputs
    loss = compiled_mlstm(x_proj, State(h, c), *weights)[0].square().sum()
    once = torch.autograd.grad(loss, inputs, retain_graph=True)
    results(compiled_mlstm, inputs)  # takes whatever memory is free
    for a, b in zip(torch.autograd.grad(loss, inputs), once, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("gate", range(5))
def test_nan_is_not_swallowed(gate):
    x_proj, h, c, *weights = (t.detach() for t in scaled_inputs(torch.float32, 1, 2, 32))
    x_proj[0, 1, gate * 32 + 3] = torch.nan
    _, state = compiled_mlstm(x_proj, State(h, c), *weights)
    assert state.h[1, 3].isnan() or (gate == 0 and state.h[1].isnan().all())
    assert state.h[0].isfinite().all()


def test_saturated_gates_are_exact():
    x_proj, h, c, *weights = (t.detach() for t in scaled_inputs(torch.float32, 1, 1, 32))
    i, f, u, o = x_proj[0, 0, 32:].chunk(4)
    i.fill_(1e30), f.fill_(-1e30), u.fill_(-1e30), o.fill_(torch.inf)
    _, state = compiled_mlstm(x_proj, State(h, c), *weights)
    assert torch.equal(state.c, torch.full_like(state.c, -1))
    assert torch.allclose(state.h, torch.tensor(-1.0).tanh(), rtol=1e-6)


OTHER_PROCESSORS = {
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "no vectors": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}


@pytest.mark.parametrize("processor", OTHER_PROCESSORS)
def test_on_lesser_processors(processor, tmp_path):
    code = """
import torch
from model.fused import cpu
from model.fused.cpu import runs_compiled
from tests.model import test_compiled as t
assert not runs_compiled(torch.empty(2, 2, dtype=torch.bfloat16))
inputs = t.scaled_inputs(torch.float32, 5, 67, 75)
expected = t.results(t.reference_mlstm, t.exact(inputs))
print(max(t.error(*pair) for pair in zip(t.results(t.compiled_mlstm, inputs), expected)))
"""
    environment = os.environ | OTHER_PROCESSORS[processor] | {"XDG_CACHE_HOME": str(tmp_path)}
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert float(process.stdout) <= 4 * EPS[torch.float32] * (5 * 4 * 75) ** 0.5
