"""The CUDA path under Triton's interpreter: its passes and kernels, on the CPU.

What the interpreter cannot show (that the kernels compile, the graphs, speed) is in test_gpu.py.
"""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

if torch.cuda.is_available():
    pytest.skip("test_gpu.py runs the kernels themselves", allow_module_level=True)
pytest.importorskip("triton", reason="Triton has no wheel for this platform")

from model.inference.features import features_in_order
from model.kernels import weight_gradients
from model.kernels.reference.mlstm import reference_mlstm
from model.kernels.triton import window as triton_window
from model.kernels.triton.graphs import Graphs, InferenceGraphs, captured_by, without_graphs
from model.kernels.triton.mlstm import triton_mlstm
from model.kernels.weight_gradients import DeferredWeightGradients, join
from model.kernels.window import Inputs
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.layers.recurrence import FASTEST_FIRST
from tests.model.layers.windows import (
    assert_as_reference,
    assert_equal,
    assert_near,
    error,
    exact,
    hold_cell_state_in_fp32,
    loss_of,
    outputs_of,
    results,
    scaled_inputs,
    tolerance,
    window_of,
)
from tests.support.runs import run_anew

# One unit more than the largest power of two below it, and a block of units with a remainder.
SIZES = [(1, 1, 3), (4, 3, 33), (3, 5, 64)]
ON_ANY_DEVICE = replace(FASTEST_FIRST[0], takes=lambda w_mh: True)  # triton
OTHER_GPUS_AND_SIZES = [
    (80, "float16", 1, 333), (80, "bfloat16", 256, 4096), (90, "float32", 256, 1024),
    (90, "bfloat16", 96, 8192), (120, "bfloat16", 128, 512),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("T", "B", "H"), SIZES)
def test_equals_the_reference_in_fp64(dtype, T, B, H):
    inputs = scaled_inputs(dtype, T, B, H)
    with torch.no_grad():
        for state in inputs[1:3]:
            state[1 : 1 + B // 2] = 0  # as after a reset
    # The interpreter cuts off what a GPU rounds to bf16: the error is twice as large.
    assert_as_reference(triton_mlstm, inputs, 2 * tolerance(dtype, T, H))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_cell_state_is_kept_in_fp32(dtype):
    hold_cell_state_in_fp32(triton_mlstm, dtype)


@pytest.fixture
def fp32_results(monkeypatch):
    """Let products of 16-bit factors have fp32 results, as cuBLAS gives them."""
    mm = torch.mm

    def widening(a, b, *, out_dtype=None, out=None):
        if out_dtype is None:
            return mm(a, b) if out is None else mm(a, b, out=out)
        assert out_dtype == torch.float32
        wide = mm(a.float(), b.float())
        return wide if out is None else out.copy_(wide)

    monkeypatch.setattr(torch, "mm", widening)
    for module in (weight_gradients, triton_window):
        monkeypatch.setattr(module, "keeps_fp32", lambda factor: factor.dtype.itemsize == 2)


def errors_of_a_window(dtype, T, B, H):
    """The errors of h, c and all gradients, each relative to its tolerance."""
    inputs = scaled_inputs(dtype, T, B, H)
    expected = results(reference_mlstm, exact(inputs))
    actual = results(triton_mlstm, inputs)
    assert [f.dtype for f in actual[3:]] == [i.dtype for i in inputs]
    return [float(error(a, e)) for a, e in zip(actual, expected, strict=True)]


@pytest.mark.parametrize("graphed", [False, True])
def test_products_with_fp32_results_are_nearer_to_fp64(request, graphed):
    T, B, H = 4, 2, 64
    errors = []
    for fixture in (None, "fp32_results"):
        if fixture:
            request.getfixturevalue(fixture)
        with captured_by(Graphs(ReplayedByHand()) if graphed else None):
            errors.append(errors_of_a_window(torch.float16, T, B, H))
    rounded, wide = errors
    assert max(wide) <= 2 * tolerance(torch.float16, T, H)
    assert sum(wide) < sum(rounded)


@pytest.mark.processor
@pytest.mark.usefixtures("fp32_results")
def test_parts_of_a_weight_gradient_are_added_before_they_are_rounded():
    T, B, H = 5, 4, 16
    drawn = torch.Generator().manual_seed(0)
    dz, m, d_r, h, h0 = (
        torch.randn(shape, generator=drawn).to(torch.bfloat16)
        for shape in ((T * B, 4 * H), (T * B, H), (T, B, H), (T, B, H), (B, H))
    )
    factors = weight_gradients.Factors(dz, m, d_r, h, h0)
    before = torch.cat([h0.unsqueeze(0), h[:-1]]).flatten(0, 1).double()
    exactly = d_r.flatten(0, 1).double().t() @ before
    assert factors.grad_w_mh().dtype == factors.grad_w_h().dtype == torch.float32
    torch.testing.assert_close(factors.grad_w_mh().double(), exactly, rtol=1e-5, atol=1e-5)


def test_rows_of_a_table_and_inference_give_what_training_gives():
    T, B, H = 4, 3, 33
    x_proj, *rest = scaled_inputs(torch.float32, T, B, H)
    table = x_proj.detach().view(-1, 5 * H)[:7].clone().requires_grad_()
    indices = torch.randint(0, 7, (T, B), generator=torch.Generator().manual_seed(1))
    assert_as_reference(triton_mlstm, [table, *rest], tolerance(torch.float32, T, H), indices)
    inputs = scaled_inputs(torch.float32, 5, 3, 33)
    trained = outputs_of(triton_mlstm, inputs)
    with torch.inference_mode():
        packed = torch.zeros(1)  # of another implementation: not for this one
        assert_equal(outputs_of(triton_mlstm, inputs, packed=packed), trained)


@pytest.mark.parametrize(
    ("capability", "dtype", "B", "H"),
    [
        (90, "bfloat16", 256, 1024),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in OTHER_GPUS_AND_SIZES),
    ],
)
def test_the_kernels_compile_for_gpus(capability, dtype, B, H, tmp_path):
    arguments = (capability, dtype, B, H)
    environment = {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    process = run_anew("-m", "tests.model.kernels.triton.compiling", *arguments, env=environment)
    assert process.returncode == 0, process.stderr
    kernels = [json.loads(line) for line in process.stdout.splitlines()]
    assert {kernel["name"] for kernel in kernels} == {
        *("multiply", "advance", "unmultiply", "retreat")
    }
    assert all(kernel["shared"] <= 99 * 2**10 for kernel in kernels)  # as consumer GPUs have it


class ReplayedByHand:
    """Instead of a CUDA graph: the same memory written again by the same work."""

    def __init__(self):
        self.captured, self.current = 0, 0

    def stream(self, device):
        return self.current

    def __call__(self, work, device):
        outputs = work()
        self.captured += 1

        def replay():
            for output, new in zip(outputs, work(), strict=True):
                output.copy_(new)

        return outputs, replay


@pytest.fixture
def capture():
    """How the graphs capture on the CPU."""
    return ReplayedByHand()


@pytest.fixture
def graphs(capture):
    """Take the way through graphs on the CPU."""
    graphs = Graphs(capture)
    with captured_by(graphs):
        yield graphs


def test_graphs_give_what_the_passes_give(graphs, capture):
    first, second = (scaled_inputs(torch.float32, 4, 3, 16) for _ in range(2))
    with torch.no_grad():
        second[0].neg_()
    with without_graphs():
        results(triton_mlstm, first)
    assert capture.captured == 0
    for inputs in (first, second, first):
        assert_as_reference(triton_mlstm, inputs, tolerance(torch.float32, 4, 16))
    assert capture.captured == 2  # one window: forward, backward


def test_windows_alive_at_once_have_graphs_of_their_own(graphs):
    batches = [scaled_inputs(torch.float32, 4, 3, 16) for _ in range(2)]
    with torch.no_grad():
        batches[1][0].neg_()
    alone = [results(triton_mlstm, inputs) for inputs in batches]
    losses = [loss_of(outputs_of(triton_mlstm, inputs)) for inputs in batches]
    for loss, inputs, expected in zip(losses, batches, alone, strict=True):
        assert_equal(torch.autograd.grad(loss, inputs), expected[3:])
    del loss, losses
    (idle,) = graphs.idle.values()
    assert len(idle) == 2  # both came back


@pytest.mark.parametrize("postponing", [False, True])
def test_a_window_whose_loss_is_held_serves_the_next(graphs, capture, postponing):
    """In a loop over lane groups, `loss` still names the earlier loss during the next forward."""
    inputs = scaled_inputs(torch.float32, 4, 3, 16)
    expected = results(reference_mlstm, exact(inputs))[3:]
    for _ in range(3):
        *rest, w_mh, w_h, b = inputs
        deferred = DeferredWeightGradients() if postponing else None
        if deferred is not None:
            w_mh = join([w_mh], w_mh, deferred.grad_w_mh)
            w_h = join(w_h.chunk(4), w_h, deferred.grad_w_h)
        arguments = [*rest, w_mh, w_h, b]
        loss = loss_of(outputs_of(triton_mlstm, arguments, deferred=deferred))
        assert_near(torch.autograd.grad(loss, inputs), expected, tolerance(torch.float32, 4, 16))
    assert capture.captured == 2


def test_a_window_whose_graph_is_retained_keeps_its_memory(graphs):
    first, second = (scaled_inputs(torch.float32, 4, 3, 16) for _ in range(2))
    with torch.no_grad():
        second[0].neg_()
    outputs, *_ = outputs_of(triton_mlstm, first)
    once = torch.autograd.grad(outputs.sum(), first, retain_graph=True, allow_unused=True)
    results(triton_mlstm, second)
    assert_equal(torch.autograd.grad(outputs.sum(), first, allow_unused=True), once)


def test_a_window_given_up_or_freed_on_another_stream_gives_its_graph_back(graphs, capture):
    inputs = scaled_inputs(torch.float32, 4, 3, 16)
    for _ in range(3):
        triton_mlstm(window_of(*inputs))
    assert capture.captured == 2
    outputs = triton_mlstm(window_of(*scaled_inputs(torch.float32, 4, 3, 16)))
    capture.current = 7
    del outputs
    ((sizes, idle),) = graphs.idle.items()
    assert (len(idle), sizes[1]) == (1, 0)


def test_a_window_of_a_dropped_size_is_freed(capture):
    graphs = Graphs(capture, steady=1)
    with captured_by(graphs):
        held = [triton_mlstm(window_of(*scaled_inputs(torch.float32, 2, 2, 8)))]
        for _ in range(2):
            results(triton_mlstm, scaled_inputs(torch.float32, 3, 2, 8))
            assert [tensors[0][0][0] for tensors, *_ in graphs.idle] == [3]
            held.clear()


class CountingGraphs(Graphs):
    """Graphs that capture nothing, and count."""

    def __init__(self):
        super().__init__(SimpleNamespace(stream=lambda device: 0))
        self.captured = 0

    def _captured(self, inputs, key):
        self.captured += 1
        return SimpleNamespace(key=key)

    def window(self, lanes, units=8):
        """Let a window pass; return whether it was captured."""
        x, *others = scaled_inputs(torch.float32, 2, lanes, units)
        passes = self.borrow(Inputs(x, None, *others))
        if passes is not None:
            self.give_back(passes)
        return passes is not None


def test_sizes_that_alternate_do_not_drive_each_other_out_and_splits_hold_one_at_a_time():
    """The lanes of a rank after each balancing; a model of two layers, of 8 and 9 units."""
    graphs = CountingGraphs()
    assert [graphs.window(lanes) for lanes in (4, 1, 2, 3) * 5] == [True, False, False, False] * 5
    assert graphs.captured == 1
    graphs = CountingGraphs()
    for lanes in (256, 263, 259, 261, 264):
        captured = [graphs.window(lanes, units) for _ in range(40) for units in (8, 9)]
        assert {key[0][0][0][1] for key in graphs.idle} == {lanes}
        assert sum(map(len, graphs.idle.values())) == 2  # one for each layer
        assert captured.index(True) < 8
        assert all(captured[8:])
    assert graphs.captured == 5 * 2


def read(inputs, mode=torch.inference_mode, indices=None):
    with mode():
        return outputs_of(triton_mlstm, inputs, indices=indices)


@pytest.fixture
def reading(capture):
    """Take the way through graphs for windows without a gradient."""
    graphs = InferenceGraphs(capture, steady=3, piece=2)
    with captured_by(None, graphs):
        yield graphs


@pytest.mark.parametrize(("dtype", "rows"), [(torch.float32, None), (torch.float16, 4)])
def test_a_captured_read_gives_what_one_without_graphs_gives(reading, capture, dtype, rows):
    """Alternately in inference mode, with other weights, states, texts and lengths.

    rows: of a table, if any.
    """
    batches = [scaled_inputs(dtype, T, 1, 3) for T in (2, 5, 3)]
    with torch.no_grad():
        for tensor in batches[1]:
            tensor.neg_()
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode):
        for inputs in batches:
            indices = None
            if rows is not None:
                indices = torch.arange(len(inputs[0])).unsqueeze(1) * 3 % rows
                inputs = [
                    torch.cat([batch[0].flatten(0, 1) for batch in batches])[:rows],
                    *inputs[1:],
                ]
            actual = read(inputs, mode, indices)
            with without_graphs():
                expected = read(inputs, mode, indices)
            assert_equal(actual, expected)
    assert capture.captured == 1


def test_results_of_a_read_are_not_written_over_by_the_next(reading):
    first, second = (scaled_inputs(torch.float32, 2, 1, 3) for _ in range(2))
    with torch.no_grad():
        second[0].neg_()
    read(first)
    held = read(first)
    copies = [tensor.clone() for tensor in held]
    read(second)
    assert_equal(held, copies)


def test_only_a_size_that_comes_again_is_captured_and_it_makes_room(reading, capture):
    """And neither a short read nor a window with a gradient."""
    for B in (2, 3, 4, 5):
        read(scaled_inputs(torch.float32, 2, B, 3))
        read(scaled_inputs(torch.float32, 1, 1, 3))
        results(triton_mlstm, scaled_inputs(torch.float32, 2, 1, 3))
    assert capture.captured == 0
    for B in (2, 2, 2, 3, 3):
        read(scaled_inputs(torch.float32, 2, B, 3))
    assert capture.captured == 1
    for T in (2, 3, 4, 5):  # lengths share a capture
        read(scaled_inputs(torch.float32, T, 4, 3))
    assert capture.captured == 2
    assert len(reading.idle) == 1


def test_featurizing_takes_the_captured_pass_for_texts_of_any_length(reading, capture, monkeypatch):
    model = build_model(ModelConfig(hidden_size=4, embedding_size=3), seed=1).eval()
    texts = [np.arange(length, dtype=np.uint8) for length in (9, 8, 8, 7, 5, 5, 4)]
    expected = features_in_order(model, texts, batch_size=2)
    monkeypatch.setattr("model.layers.recurrence.FASTEST_FIRST", (ON_ANY_DEVICE,))
    features = features_in_order(model, texts, batch_size=2)
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-6)
    assert capture.captured == 1  # of two rows


class SharedByThreads(ReplayedByHand):
    """Counts captures that begin during another one, which one stream for all captures forbids."""

    def __init__(self):
        super().__init__()
        self.overlaps = 0
        self._capturing = threading.Lock()
        self._interpreter = threading.Lock()  # Triton's serves one thread at a time

    def __call__(self, work, device):
        alone = self._capturing.acquire(blocking=False)
        self.overlaps += not alone
        try:
            return super().__call__(lambda: self._run(work), device)
        finally:
            if alone:
                self._capturing.release()

    def _run(self, work):
        with self._interpreter:
            return work()


@pytest.mark.usefixtures("frequent_switches")
def test_threads_share_graphs():
    threads, capture = 4, SharedByThreads()
    graphs = Graphs(capture)
    batches = [scaled_inputs(torch.float32, 1, 1, 2) for _ in range(threads)]
    for factor, inputs in enumerate(batches):
        inputs[0].data.mul_(factor)
    with captured_by(Graphs(ReplayedByHand())):
        alone = [results(triton_mlstm, inputs) for inputs in batches]
    start = threading.Barrier(threads)

    def learn(inputs):
        start.wait()
        with captured_by(graphs):
            return [results(triton_mlstm, inputs) for _ in range(2)]

    with ThreadPoolExecutor(threads) as pool:
        together = list(pool.map(learn, batches))
    for expected, twice in zip(alone, together, strict=True):
        for actual in twice:
            assert_equal(actual, expected)
    assert capture.overlaps == 0
    (idle,) = graphs.idle.values()
    assert len(idle) == capture.captured / 2 <= threads  # all came back, each once
