"""Measure one way to train on as many ranks as are launched: the program of each of them.

python -m torch.distributed.run --nproc-per-node 8 -m experiments.scaling.measuring.rank \\
    --output runs/sweep --hidden-size 4096 --exchange fp16
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from configs import command
from data_utils.lanes import Lanes
from data_utils.sources import load_corpus
from model.language_model import ModelConfig, build_model
from model.text.split import Split
from training.feeding import Prefetcher
from training.optimizers.optim import OptimConfig
from training.parallel.distributed import World, launched
from training.precision import DTYPES, resolve_precision
from training.throughput import ThroughputMeter
from training.trainer import TrainConfig, Trainer

from . import results
from .breakdown import MEASURED, WAITING, breakdown
from .environment import describe_environment
from .points import Exchange, Point, Settings

WINDOWS = 8  # of a lane, in the characters drawn at random
SCHEDULE = 1_000_000  # steps of a run that these would be the first of


@dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """Add a repeat to the result of a point; the number of ranks is the launcher's."""

    output: Path
    """The folder that has a file for each point."""
    hidden_size: int = 4096
    """H, units."""
    exchange: Exchange = "fp32"
    """What gradients travel as, in buckets during backward; or all in one piece after it; or
    Adasum. Of a single rank nothing travels."""
    bucket_cap_mb: float = 25.0
    """Size at which a bucket of gradients leaves."""
    windows_per_step: int = 1
    """Windows between two exchanges."""

    def point(self, world: int) -> Point:
        """Return the point that so many ranks measure."""
        return Point.of(
            world, self.hidden_size, self.exchange, self.bucket_cap_mb, self.windows_per_step
        )


def main() -> None:
    options = command.parse(Options, __doc__)
    with launched(options.device) as world:
        point = options.point(world.size)
        if world.is_main:
            options.output.mkdir(parents=True, exist_ok=True)
            results.known(options.output, point, options)  # refused before the work
        if options.threads is not None:
            torch.set_num_threads(options.threads)
        repeat = measure(point, options, world)
        if world.is_main:
            results.add_repeat(options.output, point, options, repeat)


def measure(point: Point, settings: Settings, world: World) -> results.Repeat:
    """Return what the clock says of every block, what the profiler says, and where that was."""
    before = describe_environment(world)
    bench = Bench(point, settings, world)
    with bench.prefetcher:
        bench.take(settings.warm_up)
        bench.read_clock(settings.warm_up)
        clock = []
        for _ in range(settings.blocks):
            bench.take(settings.steps)
            clock.append(bench.read_clock(settings.steps))
        profiler = bench.profiled(settings.profiled)
    return {
        "clock": clock,
        "profiler": profiler,
        "environment": {**before, "load_after": describe_environment(world)["load"]},
    }


class Bench:
    """A trainer and its windows; steps are taken, and told apart by what their time goes into."""

    def __init__(self, point: Point, settings: Settings, world: World):
        self.world, self.windows = world, point.windows_per_step
        lanes = settings.lanes_per_rank * world.size
        split = train_split(settings, lanes)
        precision = resolve_precision(settings.precision, world.device)
        config = ModelConfig(hidden_size=point.hidden_size)
        config = config.for_vocabulary(split.tokenizer.vocabulary_size)
        self.trainer = Trainer(
            build_model(config, seed=0, compute_dtype=DTYPES[precision]),
            optim=OptimConfig(clip_norm=1.0),
            train=TrainConfig(precision=precision),
            world=world,
            lanes=lanes,
            steps=SCHEDULE,
            seed=0,
            parallel=point.parallel,
        )
        own = Lanes(split, lanes=lanes, window=settings.window, own=world.own_slice(lanes))
        self.prefetcher = Prefetcher(own, world.device, 0)
        self.meter = ThroughputMeter(world, self.trainer.exchange, self.prefetcher)

    def take(self, steps: int) -> None:
        """Take steps, and wait for the device."""
        for _ in range(steps):
            with record_function(WAITING):
                batches = [self.prefetcher.next() for _ in range(self.windows)]
            self.trainer.train(*batches)
            characters = sum(batch.characters for batch in batches)
            self.meter.advance(characters, self.trainer.own_part)
        if self.world.device.type == "cuda":
            torch.cuda.synchronize(self.world.device)

    def read_clock(self, steps: int) -> dict[str, float]:
        """Return the seconds of a step since the clock was last read.

        Of the slowest rank all in all; of the mean rank computing and exposed to the exchange;
        `exposed_least` of the rank that waits least, which no other keeps waiting.
        """
        characters = self.meter.characters
        self.meter.close_row()
        self.meter.stopwatch.lap()  # what the ranks tell each other is no part of a step
        ranks = self.meter.ranks
        seconds = max(rank.total for rank in ranks)
        return {
            "seconds": seconds / steps,
            "computing": sum(rank.computing for rank in ranks) / len(ranks) / steps,
            "exposed": sum(rank.exposed for rank in ranks) / len(ranks) / steps,
            "exposed_least": min(rank.exposed for rank in ranks) / steps,
            "data_wait": max(rank.input for rank in ranks) / steps,
            "sent_bytes": ranks[0].sent_bytes / steps,
            "characters_per_second": characters / seconds,
        }

    def profiled(self, steps: int) -> dict[str, float]:
        """Return what the profiler says of some more steps, on the mean rank."""
        activities = [ProfilerActivity.CPU]
        if self.world.device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        with profile(activities=activities) as recorded:
            self.take(1)  # the profiler's own first
            with record_function(MEASURED):
                self.take(steps)
        parts = breakdown(recorded.events(), steps)
        own = torch.tensor([*parts.values()], dtype=torch.float64, device=self.world.device)
        mean = self.world.gather(own).mean(0).tolist()
        return dict(zip(parts, mean, strict=True))


def train_split(settings: Settings, lanes: int) -> Split:
    """Return what is read: a corpus's, or characters at random, some windows for every lane."""
    if settings.corpus is not None:
        return load_corpus(settings.corpus).splits["train"]
    length = lanes * WINDOWS * settings.window
    symbols = np.random.default_rng(0).integers(0, 256, length, dtype=np.uint8)
    return Split(symbols, np.arange(0, length + 1, settings.window))


if __name__ == "__main__":
    command.run(main)
