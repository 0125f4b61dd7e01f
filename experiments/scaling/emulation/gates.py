"""Which runs count: one that the machine disturbed is discarded and repeated, never averaged."""

import statistics
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a run must stay below."""

    others: float = 0.10
    """Part of the processors' time that other processes took meanwhile."""
    overshoot: float = 0.02
    """By how much computing took longer than asked."""
    traffic: float = 0.5
    """A link's rate over what it carries without a limit, all links at work."""
    model: float = 0.05
    """Difference from what the closed form foretells."""
    spread: float = 0.03
    """Distance of the quartiles over the median of the turns."""


OF_STEPS = Limits()
OF_EXCHANGES = Limits(model=0.15, spread=0.09)  # alone: computing, most of a step, dilutes nothing


@dataclass(frozen=True, kw_only=True)
class Run:
    """The turns of a point, and what happened meanwhile."""

    seconds: list[float]
    late: list[float]
    computing: float
    predicted: float
    modelled: bool
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
        """Return what is held against the limits, by their names."""
        first, third = self.quartiles
        found = {"others": self.others, "traffic": self.traffic}
        if self.computing:
            found["overshoot"] = statistics.median(self.late) / self.computing
        if self.modelled:
            found["model"] = abs(self.median / self.predicted - 1)
            found["spread"] = (third - first) / self.median
        return found

    @property
    def limits(self) -> Limits:
        """Return those that hold for it."""
        return OF_STEPS if self.computing else OF_EXCHANGES

    def disturbances(self) -> dict[str, float]:
        """Return what is not below its limit."""
        return {k: v for k, v in self.measures().items() if not v < getattr(self.limits, k)}
