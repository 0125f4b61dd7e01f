"""The benchmark measures what it says: equal work, the lower bound's products, honest ratios."""

import gc
import json
import math
import statistics
import weakref
from dataclasses import replace
from functools import partial
from types import FunctionType, SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from experiments.speed.benchmark import floor, recurrence, timing
from experiments.speed.benchmark.contenders import (
    compiled_step,
    from_inputs,
    from_table,
    loop_2018,
    reference,
    training,
)
from experiments.speed.benchmark.problem import Problem, Sizes
from experiments.speed.benchmark.recurrence import (
    RecurrenceOptions,
    characters_at_limit,
    least_bytes,
    measure_recurrence,
    saved_bytes,
)
from experiments.speed.benchmark.step import BACKWARD, PARTS, REST, spans_of
from experiments.speed.benchmark.tiles import StreamedProduct, SummedProduct
from experiments.speed.benchmark.vectors import has_vectors_for
from model.kernels.weight_gradients import PRODUCT
from tests.model.kernels.amx.emulation import emulate_tiles, take_no_tiles
from tests.model.kernels.compiled import KERNELS, skip_unless_it_runs
from tests.support.runs import run

SMALL = ("--hidden-size", 32, "--batch", 4, "--window", 6, "--rounds", 2, "--device", "cpu")


def small_problem(dtype=torch.float32, T=6, B=5, H=32):
    return Problem.draw(Sizes(T, B, H, 8, dtype, torch.device("cpu")))


def test_contenders_do_the_same_work():
    problem = small_problem(T=2)
    expected, *others = (
        training(contender(problem), problem.parameters(), problem.dh)()
        for contender in (reference, from_table, from_inputs, loop_2018)
    )
    for gradients in others:
        for a, e in zip(gradients[:4], expected[:4], strict=True):
            assert (a - e).norm() <= 1e-5 * e.norm()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch.compile looks at it
def test_compiled_step_does_the_same_work():
    problem = small_problem(T=2)
    h, expected = compiled_step(problem)(), reference(problem)()
    assert (h - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.processor
def test_the_lower_bound_may_use_our_products_on_amx(monkeypatch):
    emulate_tiles(monkeypatch)
    problem = small_problem(torch.bfloat16)
    for ours, kinds in ((True, {SummedProduct, StreamedProduct}), (False, {FunctionType})):
        candidates: list[list[object]] = []
        with torch.inference_mode():
            floor.gemm_floor(problem, ours=ours, choose=candidates.append)
        assert len(candidates) == 9
        assert {type(products[-1]) for products in candidates} == kinds


@pytest.mark.parametrize(("backward", "passes"), [(True, 3), (False, 1)])
@pytest.mark.parametrize("inputs", [True, False])
def test_the_unit_makes_every_product_and_no_other(backward, passes, inputs, monkeypatch):
    emulate_tiles(monkeypatch)
    problem = small_problem(torch.bfloat16, T=32, B=64, H=64)
    first = {"choose": lambda candidates: candidates[0]}
    unit = floor.Achievable(problem, backward=backward, inputs=inputs, **first)
    multiplied = sum(math.prod(shape) for shape in unit.shapes.values())
    s = problem.shape
    assert multiplied == passes * s.T * s.B * 5 * s.H * (s.H + (s.E if inputs else 0))
    unit()
    assert set(unit.gigaflops()) == {*unit.shapes, "registers"}
    assert all(rate > 0 for rate in (*unit.gigaflops().values(), unit.milliseconds_of_packing))


@pytest.mark.parametrize(
    ("simulate", "unit"), [(emulate_tiles, "Intel AMX"), (take_no_tiles, "AVX-512")]
)
def test_ours_is_compared_with_what_the_unit_can_do(monkeypatch, simulate, unit):
    simulate(monkeypatch)
    if unit == "AVX-512" and not has_vectors_for(torch.empty(0, dtype=torch.bfloat16)):
        pytest.skip("this processor has no AVX512-BF16")
    skipped = ("loop_2018", "reference", "nn_lstm")
    sizes = {"hidden_size": 33, "batch": 3, "window": 5, "embedding_size": 7}
    result = measure_recurrence(
        RecurrenceOptions(**sizes, dtype="bf16", device="cpu", rounds=2, skip=skipped)
    )
    for name in ("to_achievable", "from_inputs_to_achievable"):
        low, high = result["ratio_ranges"][name]
        assert 0 < low <= result["ratios"][name] <= high
    assert {"h W_mh", "dW_h", "registers"} <= set(result["unit_gigaflops"])
    assert ("packing_milliseconds" in result) is (unit == "Intel AMX")
    assert result["unit"] == unit


def test_libraries_are_tried_for_every_product_and_from_contiguous_factors(monkeypatch):
    """On AMD's processors in fp32, oneDNN is faster than torch.mm."""

    def packed(a, w):
        assert a.is_contiguous()
        assert w.is_contiguous()
        return [packed]

    monkeypatch.setattr(floor, "library_packed", packed)
    candidates: list[list[object]] = []
    floor.gemm_floor(small_problem(), choose=candidates.append)
    assert [packed in products for products in candidates] == [True] * 9


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_candidate_multiplies_the_same(dtype):
    a, b = (torch.randn(48, columns).to(dtype) for columns in (8, 32))
    results = []
    floor.Products(ours=False, choose=results.extend).summed_product(a, b)
    floor.Products(ours=False, choose=results.extend).product(a.t().contiguous(), b)
    expected = a.float().t() @ b.float()
    for candidate in results:
        result = candidate().float()
        same = result if result.shape == expected.shape else result.t()
        assert (same - expected).norm() <= 1e-2 * expected.norm()


def test_a_replayed_lower_bound_keeps_its_tensors():
    """A CUDA graph would read memory that has been freed."""
    tensor = torch.zeros(2)
    repeated = floor.Replayed(partial(tensor.add_, 1), captured_by_nothing, tensor.device)
    alive = weakref.ref(tensor)
    del tensor
    gc.collect()
    repeated()
    assert alive() is not None
    del repeated
    gc.collect()
    assert alive() is None


def captured_by_nothing(work, device):
    """A capture that forgets the work, as a CUDA graph does."""
    return work(), lambda: None


@pytest.mark.parametrize(("backward", "passes"), [(True, 3), (False, 1)])
@pytest.mark.parametrize("inputs", [None, 7])
def test_the_lower_bound_makes_every_product_and_no_other(backward, passes, inputs):
    problem = small_problem()
    with torch.inference_mode():
        torchs = {"choose": lambda candidates: candidates[0]}  # FLOPs are counted inside
        work = floor.gemm_floor(problem, backward=backward, inputs=inputs, **torchs)
        with FlopCounterMode(display=False) as counter:
            work()
    s = problem.shape
    rows = s.T * s.B
    multiplied = 5 * s.H * (rows * s.H + (rows if inputs is None else inputs) * s.E)
    assert counter.get_total_flops() == 2 * passes * multiplied


@pytest.mark.processor
@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_memory_is_counted(name, monkeypatch):
    """What the implementation for vector units keeps, wherever it runs."""
    skip_unless_it_runs(KERNELS[name])
    take_no_tiles(monkeypatch)
    T, B, H, dtype = 40, 30, 64, KERNELS[name].dtype
    problem = small_problem(dtype, T, B, H)
    size = dtype.itemsize
    once = 8 * T * B + B * H * (4 if dtype == torch.float32 else 6)  # tokens; the state before
    # h, W_mh h and four gates in the compute dtype, c in fp32
    assert saved_bytes(problem) == T * B * H * (6 * size + 4) + once
    assert least_bytes(problem.shape) == T * B * H * (5 * size + 4)


@pytest.mark.processor
def test_memory_on_tiles_is_counted(monkeypatch):
    emulate_tiles(monkeypatch)
    T, B, H = 32, 32, 64  # whole tiles: nothing is padded
    problem = small_problem(torch.bfloat16, T, B, H)
    once = 8 * T * B + B * H * 4  # tokens; c before the first byte
    table = len(problem.embedding) * 5 * H * 2  # copied into blocks of units
    assert saved_bytes(problem) == least_bytes(problem.shape) + T * B * H * 2 + once + table


def test_ratios_are_computed_round_by_round():
    seconds = {"ours": [1.0, 2.0, 4.0], "other": [2.0, 2.0, 2.0]}
    assert timing.ratio(seconds, "ours", "other") == {"median": 1.0, "low": 0.5, "high": 2.0}
    speeds, spread = timing.rates(seconds, 8)
    assert speeds == {"ours": 4.0, "other": 4.0}
    assert spread == {"ours": 1.5, "other": 0.0}


def test_the_fastest_candidate_that_runs_is_chosen():
    def fails():
        raise RuntimeError

    def slow():
        torch.randn(1_000_000)

    def quick():
        pass

    assert timing.fastest([fails, slow, quick]) is quick


def test_benchmark_writes_what_it_prints(tmp_path):
    output = tmp_path / "result.json"
    process = run("scripts/benchmark.py", "recurrence", *SMALL, "--output", output)
    assert process.returncode == 0, process.stderr
    result = json.loads(output.read_text())
    speeds, ratios, seconds = (result[key] for key in ("chars_per_second", "ratios", "seconds"))
    assert set(speeds) == set(result["spread"])
    assert set(speeds) - set(recurrence.UNIT) == {  # which some processors alone have
        *("fused", "fused_from_inputs", "reference", "loop_2018", "nn_lstm"),
        *("gemm_floor", "gemm_floor_table", "library_floor"),
    }
    pairs = zip(seconds["fused"], seconds["nn_lstm"], strict=True)
    # An LSTM has four products where the mLSTM has five.
    adjusted = statistics.median(lstm / ours for ours, lstm in pairs) / 0.8
    assert ratios["to_nn_lstm_flop_adjusted"] == pytest.approx(adjusted)
    pairs = zip(seconds["fused"], seconds["loop_2018"], strict=True)
    assert ratios["to_loop_2018"] == pytest.approx(statistics.median(b / a for a, b in pairs))
    assert {"to_gemm_floor", "from_inputs_to_gemm_floor", "to_reference"} <= set(ratios)
    assert "to_library_floor" in ratios
    for name in (*speeds, *ratios, result["implementation"], result.get("unit", "")):
        assert name in process.stdout


def test_benchmark_of_inference_and_of_a_step(tmp_path):
    step = ("step", "--parts", "--optimizer", "muon")
    for arguments in (("recurrence", "--inference", "--skip", "loop_2018"), step):
        output = tmp_path / f"{arguments[0]}.json"
        process = run("scripts/benchmark.py", *arguments, *SMALL, "--output", output)
        assert process.returncode == 0, process.stderr
        assert json.loads(output.read_text())["ratios"]
    assert "loop_2018" not in json.loads((tmp_path / "recurrence.json").read_text())["seconds"]
    parts = json.loads((tmp_path / "step.json").read_text())["parts"]
    assert all(parts["milliseconds"][name] > 0 for name in PARTS)  # each was seen
    assert parts["share"].keys() == {*PARTS, REST}


def test_every_part_of_a_profile_counts_once():
    def event(name, milliseconds, around=None):
        span = SimpleNamespace(elapsed_us=lambda: 1000 * milliseconds)
        return SimpleNamespace(name=name, time_range=span, cpu_parent=around)

    step = event("step", 100)
    backward = event(f"{BACKWARD}_CompiledMlstmBackward", 40, step)
    unknown = event("aten::add", 5, backward)
    events = [
        *(step, backward, unknown),
        event(PRODUCT, 15, unknown),
        event("_CompiledMlstm", 20, step),
        event("_LinearCrossEntropy", 10, step),
        event("aten::add", 3, step),
    ]
    spans = spans_of(events)
    assert spans["recurrence, backward"] == 25
    assert (spans["weight gradients"], spans["recurrence, forward"], spans["loss"]) == (15, 20, 10)
    assert spans[REST] == 30
    assert sum(spans.values()) == 100


def test_the_limit_is_known_of_gpus_of_the_list_alone(monkeypatch):
    gpu = Sizes(256, 256, 1024, 64, torch.bfloat16, torch.device("cuda", 0))
    for name, expected in (("NVIDIA H200", 31.44e6), ("NVIDIA Thing", None)):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        limit = characters_at_limit(gpu)
        assert limit == (expected and pytest.approx(expected, rel=1e-3))
    assert characters_at_limit(replace(gpu, device=torch.device("cpu"))) is None


def test_every_round_runs_everything_once():
    calls = []
    work = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    seconds = timing.interleave(work, rounds=3)
    assert [len(times) for times in seconds.values()] == [3, 3, 3]
    assert "".join(calls) == "abc" + "bca" + "cab" + "abc"
