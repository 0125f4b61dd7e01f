"""Measure how long training of a given speed waits for the lanes of a corpus.

python -m experiments.data.stream data/reviews --output experiments/data/results/stream.json
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from configs import command
from data_utils.corpus import open_corpus
from data_utils.lanes import Lanes
from data_utils.provenance import describe_origin
from model.files.storage import write_json
from training.feeding import Prefetcher


@dataclass(frozen=True)
class Options:
    """Measure the wait for data during steps that need no processor."""

    corpus: Annotated[Path, tyro.conf.Positional]
    """A prepared corpus."""
    output: Path
    """The JSON file of results."""
    speed: float = 2e6
    """Speed of a step, in characters per second."""
    lanes: tuple[int, ...] = (64, 256, 2048)
    """Numbers of lanes."""
    window: int = 256
    """Bytes per step and lane."""
    seconds: float = 5.0
    """Duration of each measurement."""


def main() -> None:
    options = command.parse(Options, __doc__)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    split = open_corpus(options.corpus).splits["train"]
    rows = [
        measure(Lanes(split, lanes=lanes, window=options.window), options)
        for lanes in options.lanes
    ]
    for row in rows:
        print(f"{row['lanes']:>6} lanes: waited {row['waited']:.4%}; alone {row['alone']:,.0f}/s")
    write_json(options.output, {"rows": rows, "speed": options.speed, "origin": describe_origin()})


def measure(lanes: Lanes, options: Options) -> dict[str, Any]:
    """Return the part of the time spent waiting, and the speed of the lanes alone."""
    step_seconds = lanes.lanes * lanes.window / options.speed
    steps = max(3, int(options.seconds / step_seconds))
    with Prefetcher(lanes, torch.device("cpu"), 0) as prefetcher:
        prefetcher.next()  # the first window had no step to hide behind
        prefetcher.waited, started = 0.0, time.perf_counter()
        for _ in range(steps):
            time.sleep(step_seconds)
            prefetcher.next()
        total = time.perf_counter() - started
    return {
        "lanes": lanes.lanes,
        "window": lanes.window,
        "steps": steps,
        "waited": prefetcher.waited / total,
        "alone": speed_alone(lanes),
    }


def speed_alone(lanes: Lanes, windows: int = 50) -> float:
    """Return the characters per second that the lanes deliver when nothing else runs."""
    started = time.perf_counter()
    characters = sum(lanes[index].characters for index in range(windows))
    return characters / (time.perf_counter() - started)


if __name__ == "__main__":
    command.run(main)
