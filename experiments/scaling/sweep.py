"""Measure how training scales on the machines at hand: every point launched, one JSON file each.

python -m experiments.scaling.sweep --output runs/sweep --worlds 1,2,4,8 --hidden 1024,4096
python -m experiments.scaling.sweep --output runs/sweep --worlds 1,2 --hidden 64,128 \\
    --lanes-per-rank 8 --window 32 --exchanges fp32,flat     # gloo: a check, no measurement
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from tyro.constructors import PrimitiveConstructorSpec

from configs import command
from experiments.tables import markdown
from model.errors import InputError

from .measuring import results
from .measuring.launching import Launcher
from .measuring.points import EXCHANGES, Point, Settings, design

Run = Callable[[Point, int], str | None]  # a point as launch so-and-so: why it failed, if it did


def listed(kind: Callable[[str], Any]) -> Any:
    """Return how values stand on the command line: one after the other, with commas."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="A,B,...",
        instance_from_str=lambda words: tuple(map(kind, words[0].split(","))),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda values: [",".join(map(str, values))],
    )


@dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """Launch every point of a sweep, several times, in turns; what is done already is kept.

    Of --exchanges, --buckets and --windows the first ones go together, and every other one takes
    the first one's place for all --worlds and --hidden.
    """

    output: Path
    """The folder for the points' files. A sweep that was interrupted goes on in it."""
    worlds: Annotated[tuple[int, ...], listed(int)] = (1, 2, 4, 8)
    """Numbers of ranks; a rank's lanes stay the same. With 1 for the efficiency and the model."""
    hidden: Annotated[tuple[int, ...], listed(int)] = (4096,)
    """H, units."""
    exchanges: Annotated[tuple[str, ...], listed(str)] = tuple(EXCHANGES)
    """How gradients travel: in buckets during backward (fp32, fp16, bf16, powersgd), in one piece
    after it (flat, flat-fp16), or Adasum."""
    buckets: Annotated[tuple[float, ...], listed(float)] = (25.0, 5.0, 100.0)
    """Megabytes at which a bucket leaves."""
    windows: Annotated[tuple[int, ...], listed(int)] = (1, 4)
    """Windows between two exchanges."""
    all_combinations: bool = False
    """Every exchange with every bucket and every number of windows."""
    repeats: int = 5
    """Launches of each point: all points once, then all again."""
    ranks_per_node: int | None = None
    """Absent, all ranks on this node."""
    launcher: str | None = None
    """What starts ranks instead of torch.distributed.run on this node, such as `srun ...`: {nodes},
    {per_node}, {world} and {number}, of the launch, are filled in, rank's command follows."""
    timeout: float = 1800.0
    """Seconds that a launch may take."""
    retry: bool = False
    """Try points again that have failed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.repeats < 1 or not self.timeout > 0:
            raise InputError("--repeats is at least 1, --timeout above zero")

    @property
    def points(self) -> list[Point]:
        """What is to be measured."""
        axes = (self.worlds, self.hidden, self.exchanges, self.buckets, self.windows)
        return design(*axes, all_combinations=self.all_combinations)


def main() -> int:
    options = command.parse(Options, __doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends ranks first
    points, settings = options.points, settled(options)
    launch = Launcher(
        options.output, settings, options.launcher, options.ranks_per_node, options.timeout
    )
    launch.check(points)
    options.output.mkdir(parents=True, exist_ok=True)
    sweep(points, settings, options.output, launch, repeats=options.repeats, retry=options.retry)
    measured = [results.read_point(results.path_of(options.output, point)) for point in points]
    print(f"\n{table(measured)}")
    return 1 if any(result["failure"] for result in measured) else 0


def settled(options: Options) -> Options:
    """Give every rank the same threads, at every number of them on a node: its largest's share."""
    if options.threads is not None:
        return options
    most = min(max(options.worlds), options.ranks_per_node or max(options.worlds))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return replace(options, threads=max((cores or 1) // most, 1))


def sweep(
    points: Sequence[Point],
    settings: Settings,
    folder: Path,
    run: Run,
    *,
    repeats: int,
    retry: bool = False,
) -> None:
    """Run all points that have fewer repeats, in turns; a failure is kept with its reason.

    What else the machines do then falls on all points alike. `run` adds a repeat to a point's file.
    """
    known = {point: results.known(folder, point, settings) for point in points}
    failed = {point for point in points if known[point]["failure"] and not retry}
    done = {point: len(known[point]["repeats"]) for point in points if point not in failed}
    turns = [point for turn in range(repeats) for point in done if done[point] <= turn]
    print(f"{len(points)} points, {len(turns)} launches", flush=True)
    for number, point in enumerate(turns, start=1):
        if point in failed:
            continue
        print(f"[{number}/{len(turns)}] {point.name:<28} ", end="", flush=True)
        reason = run(point, number)
        content = results.known(folder, point, settings)
        if reason is None and len(content["repeats"]) == done[point]:
            reason = "it ended well, but measured nothing"
        if reason is not None:
            results.add_failure(folder, point, settings, reason)
            failed.add(point)
        done[point] = len(content["repeats"])
        print(f"failed: {reason}" if reason else line(content), flush=True)


def line(result: dict[str, Any]) -> str:
    """Return what the last launch measured, for people."""
    last = results.summary(result["repeats"][-1:])["clock"]
    parts = (f"{name} {last[name]['median']:.4f}" for name in ("computing", "exposed", "data_wait"))
    return f"{last['seconds']['median']:.4f} s a step: {', '.join(parts)}"


CLOCK = ("computing", "exposed", "exposed_least", "data_wait")
PROFILER = ("computing", "communicating", "exposed", "data_wait", "other", "pieces")


def table(measured: Sequence[dict[str, Any]]) -> str:
    """Return all points' medians in seconds of a step: the clock's, then the profiler's."""
    spaced = {name: name.replace("_", " ") for name in (*CLOCK, *PROFILER)}
    head = ["by the clock", "step", "quartiles", *(spaced[name] for name in CLOCK), "MB sent"]
    clock = markdown(head, [clock_row(result) for result in measured])
    head = ["by the profiler", "step", *(spaced[name] for name in PROFILER)]
    rows = [profiler_row(result) for result in measured if result["summary"] is not None]
    return f"{clock}\n\n{markdown(head, rows)}"


def clock_row(result: dict[str, Any]) -> list[str]:
    """Return what the clock says of a point; or why there is nothing."""
    point = Point(**result["point"])
    if result["summary"] is None:
        return [point.name, f"failed: {result['failure']}", *[""] * (len(CLOCK) + 2)]
    clock = result["summary"]["clock"]
    return [
        point.name,
        f"{clock['seconds']['median']:.4f}",
        f"{clock['seconds']['low']:.4f} to {clock['seconds']['high']:.4f}",
        *(f"{clock[name]['median']:.4f}" for name in CLOCK),
        f"{clock['sent_bytes']['median'] / 1e6:.2f}",
    ]


def profiler_row(result: dict[str, Any]) -> list[str]:
    """Return what the profiler says of a point."""
    profiler = result["summary"]["profiler"]
    names = ("seconds", *PROFILER)
    return [Point(**result["point"]).name, *(f"{profiler[name]['median']:.4g}" for name in names)]


if __name__ == "__main__":
    command.run(main)
