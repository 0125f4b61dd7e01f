"""Speed and memory of the recurrence: contenders set up, interleaved, and put into ratios."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from mlstm_sentiment.bounds import PositiveInt
from model.kernels.amx.library import runs_on_tiles
from model.kernels.triton.graphs import without_graphs
from model.layers.recurrence import fastest_for
from training.precision import sums_in_fp32
from training.utilization import limit_seconds, peak_of

from .contenders import (
    captured_alone,
    compiled_step,
    from_inputs,
    from_table,
    inference,
    loop_2018,
    nn_lstm,
    reference,
    training,
)
from .floor import Achievable, gemm_floor
from .problem import TOKENS, MeasureOptions, Problem, Sizes
from .timing import CpuTimed, Timings, interleave, rates, ratio
from .vectors import has_vectors_for

SLOW = {"loop_2018": loop_2018, "reference": reference}
UNIT = {"achievable": "fused", "achievable_from_inputs": "fused_from_inputs"}  # for whose products
# Our implementations, the automatic choice first, each with the prefix of its ratios' names.
OURS = {"fused": "", "fused_from_inputs": "from_inputs_"}


@dataclass(frozen=True, kw_only=True)
class RecurrenceOptions(MeasureOptions):
    """One layer over one window: ours, the per-byte loops, torch's LSTM, its products alone.

    On Intel AMX (in bf16) and on AVX-512 also `achievable`, what that unit can do in this minute
    with products of these shapes, on AMX with the packing of their factors. On a GPU also the
    physical limit, if the GPU is listed; there it is what is achievable.
    """

    embedding_size: PositiveInt = 64
    """E, width of the input."""
    inference: bool = False
    """Forward alone, instead of forward and backward."""
    peer: tuple[Literal["compile"], ...] = ()
    """More contenders: compile, the reference step under torch.compile."""
    skip: tuple[Literal["loop_2018", "reference", "nn_lstm"], ...] = ()
    """Contenders to leave out: the two loops take minutes at large sizes."""


def measure_recurrence(options: RecurrenceOptions) -> dict[str, Any]:
    """Return characters per second of every contender, and how many times as fast ours is."""
    shape = options.shape(options.embedding_size)
    problem = Problem.draw(shape)
    limit = None if options.inference else characters_at_limit(shape)
    with sums_in_fp32():  # as in training; for the lower bound alike
        unit = _achievable(problem, options)
        work = _contenders(problem, options) | unit
        counted = {name: CpuTimed(work[name]) for name in (*unit, *OURS) if unit and name in work}
        seconds = interleave(work | counted, options.rounds)
    speeds, spread = rates(seconds, shape.T * shape.B)
    limits: Timings = {}
    if limit is not None:  # of a GPU, by its data sheet
        limits = {"limit": [shape.T * shape.B / limit] * options.rounds}
    against = _against_all(seconds | limits, shape) | _against_unit(counted)
    saved = saved_bytes(problem)
    multiplied = shape.recurrent_products() + shape.input_products() * TOKENS / shape.T / shape.B
    return {
        "chars_per_second": speeds,
        "spread": spread,
        "ratios": {name: value["median"] for name, value in against.items()},
        "ratio_ranges": {name: [value["low"], value["high"]] for name, value in against.items()},
        **({} if limit is None else {"fraction_of_limit": speeds["fused"] / limit}),
        **({} if not unit else _unit_speeds(unit["achievable_from_inputs"])),
        "teraflops": 2e-12 * (1 if options.inference else 3) * multiplied * speeds["fused"],
        "saved_bytes_per_character": saved / (shape.T * shape.B),
        "saved_over_least": saved / least_bytes(shape),
        "implementation": fastest_for(problem.w_mh).title,
        **options.provenance(),
        "seconds": seconds,
    }


def characters_at_limit(shape: Sizes) -> float | None:
    """Return the characters per second of training at a GPU's physical limit, if it is known."""
    on_gpu = shape.device.type == "cuda"
    peak = peak_of(torch.cuda.get_device_name(shape.device)) if on_gpu else None
    if peak is None:
        return None
    return shape.B / limit_seconds(5 * shape.H**2, shape.B, shape.dtype, peak)


def _against_all(seconds: Timings, shape: Sizes) -> dict[str, dict[str, float]]:
    """Return how many times as fast each of our implementations is as the others."""
    others = [name for name in seconds if name not in (*OURS, *UNIT)]
    against = {}
    for ours, prefix in OURS.items():
        for name in others:
            value = ratio(seconds, ours, name)
            if name == "nn_lstm":
                fewer = shape.lstm_products() / shape.mlstm_products()
                name, value = f"{name}_flop_adjusted", {k: v / fewer for k, v in value.items()}
            against[f"{prefix}to_{name}"] = value
            if name == "limit":  # a GPU's data sheet says what is achievable
                against[f"{prefix}to_achievable"] = value
    return against


def _achievable(problem: Problem, options: RecurrenceOptions) -> dict[str, Achievable]:
    """Return what AMX or AVX-512 can do with this problem: without inputs, and with them."""
    if not (runs_on_tiles(problem.w_mh) or has_vectors_for(problem.w_mh)):
        return {}
    return {
        name: Achievable(problem, backward=not options.inference, inputs=ours != "fused")
        for name, ours in UNIT.items()
    }


def _against_unit(counted: dict[str, CpuTimed]) -> dict[str, dict[str, float]]:
    """Return our speed over what is achievable, by CPU time: other programs do not change it."""
    seconds = {name: work.seconds[1:] for name, work in counted.items()}  # the first: to warm up
    return {
        f"{OURS[ours]}to_achievable": ratio(seconds, ours, name)
        for name, ours in UNIT.items()
        if name in seconds
    }


def _unit_speeds(unit: Achievable) -> dict[str, Any]:
    """Return what multiplied, how fast, and how long Intel AMX takes to pack."""
    speeds = {"unit": unit.name, "unit_gigaflops": unit.gigaflops()}
    return speeds | ({"packing_milliseconds": unit.milliseconds_of_packing} if unit.packs else {})


def _contenders(problem: Problem, options: RecurrenceOptions) -> dict[str, Callable[[], object]]:
    forwards = {"fused": from_table(problem), "fused_from_inputs": from_inputs(problem)}
    forwards |= {name: make(problem) for name, make in SLOW.items() if name not in options.skip}
    if "compile" in options.peer:
        forwards["compile"] = compiled_step(problem)
    parameters = dict.fromkeys(forwards, problem.parameters())
    if "nn_lstm" not in options.skip:
        forwards["nn_lstm"], parameters["nn_lstm"] = nn_lstm(problem)
    work: dict[str, Callable[[], object]] = {
        "gemm_floor": _lower_bound(problem, options, None, ours=True),
        "gemm_floor_table": _lower_bound(problem, options, TOKENS, ours=True),
        "library_floor": _lower_bound(problem, options, None, ours=False),
    }
    for name, forward in forwards.items():
        one: Callable[[], object] = inference(forward)
        if not options.inference:
            one = training(forward, parameters[name], problem.dh)
        work[name] = captured_alone(one, problem.shape.device) if name in OURS else one
    return work


def _lower_bound(
    problem: Problem, options: RecurrenceOptions, inputs: int | None, *, ours: bool
) -> Callable[[], object]:
    with torch.inference_mode():
        products = gemm_floor(problem, backward=not options.inference, inputs=inputs, ours=ours)

    def work() -> None:
        with torch.inference_mode():
            products()

    return work


def saved_bytes(problem: Problem) -> int:
    """Return the bytes that autograd holds for ours, without parameters and prepared weights."""
    storages: dict[int, int] = {}
    table = (problem.embedding.shape[0], problem.w_x.shape[0])
    parameter_storages = {tensor.untyped_storage().data_ptr() for tensor in problem.parameters()}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameter_storages and tensor.shape != table:
            storages[storage.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor)
    with without_graphs(), hooks:
        h = from_table(problem)()  # held until all is counted, so that no address is used twice
        total = sum(storages.values())
    del h
    return total


def least_bytes(shape: Sizes) -> int:
    """Return the bytes that backward needs unless it repeats a product.

    Per byte, lane and unit: four gates and W_mh h in the compute dtype, the cell state in fp32.
    The rest follows from these element by element: m from W_mh h, h from the output gate and c.
    """
    per_unit = 5 * shape.dtype.itemsize + 4
    return shape.T * shape.B * shape.H * per_unit
