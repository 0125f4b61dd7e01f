"""What interruptions cost, and how often to save because of them."""

import math
from dataclasses import dataclass

MOST_SLOWDOWN = 1000.0  # beyond it, a job hardly ever reaches its next checkpoint


@dataclass(frozen=True)
class Interruptions:
    """A job that is interrupted now and then, and continues from its last checkpoint. Seconds."""

    between: float  # between two interruptions of the job, on average
    checkpoint: float  # to write one, while training waits
    restart: float  # from an interruption until training continues

    @property
    def interval(self) -> float:
        """Seconds between checkpoints for the least loss: sqrt(2 t M) (Young 1974)."""
        return math.sqrt(2 * self.checkpoint * self.between)

    @property
    def expected_loss(self) -> float:
        """Seconds that an interruption costs: half an interval of work, and the restart."""
        return self.interval / 2 + self.restart

    @property
    def slowdown(self) -> float:
        """The job's time, relative to that without any checkpoint or failure.

        M exp(R / M) (exp((tau + t) / M) - 1) / tau (Daly 2006), exact if interruptions are
        independent of each other, also during restarts. Infinite above MOST_SLOWDOWN: no job lasts
        so long.
        """
        M, tau = self.between, self.interval
        try:
            segment = M * math.exp(self.restart / M) * math.expm1((tau + self.checkpoint) / M)
        except OverflowError:
            return math.inf
        return segment / tau if segment <= MOST_SLOWDOWN * tau else math.inf


def job_hours_between(node_hours: float, nodes: int) -> float:
    """Return the hours between interruptions of a job that any of its nodes interrupts."""
    return node_hours / nodes
