"""Time on matrix units: inputs projected byte by byte inside a window, or all of them before it.

python -m experiments.recurrence.projecting
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from configs import command
from data_utils.provenance import describe_origin
from model.errors import InputError
from model.files.storage import write_json
from model.fused.tiles.mlstm import runs_on_tiles, tiled_mlstm
from model.fused.window import Window, linear_into_kept_memory
from model.state import State
from scaling.benchmark.contenders import from_inputs, inference, training
from scaling.benchmark.problem import Problem, Sizes
from scaling.benchmark.timing import interleave, rates, ratio

RESULT = Path(__file__).resolve().parent / "results" / "amx_projecting.json"
WINDOW = 128
KINDS = ("training", "forward")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time windows of 128 bytes, forward and backward and forward alone."""

    units: tuple[int, ...] = (512, 1024)
    """H, units."""
    inputs: tuple[int, ...] = (64, 128, 256, 512, 1024)
    """E, inputs of a byte."""
    lanes: int = 128
    """B, lanes."""
    threads: int = 2
    """CPU threads."""
    rounds: int = 7
    """How often everything has its turn."""
    output: Path = RESULT
    """JSON file for the result."""


def before(window: Window) -> tuple[Tensor, State]:
    """Project a window's inputs before it, into memory that was used before."""
    return tiled_mlstm(window.projected(linear_into_kept_memory))


def measure(H: int, E: int, lanes: int, rounds: int) -> dict[str, Any]:
    """Return the speeds of both ways, and that of the first over that of the second."""
    cpu = torch.device("cpu")
    problem = Problem.draw(Sizes(WINDOW, lanes, H, E, torch.bfloat16, cpu))
    ways = {"byte by byte": tiled_mlstm, "before": before}
    work: dict[str, Callable[[], object]] = {}
    for name, way in ways.items():
        forward = from_inputs(problem, way)
        work[f"training, {name}"] = training(forward, problem.parameters(), problem.dh)
        work[f"forward, {name}"] = inference(forward)
    seconds = interleave(work, rounds)
    speeds, spread = rates(seconds, lanes * WINDOW)
    ratios = {kind: ratio(seconds, *(f"{kind}, {way}" for way in ways)) for kind in KINDS}
    return {"chars_per_second": speeds, "spread": spread, "ratios": ratios}


def main() -> None:
    options = command.parse(Options, __doc__)
    if not runs_on_tiles(torch.empty(2, 2, dtype=torch.bfloat16)):
        raise InputError("this processor has no matrix units (AMX): nothing to compare")
    torch.set_num_threads(options.threads)
    found = {}
    shared = {"lanes": options.lanes, "threads": options.threads}
    result = {"sizes": found, **shared, "origin": describe_origin()}
    for H in options.units:
        for E in options.inputs:
            found[f"{H} units, {E} inputs"] = made = measure(H, E, options.lanes, options.rounds)
            ratios = {kind: round(value["median"], 2) for kind, value in made["ratios"].items()}
            print(f"{H} units, {E} inputs: byte by byte over before: {ratios}", flush=True)
            write_json(options.output, result)  # after each, so that an end too early loses none


if __name__ == "__main__":
    command.run(main)
