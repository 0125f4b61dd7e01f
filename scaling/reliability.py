"""What interruptions cost, and how often to save against them."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Interruptions:
    """A job that is stopped now and then, and goes on from its last checkpoint. Seconds."""

    between: float  # two interruptions of the job, on average
    checkpoint: float  # to write one; training waits
    restart: float  # from an interruption until training goes on

    @property
    def interval(self) -> float:
        """Seconds between checkpoints that lose least: sqrt(2 t M) (Young 1974)."""
        return math.sqrt(2 * self.checkpoint * self.between)

    @property
    def expected_loss(self) -> float:
        """Seconds that an interruption costs: half an interval of work, and the restart."""
        return self.interval / 2 + self.restart

    @property
    def slowdown(self) -> float:
        """How many times as long the job takes as if nothing were saved and nothing failed.

        M exp(R / M) (exp((tau + t) / M) - 1) / tau (Daly 2006), exact where interruptions come
        independently of each other, also during restarts. Infinite where it never gets anywhere.
        """
        M, tau = self.between, self.interval
        try:
            segment = M * math.exp(self.restart / M) * math.expm1((tau + self.checkpoint) / M)
        except OverflowError:
            return math.inf
        return segment / tau


def job_hours_between(node_hours: float, nodes: int) -> float:
    """Return the hours between interruptions of a job that any of its nodes interrupts."""
    return node_hours / nodes
