"""Decide which runs count: those that the machine did not disturb, whatever their results."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

LIMITS = {
    "others": 0.10,  # part of the processors' time that other processes or the host took
    "overshoot": 0.02,  # part by which computing took longer than it should
    "traffic": 0.5,  # rate of a link over its rate without a limit, with all links busy
}


def disturbances(measures: Mapping[str, float]) -> dict[str, float]:
    """Return the measures that are not below their limits."""
    return {name: value for name, value in measures.items() if not value < LIMITS[name]}


@dataclass(frozen=True, kw_only=True)
class Run:
    """The turns of a point, and the disturbances during them."""

    seconds: list[float]
    late: list[float]
    computing: float
    others: float
    traffic: float

    @property
    def median(self) -> float:
        """The median seconds of a turn."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper quartile of the seconds."""
        first, _, third = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return first, third

    def measures(self) -> dict[str, float]:
        """Return what the limits apply to, by their names; the result is not among it."""
        found = {"others": self.others, "traffic": self.traffic}
        if self.computing:
            found["overshoot"] = statistics.median(self.late) / self.computing
        return found
