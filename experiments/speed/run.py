"""Run the measurements of this experiment, each in a process of its own.

python -m experiments.speed.run                               # all that have no result yet
python -m experiments.speed.run --names busy step_fp32_512    # these
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from configs import command
from experiments.results import result_at

HERE = Path(__file__).resolve().parent
BENCHMARK = HERE.parent.parent / "scripts" / "benchmark.py"
# Profiles of a step in fp32, and in bf16, which some processors multiply faster.
PROFILED = [(dtype, H) for H in (512, 1024) for dtype in ("fp32", "bf16")]
# Slow at large sizes; over long windows autograd keeps more of them than a small machine holds.
LOOPS = ("--skip", "loop_2018", "reference")


def measurements() -> dict[str, tuple[object, ...]]:
    """Return the arguments of scripts/benchmark.py for each result, by its name."""
    all_of: dict[str, tuple[object, ...]] = {}
    size: tuple[object, ...]
    for dtype in ("fp32", "bf16"):
        for H in (512, 1024):
            size = ("--hidden-size", H, "--batch", 128, "--window", 256, "--dtype", dtype)
            peers = ("--peer", "compile", "--rounds", 9) if H == 512 else ()
            all_of[f"training_{dtype}_{H}"] = ("recurrence", *size, *peers)
            all_of[f"inference_{dtype}_{H}"] = ("recurrence", *size, "--inference", *LOOPS)
        all_of[f"step_{dtype}_1024"] = ("step", "--hidden-size", 1024, "--dtype", dtype)
    for dtype, H in PROFILED:
        size = ("--hidden-size", H, "--window", 128, "--dtype", dtype, "--rounds", 3)
        all_of[f"parts_{dtype}_{H}"] = ("step", *size, "--optimizer", "muon", "--parts")
    all_of["busy"] = ("busy", "--rounds", 3)
    all_of["step_fp32_512"] = ("step", "--hidden-size", 512)
    # One size changes at a time, around 512 units, 128 lanes and 256 bytes.
    points = {(H, 128, 256 if H < 2048 else 64) for H in (128, 256, 2048)}
    points |= {(512, B, 256) for B in (1, 8, 32, 64, 256)}
    points |= {(512, 128, T) for T in (1, 8, 64, 1024)}
    for H, B, T in sorted(points):
        size = ("--hidden-size", H, "--batch", B, "--window", T)
        slow = LOOPS if H == 2048 or T == 1024 else ()
        all_of[f"sweep_{H}_{B}_{T}"] = ("recurrence", *size, *slow)
    return all_of


@dataclass(frozen=True, kw_only=True)
class Options:
    """Run scripts/benchmark.py for results of this study."""

    names: tuple[Literal[*measurements()], ...] = ()  # type: ignore[valid-type]
    """Names of results; absent, those that have none yet."""


def main() -> int:
    names = command.parse(Options, __doc__).names
    for name, arguments in measurements().items():
        output = HERE / "results" / f"{name}.json"
        if name in names or (not names and result_at(output) is None):
            print(f"== {name}", flush=True)
            words = [str(word) for word in (*arguments, "--output", output)]
            if code := subprocess.run([sys.executable, str(BENCHMARK), *words]).returncode:
                return code
    return 0


if __name__ == "__main__":
    command.run(main)
