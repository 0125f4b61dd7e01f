"""The compiled kernels equal the reference, whatever the sizes, threads and gradients."""

from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import pytest
import torch

from model.kernels.compilation import window_library
from model.kernels.cpp.mlstm import compiled_mlstm, runs_compiled
from model.kernels.reference.mlstm import reference_mlstm
from tests.model.kernels.amx.emulation import emulate_tiles, take_no_tiles
from tests.model.layers.windows import (
    EPS,
    assert_as_reference,
    assert_equal,
    assert_near,
    error,
    exact,
    hold_cell_state_in_fp32,
    loss_of,
    make_inputs,
    outputs_of,
    results,
    scaled_inputs,
    window_of,
)


# H: below, at and beyond a panel of 32 units, with a remainder of one vector and of less.
# B: fewer lanes than threads, one group of threads, several; halves of 32 lanes.
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("T", "B", "H"),
    [
        *((1, 1, 2), (7, 1, 34), (3, 70, 32), (5, 131, 48), (2, 3, 600)),
        *(pytest.param(*sizes, marks=pytest.mark.processor) for sizes in ((4, 67, 74), (4, 3, 33))),
    ],
)
def test_equals_the_reference_in_fp64(kernel, count, T, B, H, threads):
    threads(count)
    inputs = scaled_inputs(kernel.dtype, T, B, H)
    if H % 2 and kernel.run is compiled_mlstm and kernel.dtype != torch.float32:
        assert not runs_compiled(inputs[3])  # 16-bit products take units two by two
        return
    assert_as_reference(kernel.run, inputs, kernel.tolerance(T, H))


@pytest.mark.processor
def test_the_cell_state_is_kept_in_fp32(kernel):
    hold_cell_state_in_fp32(kernel.run, kernel.dtype)


@pytest.mark.processor
def test_weight_gradients_with_the_layout_that_amx_needs(monkeypatch):
    """Torch's products need this layout where there is AMX and the tiles do not run."""
    if not runs_compiled(torch.empty(2, 2, dtype=torch.bfloat16)):
        pytest.skip("this processor has no products in bf16")
    inputs = scaled_inputs(torch.bfloat16, 5, 40, 48)
    take_no_tiles(monkeypatch)
    plain = results(compiled_mlstm, inputs)
    emulate_tiles(monkeypatch)
    exactly = [tensor.double() for tensor in plain]
    assert_near(results(compiled_mlstm, inputs), exactly, EPS[torch.bfloat16])  # the last rounding


# Rows that are read often, and rows of which most are not read at all.
@pytest.mark.parametrize(("T", "count"), [(6, 11), (1, 60)])
@pytest.mark.parametrize("groups", [1, 2])
def test_rows_of_a_table_are_inputs_that_repeat(kernel, T, count, groups, threads):
    threads(groups)
    B, H = 70, 48
    _, *rest = scaled_inputs(kernel.dtype, T, B, H)
    table = make_inputs(kernel.dtype, 1, count, H)[0][0].detach().requires_grad_()
    rows = torch.randint(0, count, (T, B), generator=torch.Generator().manual_seed(1))
    by_row = results(kernel.run, [table, *rest], rows)
    dense = table.detach()[rows].requires_grad_()
    by_byte = results(kernel.run, [dense, *rest])
    assert_equal(by_row[:3], by_byte[:3])
    summed = torch.zeros(count, 5 * H, dtype=torch.float64)
    summed.index_add_(0, rows.flatten(), by_byte[3].double().view(-1, 5 * H))
    # One row adds up about T * B / count gradients, each rounded to the dtype.
    assert error(by_row[3], summed) <= EPS[kernel.dtype] * max(T * B / count, 1) ** 0.5
    assert_equal(by_row[4:-1], by_byte[4:-1])
    # Added up in another order: by row, or by lanes.
    assert error(by_row[-1], by_byte[-1].double()) <= EPS[torch.float32] * (T * B) ** 0.5


@pytest.mark.processor
def test_states_depend_neither_on_threads_nor_on_the_other_lanes(kernel, threads):
    """But without AVX2 MKL multiplies, which adds up a single row in another order."""
    T, B, H = 5, 130, 72
    x_proj, h, c, *weights = (tensor.detach() for tensor in scaled_inputs(kernel.dtype, T, B, H))
    threads(1)
    expected, _, last_c = outputs_of(kernel.run, [x_proj, h, c, *weights])
    alone = [] if torch.backends.cpu.get_cpu_capability() == "DEFAULT" else [(4, 1)]
    for count, lanes in ((2, B), (4, B), (4, 5), (4, 67), *alone):
        threads(count)
        few = [x_proj[:, :lanes], h[:lanes], c[:lanes], *weights]
        outputs, _, c_T = outputs_of(kernel.run, few)
        assert_equal((outputs, c_T), (expected[:, :lanes], last_c[:lanes]))


@pytest.mark.processor
def test_inference_gives_what_training_gives(kernel):
    inputs = scaled_inputs(kernel.dtype, 9, 70, 40)
    trained = outputs_of(kernel.run, inputs)
    with torch.inference_mode():
        for packed in (None, kernel.pack(*inputs[3:5])):
            assert_equal(outputs_of(kernel.run, inputs, packed=packed), trained)


@pytest.mark.processor
@pytest.mark.parametrize("used", [0, 1, 2])
def test_the_gradient_of_only_one_output(kernel, used):
    inputs = scaled_inputs(kernel.dtype, 4, 3, 34)

    def gradients(recurrence, inputs):
        outputs = outputs_of(recurrence, inputs)
        return torch.autograd.grad(loss_of(outputs[used : used + 1]), inputs)

    expected = gradients(reference_mlstm, exact(inputs))
    assert_near(gradients(kernel.run, inputs), expected, kernel.tolerance(4, 34))


def test_strided_inputs_and_gradients(kernel):
    x_proj, h, c, w_mh, w_h, b = scaled_inputs(kernel.dtype, 4, 6, 32)
    strided_state = h.t().contiguous().t(), c.repeat(1, 2)[:, :32]
    strided = (w_mh.t().contiguous().t(), w_h.repeat(1, 2)[:, :32], b)
    batch_first = x_proj.transpose(0, 1).contiguous().transpose(0, 1)
    expected = outputs_of(kernel.run, [x_proj, h, c, w_mh, w_h, b])
    assert_equal(outputs_of(kernel.run, [batch_first, *strided_state, *strided]), expected)
    inputs = scaled_inputs(kernel.dtype, 4, 6, 32)
    places = torch.arange(32 * 6).view(32, 6)

    def gradients(recurrence, inputs):
        outputs, *last = outputs_of(recurrence, inputs)
        transposed = (outputs[-1], outputs[0], *last)
        loss = sum((tensor.double().t().square() * places).sum() for tensor in transposed)
        return torch.autograd.grad(loss, inputs)

    expected = gradients(reference_mlstm, exact(inputs))
    assert_near(gradients(kernel.run, inputs), expected, kernel.tolerance(4, 32))


def test_what_does_not_fit_is_refused(kernel):
    """C++ would read beyond the end of a tensor."""
    x_proj, h, c, *weights = (t.detach() for t in scaled_inputs(kernel.dtype, 2, 3, 32))
    with pytest.raises(ValueError, match="instead of"):
        kernel.run(window_of(x_proj, h[:2], c, *weights))
    table = x_proj.reshape(-1, 160)
    for row in (6, -1):
        indices = torch.tensor([[0, 1, row]])
        with pytest.raises(IndexError, match="0 to 5"):
            kernel.run(window_of(table, h, c, *weights, indices=indices))
    with pytest.raises(ValueError, match="indices"):
        kernel.run(window_of(table, h, c, *weights, indices=torch.zeros(2, 4, dtype=torch.long)))
    elsewhere = window_of(table, h, c, *weights, indices=torch.zeros(3, 3, device="meta").long())
    for window in (elsewhere, window_of(x_proj, h.to("meta"), c, *weights)):
        with pytest.raises(ValueError, match="they must be on one"):
            kernel.run(window)
    few = torch.tensor([[0, 1, 5]], dtype=torch.int32)
    by_row, _ = kernel.run(window_of(table, h, c.double(), *weights, indices=few))
    assert torch.equal(by_row, kernel.run(window_of(table, h, c, *weights, indices=few.long()))[0])


def test_mixed_dtypes_are_brought_to_the_weights(kernel):
    """Autocast makes x_proj and h 16-bit with fp32 weights, or the reverse."""
    inputs = scaled_inputs(kernel.dtype, 4, 3, 34)
    other = torch.bfloat16 if kernel.dtype == torch.float32 else torch.float32
    mixed = [t.detach().to(other) if i < 2 else t.detach() for i, t in enumerate(inputs)]
    mixed = [tensor.requires_grad_() for tensor in mixed]
    expected = results(reference_mlstm, exact(mixed))
    actual = results(kernel.run, mixed)
    for a, m in zip(actual[3:], mixed, strict=True):
        assert a.dtype == m.dtype
    for a, e in zip(actual, expected, strict=True):
        rounding = EPS[a.dtype] if a.dtype == torch.bfloat16 else 0.0
        assert error(a, e) <= kernel.tolerance(4, 34) + rounding


def test_windows_alive_at_once_keep_their_own_memory(kernel):
    """With two layers, or two passes before their backwards, no buffer may be used twice."""
    first, second = (scaled_inputs(kernel.dtype, 40, 70, 64) for _ in range(2))
    with torch.no_grad():
        second[0].mul_(-1)
    alone = [results(kernel.run, inputs) for inputs in (first, second)]
    losses = [loss_of(outputs_of(kernel.run, inputs)) for inputs in (first, second)]
    for loss, inputs, expected in zip(losses, (first, second), alone, strict=True):
        assert_equal(torch.autograd.grad(loss, inputs), expected[3:])


def test_calls_from_several_threads_at_once(kernel):
    inputs = [scaled_inputs(kernel.dtype, 6, 33, 40) for _ in range(4)]
    with torch.no_grad():
        for index, tensors in enumerate(inputs):
            tensors[0].mul_(index + 1)
    alone = [results(kernel.run, tensors) for tensors in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            together = list(pool.map(lambda tensors: results(kernel.run, tensors), inputs))
            for actual, expected in zip(together, alone, strict=True):
                assert_equal(actual, expected)


def test_backward_twice_and_not_through_gradients(kernel):
    inputs = scaled_inputs(kernel.dtype, 40, 70, 64)
    loss = kernel.run(window_of(*inputs))[0].square().sum()
    once = torch.autograd.grad(loss, inputs, retain_graph=True)
    results(kernel.run, inputs)  # takes whatever memory is free
    assert_equal(torch.autograd.grad(loss, inputs), once)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, inputs)
    inputs = scaled_inputs(kernel.dtype, 3, 2, 32)
    loss = kernel.run(window_of(*inputs))[0].square().sum()
    gradients = torch.autograd.grad(loss, inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradients[0].square().sum().backward()


@pytest.mark.processor
@pytest.mark.parametrize("gate", range(5))
def test_nan_is_not_swallowed(kernel, gate):
    x_proj, h, c, *weights = (t.detach() for t in scaled_inputs(kernel.dtype, 1, 2, 32))
    x_proj[0, 1, gate * 32 + 3] = torch.nan
    _, state = kernel.run(window_of(x_proj, h, c, *weights))
    assert state.h[1, 3].isnan() or (gate == 0 and state.h[1].isnan().all())
    assert state.h[0].isfinite().all()


@pytest.mark.processor
def test_saturated_gates_are_exact(kernel):
    x_proj, h, c, *weights = (t.detach() for t in scaled_inputs(kernel.dtype, 1, 1, 32))
    i, f, u, o = x_proj[0, 0, 32:].chunk(4)
    i.fill_(1e30), f.fill_(-1e30), u.fill_(-1e30), o.fill_(torch.inf)
    _, state = kernel.run(window_of(x_proj, h, c, *weights))
    assert torch.equal(state.c, torch.full_like(state.c, -1))
    assert torch.allclose(state.h.float(), torch.tensor(-1.0).tanh(), rtol=1e-6 + kernel.rounding)


@pytest.mark.parametrize("default", [torch.float64, torch.bfloat16])
def test_gradients_do_not_depend_on_the_callers_default_dtype(kernel, default):
    """The kernels write fp32, whatever torch would make by default."""
    _, *rest = scaled_inputs(kernel.dtype, 5, 6, 40)
    table = torch.randn(11, 5 * 40).to(kernel.dtype).requires_grad_()
    rows = torch.randint(0, 11, (5, 6))
    dense = table.detach()[rows].requires_grad_()
    cases = [([table, *rest], rows), ([dense, *rest], None)]
    expected = [results(kernel.run, *case) for case in cases]
    torch.set_default_dtype(default)
    try:
        actual = [results(kernel.run, *case) for case in cases]
    finally:
        torch.set_default_dtype(torch.float32)
    assert_equal(chain(*actual), chain(*expected))


@pytest.mark.processor
def test_without_onednn_16_bit_products_are_plain_torchs(monkeypatch):
    """oneDNN may be turned off between two windows; compiled code would end the process."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert not runs_compiled(torch.empty(2, 2, dtype=torch.bfloat16))
    assert runs_compiled(torch.empty(2, 2)) == (window_library() is not None)
