"""Which runs count: those during which the machine did nothing else, whatever they came to."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

LIMITS = {
    "others": 0.10,  # part of the processors' time that went to other processes or to the host
    "overshoot": 0.02,  # by how much computing took longer than asked
    "traffic": 0.5,  # a link's rate over what it carries without a limit, all links at work
}


def disturbances(measures: Mapping[str, float]) -> dict[str, float]:
    """Return what is not below its limit."""
    return {name: value for name, value in measures.items() if not value < LIMITS[name]}


@dataclass(frozen=True, kw_only=True)
class Run:
    """The turns of a point, and what happened meanwhile."""

    seconds: list[float]
    late: list[float]
    computing: float
    others: float
    traffic: float

    @property
    def median(self) -> float:
        """Seconds of a turn."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The seconds that a quarter of the turns stays below, and above."""
        first, _, third = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return first, third

    def measures(self) -> dict[str, float]:
        """Return what is held against the limits, by their names: nothing that the run came to."""
        found = {"others": self.others, "traffic": self.traffic}
        if self.computing:
            found["overshoot"] = statistics.median(self.late) / self.computing
        return found
