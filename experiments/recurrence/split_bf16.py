"""A product in fp32 against the same as several products in bf16: time and error.

Split into bf16 parts, a = a0 + a1 + a2, each with the next 8 bits, a product in fp32 is a sum of
products of the parts in bf16, added up in fp32. We time what a window repeats at every byte, m W_h,
with weights that are split and packed beforehand. Splitting m and adding the products are left out,
which flatters bf16.

python -m experiments.recurrence.split_bf16
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import torch
from torch import Tensor

from configs import command
from data_utils.provenance import describe_origin
from model.files.storage import write_json
from scaling.benchmark.floor import library_packed

RESULT = Path(__file__).resolve().parent / "results" / "split_bf16.json"
LANES = 128
# Which parts of m and of W_h are multiplied; what is left out is smaller than what is not.
PRODUCTS = {
    1: [(0, 0)],
    2: [(0, 0), (1, 0)],
    3: [(0, 0), (1, 0), (0, 1)],
    6: [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)],
}
Work = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure on one core, in its own time, so that other programs count for little."""

    units: tuple[int, ...] = (512, 1024)
    """H, of which W_h is [4H, H]."""
    rounds: int = 15
    """How often everything has its turn."""
    repeats: int = 16
    """Products in a turn."""


def main() -> None:
    options = command.parse(Options, __doc__)
    torch.set_num_threads(1)
    sizes = {f"{H}": measure(H, options) for H in options.units}
    write_json(RESULT, {"sizes": sizes, "lanes": LANES, "threads": 1, "origin": describe_origin()})
    for H, found in sizes.items():
        for name, value in found["relative_time"].items():
            print(f"{H} units, {name}: {value:.2f} of fp32, error {found['error'][name]:.1e}")


def measure(H: int, options: Options) -> dict[str, Any]:
    """Return microseconds of every routine, and time and error of each number of products."""
    generator = torch.Generator().manual_seed(0)
    m, w = (torch.randn(n, H, generator=generator) for n in (LANES, 4 * H))
    work = {**routines("fp32", m, w), **routines("bf16", m.bfloat16(), w.bfloat16())}
    microseconds = take_turns(work, options)
    least = {
        dtype: min(value for name, value in microseconds.items() if name.startswith(dtype))
        for dtype in ("fp32", "bf16")
    }
    exact = m.double() @ w.double().t()
    error = {"fp32": relative(m @ w.t(), exact)}
    error |= {f"{n} bf16": relative(split_product(m, w, n), exact) for n in PRODUCTS}
    times = {"fp32": 1.0} | {f"{n} bf16": n * least["bf16"] / least["fp32"] for n in PRODUCTS}
    return {"microseconds": microseconds, "relative_time": times, "error": error}


def routines(dtype: str, m: Tensor, w: Tensor) -> dict[str, Work]:
    """Return the ways to multiply: torch's own, and with weights packed by oneDNN and by MKL."""
    packed = library_packed(m, w)
    return {
        f"{dtype}, torch": lambda: m @ w.t(),
        **{f"{dtype}, packed {number}": each for number, each in enumerate(packed)},
    }


def take_turns(work: dict[str, Work], options: Options) -> dict[str, float]:
    """Return the median microseconds of the processor's time that each takes once."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(options.rounds + 1):
        for name, once in work.items():
            started = process_time()
            for _ in range(options.repeats):
                once()
            if number:  # the first is not counted
                seconds[name].append(process_time() - started)
    return {name: 1e6 * statistics.median(all_) / options.repeats for name, all_ in seconds.items()}


def split_product(a: Tensor, b: Tensor, products: int) -> Tensor:
    """Return a @ b.T of fp32 as so many products of bf16 parts, added up in fp32."""
    parts_a, parts_b = split(a), split(b)
    return sum((parts_a[i] @ parts_b[j].t() for i, j in PRODUCTS[products]), torch.zeros(()))


def split(tensor: Tensor) -> list[Tensor]:
    """Return three parts, whole in bf16, that add up to an fp32 tensor."""
    parts = []
    for _ in range(3):
        parts.append(tensor.bfloat16().float())
        tensor = tensor - parts[-1]
    return parts


def relative(product: Tensor, exact: Tensor) -> float:
    """Return ||product - exact|| / ||exact||."""
    return float((product - exact).norm() / exact.norm())


if __name__ == "__main__":
    command.run(main)
