"""Products of 8-bit integers: as NumPy computes them, and independent of threads and neighbours."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.inference.features import features_in_order
from model.kernels.cpp import integers
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.layers.recurrence import fastest_for, implementation_for, pack, recur
from tests.conftest import emphatic
from tests.model.layers import numpy_mlstm
from tests.model.layers.windows import EPS, scaled_inputs, window_of

IMPLEMENTATIONS = {
    "compiled": integers.compiled_integer_mlstm,
    "plain": integers.plain_integer_mlstm,
}


@pytest.fixture(params=IMPLEMENTATIONS)
def integer_mlstm(request):
    if request.param == "compiled" and not integers.runs_compiled_int8(torch.empty(4, 4)):
        pytest.skip("this processor has no such products, or there is no compiler")
    return IMPLEMENTATIONS[request.param]


class RoundedMatrix:
    """A matrix [in, out] that rows are multiplied by as integers, in int64."""

    __array_ufunc__ = None  # so that NumPy leaves the product to this class

    def __init__(self, matrix):
        self.integers, self.scales = self.rounded(matrix.T)

    @staticmethod
    def rounded(rows):
        scales = np.abs(rows).max(axis=1, keepdims=True) / 127
        return np.rint(rows / np.maximum(scales, 1e-300)).astype(np.int64), scales

    def __rmatmul__(self, rows):
        whole, scales = self.rounded(rows)
        return (whole @ self.integers.T) * scales * self.scales.T


def in_numpy(x_proj, h, c, w_mh, w_h, b):
    """The same inputs to the recurrence as written from the papers: h [T, B, H] and the last c."""
    H = h.shape[1]
    m_part, *gate_parts = np.split(np.eye(5 * H), 5, axis=1)  # x is projected already
    matrices = {"Wmx": m_part, "Wmh": RoundedMatrix(w_mh.T)}
    gates = zip("ifuo", gate_parts, np.split(w_h, 4), np.split(b, 4), strict=True)
    for gate, from_input, from_m, bias in gates:
        matrices[f"W{gate}x"] = from_input
        matrices |= {f"W{gate}m": RoundedMatrix(from_m.T), f"b{gate}": bias}
    hs, cs = numpy_mlstm.run(list(x_proj), h, c, matrices)
    return np.stack(hs), cs[-1]


# H: below, at and beyond a panel of 32 units, with a remainder.
@pytest.mark.processor
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(("T", "B", "H"), [(1, 1, 4), (4, 5, 36), (3, 37, 32), (4, 3, 200)])
def test_equals_integers_in_numpy(integer_mlstm, count, T, B, H, threads):
    threads(count)
    inputs = [tensor.detach() for tensor in scaled_inputs(torch.float32, T, B, H)]
    expected_h, expected_c = in_numpy(*(tensor.double().numpy() for tensor in inputs))
    h, state = integer_mlstm(window_of(*inputs))
    errors_h, errors_c = np.abs(h.numpy() - expected_h), np.abs(state.c.numpy() - expected_c)
    errors = np.maximum(errors_h.max(axis=(0, 2)), errors_c.max(axis=1))  # [B]
    tolerance = 16 * EPS[torch.float32] * T * np.abs(expected_c).max()
    # fp32 may round a number near a half the other way than fp64, which moves one lane.
    assert (errors > tolerance).sum() <= B // 10
    assert errors.max() < 0.1


@pytest.mark.processor
def test_rounding_is_seen(integer_mlstm):
    """Results differ from fp32 as 8 bits explain, so the test above does compare integers."""
    inputs = [tensor.detach() for tensor in scaled_inputs(torch.float32, 4, 5, 64)]
    h, _ = integer_mlstm(window_of(*inputs))
    exact, _ = recur("reference", window_of(*inputs))
    error = ((h - exact).norm() / exact.norm()).item()
    assert 1e-3 < error < 4 / 127


def test_states_depend_neither_on_threads_nor_on_the_other_lanes(integer_mlstm, threads):
    inputs = [tensor.detach() for tensor in scaled_inputs(torch.float32, 5, 70, 72)]
    x_proj, h, c, *weights = inputs
    threads(1)
    expected, last = integer_mlstm(window_of(*inputs))
    for count, lanes in ((2, 70), (3, 70), (1, 1), (2, 9)):
        threads(count)
        few = window_of(x_proj[:, :lanes], h[:lanes], c[:lanes], *weights)
        actual, state = integer_mlstm(few)
        assert torch.equal(actual, expected[:, :lanes])
        assert torch.equal(state.c, last.c[:lanes])


def test_packed_weights_and_tables_change_nothing(integer_mlstm):
    x_proj, *rest = (tensor.detach() for tensor in scaled_inputs(torch.float32, 6, 3, 40))
    indices = torch.arange(18).view(6, 3)
    dense, _ = integer_mlstm(window_of(x_proj, *rest))
    with torch.inference_mode():
        packed = pack("auto", *rest[2:4], integers=True)
        by_row, _ = integer_mlstm(
            window_of(x_proj.view(18, -1), *rest, indices=indices, packed=packed)
        )
    assert torch.equal(by_row, dense)


def test_weights_that_were_integers_stay_them():
    """Rows of shipped models are integers times a scale."""
    whole = torch.randint(-127, 128, (6, 50), generator=torch.Generator().manual_seed(0))
    whole[:, 7] = 127
    rows = integers.round_rows(whole * torch.linspace(1e-3, 3, 6).unsqueeze(1))
    assert torch.equal(rows.integers, whole.float())


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_not_finite_is_not_swallowed(integer_mlstm, value):
    x_proj, h, c, *weights = (t.detach() for t in scaled_inputs(torch.float32, 1, 2, 32))
    h[1, 3] = value
    _, state = integer_mlstm(window_of(x_proj, h, c, *weights))
    assert state.c[1].isnan().all()
    assert state.c[0].isfinite().all()


def test_lanes_of_zeros(integer_mlstm):
    """The state is zero before the first byte."""
    x_proj, h, c, w_mh, w_h, b = (t.detach() for t in scaled_inputs(torch.float32, 1, 2, 32))
    actual, _ = integer_mlstm(window_of(x_proj, h * 0, c, w_mh, w_h, b))
    expected, _ = recur("reference", window_of(x_proj, h * 0, c, w_mh, w_h, b))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)


def test_they_have_no_gradient(integer_mlstm):
    with pytest.raises(RuntimeError, match="no gradient"):
        integer_mlstm(window_of(*scaled_inputs(torch.float32, 2, 2, 32)))


@pytest.mark.processor
def test_without_a_compiler_or_in_odd_sizes_plain_torch_computes_them(monkeypatch):
    for backend in ("auto", "reference"):
        chosen = implementation_for(backend, torch.empty(34, 0), integers=True)
        assert chosen.title == "plain torch, 8-bit products"
    monkeypatch.setattr(integers, "_has_instructions", lambda: False)
    assert fastest_for(torch.empty(32, 0), integers=True).name == "torch"


def test_sums_beyond_fp32_are_exact():
    """There are so many units that fp32 could not add their products up exactly."""
    x = torch.ones(1, 2000)
    x[0, 0] = 0.5
    rows = integers._as_factor(integers.round_rows(torch.ones(1, 2000)))
    whole = 1999 * 127 * 127 + 64 * 127  # 63.5 is rounded to the even 64
    expected = torch.tensor(float(whole)) * (1 / 127) * (1 / 127)
    torch.testing.assert_close(integers.integer_linear(x, rows)[0, 0], expected)
    assert rows.integers.dtype == torch.float64


@pytest.mark.processor
def test_products_of_int8_are_those_in_plain_torch(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 5, 36, generator=generator)
    weights = torch.randn(7, 36, generator=generator)
    factors = [integers.integer_factor(weights)]
    monkeypatch.setattr(integers, "_has_instructions", lambda: False)
    factors.append(integers.integer_factor(weights))
    compiled, plain = (integers.integer_linear(x, factor) for factor in factors)
    assert torch.equal(compiled, plain)
    for part in (x[0, 0], x[:0]):  # a vector, an empty batch
        assert torch.equal(*(integers.integer_linear(part, factor) for factor in factors))
    with pytest.raises(RuntimeError, match="no gradient"):
        integers.integer_linear(x.requires_grad_(), factors[0])
    x = x.detach()
    tolerance = 2 * 36 * x.abs().max() * weights.abs().max() / 127  # half a step of either factor
    torch.testing.assert_close(plain, x @ weights.t(), atol=float(tolerance) / 2, rtol=0)


def test_the_decoder_multiplies_integers_too():
    model = build_model(ModelConfig(hidden_size=32), seed=0).eval()
    h = torch.rand(3, 4, 32) - 0.5
    with torch.inference_mode():
        exact = model.decode(h, model.prepare_weights())
        model.set_precision("int8")
        rounded = model.decode(h, model.prepare_weights())
    assert 0 < (rounded - exact).abs().max() < 0.05 * exact.abs().max()


@pytest.mark.parametrize("size", [32, 34])  # 34: in plain torch
def test_a_model_changes_its_precision_and_prepared_weights_keep_theirs(size):
    model = build_model(ModelConfig(hidden_size=size), seed=0).eval()
    tokens, state = torch.arange(12).view(3, 4), model.initial_state(3)
    with torch.inference_mode():
        by_precision = {}
        for precision in ("fp32", "int8"):
            model.set_precision(precision)
            by_precision[precision] = (model.prepare_weights(), model.hidden(tokens, state)[0])
        for weights, expected in by_precision.values():
            assert torch.equal(model.hidden(tokens, state, weights)[0], expected)
        (_, exact), (_, rounded) = by_precision.values()
        assert 0 < (rounded - exact).abs().max() < 0.05
        model.set_precision("fp32")
        assert torch.equal(model.hidden(tokens, state)[0], exact)


@pytest.mark.parametrize(
    ("cell", "precision", "words"),
    [
        ("mlstm", "fp8", "precision is 'fp8'; known: fp32, bf16, fp16, int8"),
        ("lstm", "int8", "precision int8 is for the products of an mLSTM"),
    ],
)
def test_a_precision_that_a_model_lacks_is_refused(cell, precision, words):
    model = build_model(ModelConfig(cell=cell, hidden_size=8), seed=0)
    with pytest.raises(InputError, match=words):
        model.set_precision(precision)


def test_a_text_has_the_same_features_in_every_batch_whatever_the_vocabulary():
    """With inputs projected window by window, last digits would depend on the batch."""
    config = ModelConfig(hidden_size=64, embedding_size=128, vocabulary_size=2000)
    model = emphatic(build_model(config, seed=0))
    model.set_precision("int8")
    draw = np.random.default_rng(0)
    texts = [draw.integers(0, 2000, size) for size in draw.integers(1, 60, 40)]
    together = features_in_order(model, texts)
    for batch_size in (1, 3, 16):
        apart = features_in_order(model, texts, batch_size=batch_size)
        np.testing.assert_array_equal(apart, together)
