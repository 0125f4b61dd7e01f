"""Measures how every rank spends a step: computing, exchanging, waiting."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .parallel.batch import Prefetcher
from .trainer import Trainer

if TYPE_CHECKING:
    from .utilization import Utilization

_NOTABLE = 0.1  # a cause of waiting that takes more than this fraction of a step is reported


@dataclass(frozen=True)
class Times:
    """The seconds of one rank during some steps."""

    total: float
    exposed: float  # waiting for other ranks' gradients, after its own were complete
    input: float  # waiting for the next windows of text
    characters: float  # read in its own lanes
    sent_bytes: float

    @property
    def computing(self) -> float:
        """Seconds of computing: what remains of the total."""
        return max(self.total - self.exposed - self.input, 1e-9)

    @property
    def speed(self) -> float:
        return self.characters / self.computing


def utilization_of(trainer: Trainer, characters_per_token: float) -> "Utilization | None":
    """Return what else to measure on GPUs; None on CPUs. All ranks call it together."""
    world = trainer.world
    if world.device.type != "cuda":
        return None
    from .utilization import Utilization

    return Utilization(world, trainer.model, trainer.own_lanes, characters_per_token)


class ThroughputMeter:
    """Measures the steps between two rows of metrics."""

    def __init__(
        self,
        trainer: Trainer,
        prefetcher: Prefetcher,
        utilization: "Utilization | None" = None,
        clock: Callable[[], float] = time.perf_counter,
    ):
        self.trainer, self.prefetcher = trainer, prefetcher
        self.utilization = utilization
        self._clock, self._started = clock, clock()  # of the row; a pause moves the start
        self.steps = self.characters = 0
        self.own_characters = self._waited = self._sent = 0.0
        self.ranks: list[Times] = []  # of the last row

    @property
    def speeds(self) -> list[float]:
        """Each rank's characters per second of computing, of the last row."""
        return [rank.speed for rank in self.ranks]

    def advance(self, characters: int) -> None:
        """Count a step: its characters on all ranks."""
        self.steps += 1
        self.characters += characters
        self.own_characters += characters * self.trainer.own_fraction

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time spent in this context, on work other than training.

        All ranks enter and leave it together. Thus no rank counts the main rank's evaluation or
        saving as its work or its waiting.
        """
        began = self._clock()
        try:
            yield
            self.trainer.world.barrier()
        finally:
            self._started += self._clock() - began

    def _seconds(self) -> float:
        """Return the seconds of training since the last row."""
        return max(self._clock() - self._started, 1e-9)

    def line(self) -> dict[str, float]:
        """Return the speed since the last row."""
        return {"characters_per_second": self.characters / self._seconds()}

    def close_row(self) -> dict[str, Any]:
        """Return the speeds since the last row, and start again. All ranks call this together."""
        world, exchange = self.trainer.world, self.trainer.exchange
        seconds = self._seconds()
        self._started += seconds
        times = Times(
            seconds,
            exchange.clock.lap(),
            self.prefetcher.waited - self._waited,
            self.own_characters,
            exchange.sent_bytes - self._sent,
        )
        self._waited, self._sent = self.prefetcher.waited, exchange.sent_bytes
        own = torch.tensor([*vars(times).values()], dtype=torch.float64, device=world.device)
        self.ranks = [Times(*row) for row in world.gather(own).tolist()]
        row = self._row(times.total)
        self.steps = self.characters = 0
        self.own_characters = 0.0
        return row

    def _row(self, total: float) -> dict[str, Any]:
        steps, size = max(self.steps, 1), self.trainer.world.size
        row: dict[str, Any] = {"characters_per_second": round(self.characters / total, 1)}
        row["data_wait_seconds"] = max(rank.input for rank in self.ranks) / steps
        if size > 1:
            row["exposed_seconds"] = sum(rank.exposed for rank in self.ranks) / size / steps
            row["sent_bytes"] = self.ranks[0].sent_bytes / steps
            row["rank_characters_per_second"] = [round(speed, 1) for speed in self.speeds]
            row["slowest_rank"] = max(range(size), key=lambda rank: self.ranks[rank].computing)
        row["bottleneck"] = bottleneck(self.ranks)
        if self.utilization is not None:
            row |= self.utilization.row(self.characters / total)
        return row


def bottleneck(ranks: Sequence[Times]) -> str:
    """Name the largest part of a step besides computing, if it is notable, as CM-DARE does.

    CM-DARE is Li et al. 2020 (arXiv:2004.03072). The slowest rank waits for no other rank, so its
    own wait is communication. The other ranks also wait for it: any longer wait is due to a
    straggler.
    """
    total = sum(rank.total for rank in ranks)
    communication = min(rank.exposed for rank in ranks) * len(ranks)
    fractions = {
        "communication": communication / total,
        "straggler": (sum(rank.exposed for rank in ranks) - communication) / total,
        "input": sum(rank.input for rank in ranks) / total,
    }
    name, fraction = max(fractions.items(), key=lambda item: item[1])
    return f"{name} {fraction:.0%}" if fraction > _NOTABLE else "compute"
