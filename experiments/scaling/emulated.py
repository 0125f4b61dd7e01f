"""Measure a scale model of a cluster: the published Ethernet curve, and today's exchange.

python -m experiments.scaling.emulated --output experiments/scaling/results/emulated.json \\
    --figures experiments/scaling        # as root: namespaces, tc
"""

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from configs import command
from model.errors import InputError
from model.files.storage import read_json

from .emulation.figures import draw
from .emulation.measuring import measure_all
from .emulation.points import NODES, Study
from .emulation.record import Record
from .emulation.report import report
from .emulation.scale import Scale

PROFILES = Path(__file__).resolve().parent.parent / "exchange" / "results" / "readiness.json"
UNSETTLED = 1  # exit code if a point has too few undisturbed runs


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure in network namespaces with limited links, computing replaced by sleep.

    The output keeps earlier runs; the command measures until each point has --runs.
    """

    output: Path | None = None
    """JSON file of the results, written after each run."""
    figures: Path | None = None
    """Folder for emulated.png and emulated_ddp.png."""
    only: str = "ethernet,today,allreduce,buckets,skipped"
    """Parts to measure, separated by commas."""
    nodes: int = NODES[-1]
    """Largest number of nodes of eight GPUs, at least 2."""
    least_nodes: int = NODES[0]
    """Smallest number of nodes."""
    factor: float = 100.0
    """Divisor of bytes and link rates."""
    stretch: float = 1.0
    """Seconds here for one second of the cluster; links are slower by the same factor. The other
    load of this machine then weighs less."""
    runs: int = 3
    """Undisturbed runs of each point, stretched as much or more."""
    attempts: int = 6
    """Most measurements of a point in one call, including disturbed ones."""
    profiles: Path = PROFILES
    """Moments of the gradients: the file that experiments.exchange.readiness wrote."""

    def __post_init__(self) -> None:
        if self.nodes < NODES[0] or min(self.runs, self.attempts) < 1:
            raise InputError(f"--nodes is at least {NODES[0]}, --runs and --attempts at least 1")


def main() -> int:
    return emulate(command.parse(Options, __doc__))


def emulate(options: Options) -> int:
    """Measure what is missing, print the report and draw the figures; return the exit code."""
    signal.signal(signal.SIGTERM, leave)
    folder = options.figures
    command.prepare_output(options.output, folder / "emulated.png" if folder else None)
    scale = Scale(factor=options.factor, stretch=options.stretch)
    study = Study(scale, read_json(options.profiles), options.nodes, options.least_nodes)
    record = Record(options.output, scale, options.runs)
    groups = study.parts(options.only.split(","))
    missing = [[point for point in group if record.missing(point)] for group in groups]
    if any(missing):
        measure_all([group for group in missing if group], scale, record, options.attempts)
    print(f"\n{report(record.content)}")
    if folder is not None:
        draw(folder, record.content)
    unsettled = [p for group in groups for p in group if record.missing(p)]
    for point in unsettled:
        print(f"undisturbed runs missing: {record.missing(point)} of {point.key}", file=sys.stderr)
    return UNSETTLED if unsettled else 0


def leave(number: int, _frame: FrameType | None) -> None:
    """End on a signal as on an error, which removes the nodes first."""
    sys.exit(128 + number)


if __name__ == "__main__":
    command.run(main)
