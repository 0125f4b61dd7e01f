"""Measure how training scales on your machines: launch main.py for each point of a sweep.

python -m experiments.scaling.sweep --output runs/sweep --worlds 1,2,4,8 --hidden 1024,4096
python -m experiments.scaling.sweep --output runs/sweep --worlds 1,2 --hidden 64,128 \\
    --lanes-per-rank 8 --window 32 --exchanges fp32,flat     # gloo: a check, no measurement
"""

import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import torch

from configs import command
from experiments.tables import markdown
from mlstm_sentiment.bounds import Argument, PositiveFloat, PositiveInt
from mlstm_sentiment.engine.cores import affine_cores
from mlstm_sentiment.errors import InputError

from .measuring import results
from .measuring.launch import RANKS_HERE, rows_of, run_to_end
from .measuring.points import EXCHANGES, Point, Settings, design

CLOCK = ("computing", "exposed", "data_wait")
Outcome = results.Repeat | str  # what a launch measured, or why it failed


LISTED = Argument(separator=",", metavar="A,B,...")


@dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """Launch every point of a sweep several times, interleaved; points that are done are kept.

    The first values of --exchanges, --buckets and --windows form the base, in which one value at a
    time is changed, for all --worlds and --hidden.
    """

    output: Path
    """Folder for the files of the points. An interrupted sweep continues in it."""
    worlds: Annotated[tuple[int, ...], LISTED] = (1, 2, 4, 8)
    """Numbers of ranks. The efficiency and the model need 1."""
    hidden: Annotated[tuple[int, ...], LISTED] = (4096,)
    """H, units."""
    exchanges: Annotated[tuple[str, ...], LISTED] = tuple(EXCHANGES)
    """How gradients travel: in buckets during backward (fp32, fp16, bf16), in one piece
    after it (flat, flat-fp16), or Adasum."""
    buckets: Annotated[tuple[float, ...], LISTED] = (25.0, 5.0, 100.0)
    """Sizes in megabytes at which a bucket is sent."""
    windows: Annotated[tuple[int, ...], LISTED] = (1, 4)
    """Numbers of windows between two exchanges."""
    all_combinations: bool = False
    """Measure every exchange with every bucket and every number of windows."""
    repeats: PositiveInt = 5
    """Launches of each point. All points are launched once before any is launched again."""
    ranks_per_node: PositiveInt | None = None
    """Ranks of a node; absent, all ranks are on this node."""
    launcher: str | None = None
    """Command that starts the ranks instead of torch.distributed.run on this node, for instance
    `srun ...`. {nodes}, {per_node}, {world} and {number}, that of the launch, are replaced;
    main.py and its options follow."""
    timeout: PositiveFloat = 1800.0
    """Longest time of a launch, in seconds."""
    retry: bool = False
    """Launch points again that have failed."""

    @property
    def points(self) -> list[Point]:
        """The points to measure."""
        axes = (self.worlds, self.hidden, self.exchanges, self.buckets, self.windows)
        return design(*axes, all_combinations=self.all_combinations)


def main() -> int:
    return measure(command.parse(Options, __doc__))


def measure(requested: Options) -> int:
    """Launch what is missing, and print the table of all points; return the exit code."""
    points = requested.points  # refuses numbers of ranks below 1
    options = with_threads(requested, affine_cores())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends ranks first
    for point in points:
        launch_words(point, options, 0)  # refuses what cannot be launched
    options.output.mkdir(parents=True, exist_ok=True)
    sweep(points, options, launch)
    measured = [results.read_point(results.path_of(options.output, point)) for point in points]
    print(f"\n{table(measured)}")
    return 1 if any(result["failure"] for result in measured) else 0


def with_threads(options: Options, cores: int) -> Options:
    """Give every rank the same number of a node's cores, whatever the number of ranks."""
    if options.threads is not None:
        return options
    most = min(max(options.worlds), options.ranks_per_node or max(options.worlds))
    return replace(options, threads=max(cores // most, 1))


def sweep(
    points: Sequence[Point], options: Options, launch: Callable[[Point, Options, int], Outcome]
) -> None:
    """Launch the points round by round until each has its repeats; keep each failure's reason.

    The other load of the machines then falls on all points alike.
    """
    folder = options.output
    existing = {point: results.existing_result(folder, point, options) for point in points}
    failed = {point for point in points if existing[point]["failure"] and not options.retry}
    done = {point: len(existing[point]["repeats"]) for point in points if point not in failed}
    launches = [p for repeat in range(options.repeats) for p in done if done[p] <= repeat]
    print(f"{len(points)} points, {len(launches)} launches", flush=True)
    for number, point in enumerate(launches, start=1):
        if point in failed:
            continue
        print(f"[{number}/{len(launches)}] {point.name:<28} ", end="", flush=True)
        outcome = launch(point, options, number)
        results.add(folder, point, options, outcome)
        if isinstance(outcome, str):
            failed.add(point)
            print(f"failed: {outcome}", flush=True)
        else:
            print(line(outcome), flush=True)


def launch_words(point: Point, options: Options, number: int) -> list[str]:
    """Return the words that start the ranks of a point, before main.py."""
    per_node = min(options.ranks_per_node or point.world, point.world)
    nodes, rest = divmod(point.world, per_node)
    if rest:
        raise InputError(f"{point.world} ranks cannot be divided into nodes of {per_node}")
    if options.launcher is None:
        if nodes > 1:
            raise InputError(f"{point.world} ranks are {nodes} nodes: name a --launcher")
        return [sys.executable, *RANKS_HERE, str(per_node)]
    facts = {"world": point.world, "nodes": nodes, "per_node": per_node, "number": number}
    try:
        return [word.format(**facts) for word in shlex.split(options.launcher)]
    except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
        names = ", ".join(f"{{{name}}}" for name in facts)
        raise InputError(f"--launcher {options.launcher}: {error!r}; known: {names}") from error


def launch(point: Point, options: Options, number: int) -> Outcome:
    """Train for the steps of a point; return what the clock measured, or why it failed."""
    before, recipe = os.getloadavg(), point.recipe(options)
    place = TemporaryDirectory(prefix=".point-", dir=options.output, ignore_cleanup_errors=True)
    with place as folder:
        run = Path(folder) / "run"
        corpus = options.corpus.resolve() if options.corpus else None
        words = [*launch_words(point, options, number), *recipe.arguments(corpus, run)]
        failure = run_to_end(words, options.threads or 1, options.timeout)
        rows = rows_of(run)
    # All rows are a measurement, however the run ends: its model may be worth nothing.
    if len(rows) < options.blocks:
        return failure or "the run ended before its last step"
    per_node = options.ranks_per_node or point.world
    on_gpu = options.device != "cpu" and torch.cuda.is_available()
    return {
        "clock": blocks(rows, options)[-options.blocks :],
        "environment": {
            "ranks": point.world,
            "nodes": -(-point.world // per_node),
            "device": torch.cuda.get_device_name() if on_gpu else "cpu",
            "threads": options.threads,
            "load": before,
            "load_after": os.getloadavg(),
        },
    }


def blocks(rows: Sequence[Mapping[str, Any]], settings: Settings) -> list[dict[str, float]]:
    """Return the seconds of a step in each row of metrics: of computing, and of waiting.

    `exposed` is the wait for gradients, the mean over ranks; `data_wait` that of the slowest rank.
    """
    measured, before = [], 0
    for row in rows:
        seconds = (row["characters"] - before) / row["characters_per_second"] / settings.steps
        exposed, data_wait = row.get("exposed_seconds", 0.0), row["data_wait_seconds"]
        measured.append(
            {
                "seconds": seconds,
                "computing": seconds - exposed - data_wait,
                "exposed": exposed,
                "data_wait": data_wait,
                "sent_bytes": row.get("sent_bytes", 0.0),
                "characters_per_second": row["characters_per_second"],
            }
        )
        before = row["characters"]
    return measured


def line(repeat: results.Repeat) -> str:
    """Return what a launch measured, in one line."""
    clock = results.summary([repeat])["clock"]
    parts = (f"{name} {clock[name]['median']:.4f}" for name in CLOCK)
    return f"{clock['seconds']['median']:.4f} s a step: {', '.join(parts)}"


def table(measured: Sequence[dict[str, Any]]) -> str:
    """Return the medians of all points, in seconds of a step."""
    head = ["seconds of a step", "median", "quartiles", *(n.replace("_", " ") for n in CLOCK)]
    return markdown([*head, "MB sent"], [row_of(result) for result in measured])


def row_of(result: dict[str, Any]) -> list[str]:
    """Return a row of the table; of a failed point, why it failed."""
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


if __name__ == "__main__":
    command.run(main)
