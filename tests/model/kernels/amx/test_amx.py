"""Intel AMX: what its emulation computes, products on it, and when it is chosen."""

import platform
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from experiments.speed.benchmark.tiles import StreamedProduct, SummedProduct
from model.kernels.amx import library, mlstm
from model.kernels.amx.library import runs_on_tiles
from model.kernels.amx.mlstm import count_workgroups, pack, tiled_mlstm
from model.kernels.compilation import window_library
from model.kernels.cores import EMULATED_AMX
from model.kernels.cpp.mlstm import compiled_mlstm
from model.layers import recurrence
from tests.model.kernels.amx.emulation import emulate_tiles
from tests.model.layers.windows import (
    EPS,
    assert_equal,
    assert_near,
    error,
    exact,
    loss_of,
    outputs_of,
    results,
    scaled_inputs,
    tolerance,
    window_of,
)
from tests.support import processors


@pytest.fixture
def emulated(monkeypatch):
    emulate_tiles(monkeypatch)


def flushed(x):
    """Numbers too small to be normal count as zero."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(0), x)


def as_the_manual_has_it(a, b):
    """TDPBF16PS along the depth: a [16, K], b [K, 16], in fp32, rounded after every addition."""
    a, b = flushed(a), flushed(b)
    total = np.zeros((16, 16), np.float32)
    for k in range(0, a.shape[1], 32):
        sums = np.zeros((2, 16, 16), np.float32)  # of the even elements, of the odd ones
        for pair in range(k, k + 32, 2):
            for odd in (0, 1):
                product = np.multiply.outer(a[:, pair + odd], b[pair + odd])
                sums[odd] = flushed(sums[odd] + flushed(product))
        total = flushed(total + flushed(sums[0] + sums[1]))
    return total


@pytest.mark.processor
def test_the_emulation_rounds_as_the_manual_says(emulated):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(n, 96, generator=generator) for n in (16, 16))
    a *= 10 ** torch.empty(16, 96).uniform_(-5, 5, generator=generator)  # roundings that differ
    a[3, 5], b[:, 5] = 1e-25, 1e-20  # a product too small to be normal
    a[4, 7] = 1e-39  # a factor too small
    a, b = a.bfloat16(), b.bfloat16()
    expected = as_the_manual_has_it(a.float().numpy(), b.t().float().numpy())
    product = StreamedProduct(a, b).result()
    np.testing.assert_array_equal(product.numpy(), expected)
    assert not np.array_equal(expected, (a.double() @ b.t().double()).float().numpy())


@pytest.mark.processor
@pytest.mark.parametrize(("M", "K", "N"), [(1, 1, 1), (32, 64, 32), (70, 1300, 45), (300, 40, 290)])
def test_products(emulated, M, K, N):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(s, generator=generator).bfloat16() for s in ((M, K), (K, N)))
    expected = a.double() @ b.double()
    exact = EPS[torch.float32] * K**0.5
    columns = b.t().contiguous().t()
    for right in (b, columns, b.repeat(1, 2)[:, :N]):
        assert error(SummedProduct(a, right)(), expected) <= exact
    assert error(StreamedProduct(a, b.t()).result(), expected) <= exact
    rounded = SummedProduct(a, b, torch.bfloat16)()
    assert rounded.dtype == torch.bfloat16
    assert error(rounded, expected) <= EPS[torch.bfloat16]


@pytest.mark.parametrize(
    ("B", "H", "threads", "groups"),
    [
        (128, 1024, 2, 1),  # equal shares either way: no two threads read the same weights
        (128, 128, 2, 2),  # small weights: no two threads meet
        (32, 128, 2, 1),  # 32 lanes are not divided
        (1, 4096, 16, 1),
        (128, 512, 64, 4),  # more threads than blocks of units: each group has as many
        (128, 64, 7, 7),  # a number of threads that nothing divides
        (0, 64, 2, 2),
    ],
)
def test_threads_share_units_and_lanes(B, H, threads, groups):
    assert count_workgroups(B, H, threads) == groups


def test_fewer_threads_than_asked_for(emulated, monkeypatch):
    """The system may give fewer threads, which then share the work in another way."""
    _, *rest = scaled_inputs(torch.bfloat16, 6, 70, 40)
    table = torch.randn(11, 5 * 40).bfloat16().requires_grad_()
    rows = torch.randint(0, 11, (6, 70))
    expected = results(tiled_mlstm, [table, *rest], rows)
    monkeypatch.setattr(mlstm, "count_workgroups", lambda *sizes: 2)  # of one thread
    assert_equal(results(tiled_mlstm, [table, *rest], rows), expected)


def of_inputs(recurrence, x, w_x, state, weights):
    """h, the last h and c, and the gradient of every input of a window that projects x."""
    outputs = outputs_of(lambda window: recurrence(replace(window, w_x=w_x)), (x, *state, *weights))
    return (*outputs, *torch.autograd.grad(loss_of(outputs), (x, w_x, *state, *weights)))


def projecting_inputs(T, B, H, E):
    _, h, c, *weights = scaled_inputs(torch.bfloat16, T, B, H)
    generator = torch.Generator().manual_seed(1)
    x, w_x = (torch.randn(s, generator=generator) for s in ((T, B, E), (5 * H, E)))
    w_x /= E**0.5
    return x.bfloat16().requires_grad_(), w_x.bfloat16().requires_grad_(), (h, c), weights


@pytest.mark.processor
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("T", "B", "H", "E"),
    [(1, 1, 1, 1), (5, 3, 40, 64), (4, 70, 33, 33), (9, 32, 64, 100), (3, 16, 160, 7)],
)
def test_inputs_are_projected_byte_by_byte(emulated, threads, count, T, B, H, E):
    inputs = projecting_inputs(T, B, H, E)
    x, w_x, state, weights = inputs
    twins = (*exact([x, w_x]), exact(state), exact(weights))
    expected = of_inputs(partial(recurrence.recur, "reference"), *twins)
    threads(count)
    assert_near(of_inputs(tiled_mlstm, *inputs), expected, tolerance(torch.bfloat16, T, H))


def test_packed_weights_serve_windows_with_inputs_and_what_does_not_fit_is_refused(emulated):
    x, w_x, state, weights = projecting_inputs(4, 5, 40, 48)
    window = replace(window_of(x, *state, *weights), w_x=w_x)
    with torch.no_grad():
        expected, _ = tiled_mlstm(window)
        for packed in (pack(*weights[:2]), pack(*weights[:2], w_x)):
            prepared = replace(window, weights=replace(window.weights, packed=packed))
            assert torch.equal(tiled_mlstm(prepared)[0], expected)
            without, _ = tiled_mlstm(prepared.projected())  # takes either, too
            assert error(without, expected.double()) <= tolerance(torch.bfloat16, 4, 40)
    x, w_x, state, weights = projecting_inputs(4, 5, 40, 48)
    window = replace(window_of(x, *state, *weights), w_x=w_x)
    for bad in (w_x[:-1], w_x[:, 0]):
        with pytest.raises(ValueError, match=r"w_x is .* instead of \(200, E\)"):
            tiled_mlstm(replace(window, w_x=bad))
    with pytest.raises(ValueError, match="x, h, c"):
        tiled_mlstm(replace(window, w_x=w_x[:, 1:]))
    table = replace(window, x_proj=w_x.new_zeros(9, 200), indices=torch.zeros(4, 5).long())
    for implementation, refused in ((tiled_mlstm, table), (compiled_mlstm, window)):
        with pytest.raises(ValueError, match="must be projected before"):
            implementation(refused)


@pytest.mark.processor
def test_windows_that_are_not_worth_it_are_projected_first(emulated, monkeypatch):
    x, w_x, state, weights = projecting_inputs(20, 2, 32, 64)
    window = replace(window_of(x, *state, *weights), w_x=w_x)

    def projected(backend):
        implementation = recurrence.implementation_for(backend, weights[0])
        return recurrence.projected_for(implementation, window)

    assert projected("auto") is window
    assert projected("reference").w_x is None
    monkeypatch.setattr(mlstm, "MOST_PROJECTED", w_x.numel() - 1)
    assert projected("auto").w_x is None
    with torch.no_grad():
        assert projected("auto") is window
        monkeypatch.setattr(mlstm, "MOST_INPUTS", 63)
        assert projected("auto").w_x is None


@pytest.mark.processor
def test_bf16_runs_on_amx_and_nothing_else_does(emulated):
    x_proj, h, c, *weights = (t.detach() for t in scaled_inputs(torch.bfloat16, 3, 5, 33))
    hidden, _ = recurrence.recur("auto", window_of(x_proj, h, c, *weights))
    assert torch.equal(hidden, tiled_mlstm(window_of(x_proj, h, c, *weights))[0])
    with torch.no_grad():
        w_x = torch.randn(5 * 33, 40).bfloat16()
        assert torch.equal(recurrence.pack("fused", *weights[:2], w_x), pack(*weights[:2], w_x))
    assert not runs_on_tiles(weights[0].float())
    assert not runs_on_tiles(weights[0].half())


def test_a_compiler_that_knows_no_tiles_is_done_without(caplog, monkeypatch):
    def refuse(build):
        raise RuntimeError("g++: error: unrecognized option '-mamx-tile'")

    monkeypatch.setattr(library, "load", refuse)
    assert library.build_for_tiles() is None
    (warning,) = caplog.messages
    assert "without Intel AMX" in warning
    assert "-mamx-tile" in warning


@pytest.mark.processor
@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86-64")
@pytest.mark.skipif(processors.has("amx_bf16"), reason="this processor may have AMX")
def test_the_real_build_asks_the_processor_itself():
    """It compiles anywhere, and is not used where torch is wrong about the processor."""
    if window_library() is None:
        pytest.skip("no compiler")
    assert library.build_for_tiles() is None
    assert library._library_for_amx() is None


def test_amx_computes_what_its_emulation_does(monkeypatch):
    monkeypatch.delenv(EMULATED_AMX, raising=False)
    inputs = scaled_inputs(torch.bfloat16, 5, 67, 74)
    if not runs_on_tiles(inputs[3]):
        pytest.skip("this processor has no AMX")
    real = results(tiled_mlstm, inputs)
    emulate_tiles(monkeypatch)
    emulated = [tensor.double() for tensor in results(tiled_mlstm, inputs)]
    assert_near(real, emulated, EPS[torch.bfloat16])  # a unit may add up in another order
