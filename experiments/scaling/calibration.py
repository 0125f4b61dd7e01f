"""Measure this machine for the planner, and describe it as a file of configs/clusters.

The training recurrence with its loss is timed for several sizes. A tiny model, whose products cost
nothing, gives the time of a kernel; the others give the rate of the products at their size. On a
GPU the captured window's memory is compared with the memory model. Several ranks, one for each GPU
of a node, also measure an all-reduce by size.
"""

import os
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from statistics import median

import torch

from data_utils.provenance import processor_name
from model.kernels.cores import multiplies_fast
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.state import DTYPES
from scaling.planning import LAUNCHES
from scaling.step_time import ring_seconds
from scaling.workload import MemoryModel, Workload
from training.parallel.distributed import World

_TINY = 16  # units of the model whose products cost nothing
_ROUNDS = 5
_COPIED_BYTES = 1 << 28
_MESSAGES = tuple(1 << n for n in (20, 22, 24, 26))  # bytes of gradients
_CPU_SIZES, _GPU_SIZES = (256, 512, 1024), (512, 1024, 2048, 4096)


def calibrate(world: World, lanes: int = 128, sizes: tuple[int, ...] = ()) -> str:
    """Return a cluster file of one machine, measured now. All ranks call it together.

    sizes: units of the models that are timed. Default: 256 to 1,024 on a CPU, and 512 to 4,096 on a
    GPU, which takes under five minutes.
    """
    device = world.device
    on_gpu = device.type == "cuda"
    sizes = sizes or (_GPU_SIZES if on_gpu else _CPU_SIZES)
    window = 256 if on_gpu else 32
    name = _name_of(device)
    fast = ("bf16",) if multiplies_fast(torch.bfloat16, device) else ()
    precisions = (*fast, "fp32")
    launch = _window_seconds(device, _TINY, 8, window, precisions[0]) / (window * LAUNCHES)
    rates, notes = [], []
    for precision in precisions:
        for units in sizes:
            seconds = _window_seconds(device, units, lanes, window, precision)
            operations = Workload.of(ModelConfig(hidden_size=units)).operations_per_token
            left = max(seconds - launch * window * LAUNCHES, 0.1 * seconds)
            rate = lanes * window * operations / left
            bits = 32 if precision == "fp32" else 16
            rates.append(
                f"    {{units = {units}, bits = {bits}, operations_per_second = {rate:.4g}}},"
            )
            if on_gpu:
                model = MemoryModel(
                    model=ModelConfig(hidden_size=units), window=window, precision=precision
                )
                used, planned = torch.cuda.max_memory_allocated(device), model.needed(lanes).total
                fraction = f"{used / planned:.2f} of what is planned"
                notes.append(f"# Memory of {units} units in {precision}: {fraction}.")
    default = rates[len(sizes) - 1].rpartition(" = ")[2].removesuffix("},")
    lines = [
        f"# {name}, measured by scripts/plan.py --calibrate on {date.today()}: forward, loss and",
        f"# backward of {lanes} lanes of {window} bytes. The update is planned from these numbers.",
        *notes,
        f'name = "{name}"',
        "",
        "[[nodes]]",
        f'device = "{name}"',
        f"gpus = {world.size}",
        f"memory_bytes = {_memory_of(device):.4g}",
        f"memory_bytes_per_second = {_copying_rate(device):.4g}",
        f"operations_per_second = {default}",
        f"rates = [\n{chr(10).join(rates)}\n]",
        f"launch_seconds = {launch:.3g}",
        *_link_of(world),
    ]
    return "\n".join(lines) + "\n"


def _name_of(device: torch.device) -> str:
    """Return what cluster files call this machine's device: a GPU, or cores of a processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    count = torch.get_num_threads()
    return f"{count} core{'s' * (count > 1)} of {processor_name()}"


def _window_seconds(
    device: torch.device, units: int, lanes: int, window: int, precision: str
) -> float:
    """Return the seconds of a window: forward, loss and backward; the median of some rounds."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    model = build_model(ModelConfig(hidden_size=units), 0, DTYPES[precision]).to(device)
    state = model.initial_state(lanes)
    tokens = torch.randint(0, 256, (lanes, window), device=device)

    def train() -> None:
        model.zero_grad(set_to_none=True)
        nats, _ = model.loss(tokens, tokens, state)
        nats.backward()

    return _timed(train, device)


def _timed(act: Callable[[], object], device: torch.device) -> float:
    """Return the median seconds of an act after it was done once."""
    seconds = []
    for _ in range(_ROUNDS + 1):
        _finish(device)
        began = time.perf_counter()
        act()
        _finish(device)
        seconds.append(time.perf_counter() - began)
    return median(seconds[1:])


def _link_of(world: World) -> list[str]:
    """Return the lines about an all-reduce: its bandwidth, as a ring's, for messages by size."""
    if world.size == 1:
        return ["link_bytes_per_second = 1e10  # assumed; a single device does not use it"]
    rates = []
    for size in _MESSAGES:
        numbers = torch.zeros(size // 4, device=world.device)
        seconds = _timed(partial(world.sum, numbers), world.device)
        rates.append((size, ring_seconds(size, world.size, 1.0) / seconds))
    lines = [f"    {{bytes = {size}, bytes_per_second = {rate:.4g}}}," for size, rate in rates]
    return [
        f"link_bytes_per_second = {rates[-1][1]:.4g}  # of {world.size} ranks, by size:",
        "link_messages = [\n" + "\n".join(lines) + "\n]",
    ]


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _copying_rate(device: torch.device) -> float:
    """Return the bytes per second at which memory is read."""
    source = torch.zeros(_COPIED_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * _COPIED_BYTES / _timed(lambda: target.copy_(source), device)


def _memory_of(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
