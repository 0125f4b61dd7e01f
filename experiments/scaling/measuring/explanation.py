"""The performance model fitted to a measured sweep, and what it leaves over.

Fitted are the operations per second of each model's size, the bandwidth within a node and that
between nodes where they were measured, an overhead of several ranks, and the part of the computing
over which gradients become ready where some points tell. What is sent, and in how many pieces, is
taken from the measurement. PowerSGD and Adasum compute besides sending: they are foretold by their
bytes alone, and fitted to nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.errors import InputError
from model.language_model import ModelConfig
from scaling.bandwidth import Bandwidth
from scaling.fitting.least_squares import Fit, Values, fit
from scaling.step_time import Fabric, StepTime, Synchronisation, ring_seconds, step_time
from scaling.workload import Workload

from .points import WHOLE, Point

LINK, NETWORK = "link_bytes_per_second", "network_bytes_per_second"
OVERHEAD, OVERLAP = "overhead_seconds", "overlap"
COMPUTING_TOO = ("powersgd", "adasum")
QUARTILES = 1.349  # of a normal distribution lie so many standard deviations apart


@dataclass(frozen=True)
class Observation:
    """A measured point as the model sees it; seconds are of a window."""

    point: Point
    nodes: int
    tokens: float  # of a rank and window
    payload: float  # bytes of the gradients as they travel, of an exchange
    pieces: int
    seconds: float
    low: float  # quartiles of them
    high: float
    exposed: float  # by the clock, of the mean rank

    @classmethod
    def of(cls, result: dict[str, Any]) -> "Observation":
        """Return what a point's file says."""
        point, clock = Point(**result["point"]), result["summary"]["clock"]
        k, seconds = point.windows_per_step, clock["seconds"]
        ring = ring_seconds(1.0, point.world, 1.0)
        sent = clock["sent_bytes"]["median"]
        pieces = round(result["summary"]["profiler"]["pieces"]["median"])
        return cls(
            point=point,
            nodes=result["repeats"][-1]["environment"]["nodes"],
            tokens=float(result["settings"]["lanes_per_rank"] * result["settings"]["window"]),
            payload=sent / ring if ring else 0.0,
            pieces=1 if point.exchange in (*WHOLE, *COMPUTING_TOO) else max(pieces, 1),
            seconds=seconds["median"] / k,
            low=seconds["low"] / k,
            high=seconds["high"] / k,
            exposed=clock["exposed"]["median"] / k,
        )

    @property
    def workload(self) -> Workload:
        """What its model costs."""
        return Workload.of(ModelConfig(hidden_size=self.point.hidden_size))

    @property
    def fitted(self) -> bool:
        """Whether the model has all that its seconds go into."""
        return self.point.exchange not in COMPUTING_TOO

    @property
    def speed(self) -> str:
        """The name of the parameter that says how fast its model is computed."""
        return f"operations_per_second_{self.point.hidden_size}"

    def reading(self) -> float:
        """Return the relative standard deviation of its seconds, from their quartiles."""
        return (self.high - self.low) / QUARTILES / self.seconds


class SweepModel:
    """What foretells the seconds of a sweep's points."""

    def __init__(
        self,
        observations: Sequence[Observation],
        *,
        link: Bandwidth | None = None,
        network: Bandwidth | None = None,
        overlap: float | None = None,
    ):
        """Take bandwidths that are known, or the overlap; what is None is fitted."""
        self.observations = observations
        self.known = {LINK: link, NETWORK: network}
        self.overlap = overlap
        self.alone = [o for o in observations if o.point.world == 1]
        sizes = {o.point.hidden_size for o in observations}
        if missing := sizes - {o.point.hidden_size for o in self.alone}:
            raise InputError(
                f"{min(missing)} units have no point of a single rank, which says what computing "
                "takes; measure it with --worlds 1"
            )

    @property
    def starts(self) -> dict[str, float]:
        """Every parameter that these points can tell, and where the search for it begins."""
        starts = {}
        for o in self.alone:
            starts[o.speed] = o.tokens * o.workload.operations_per_token / o.seconds
        several = [o for o in self.observations if o.point.world > 1 and o.fitted]
        for name, chosen in ((LINK, lambda o: o.nodes == 1), (NETWORK, lambda o: o.nodes > 1)):
            waits = [o.exposed / o.payload for o in several if chosen(o)]
            if waits and self.known[name] is None:
                starts[name] = 1 / max(float(np.median(waits)), 1e-15)
        if several:
            starts[OVERHEAD] = 0.01 * min(o.seconds for o in several)
        if self.overlap is None and any(o.pieces > 1 for o in several):
            starts[OVERLAP] = 0.3
        return starts

    def fit(self) -> Fit:
        """Fit what is not known to all points that the model has everything for."""
        fitted, starts = [o for o in self.observations if o.fitted], self.starts
        if len(fitted) <= len(starts):
            raise InputError(
                f"{len(fitted)} points for {len(starts)} parameters ({', '.join(starts)}); "
                "measure more"
            )
        predict = lambda values: [self.step(values, o).seconds for o in fitted]  # noqa: E731
        return fit(predict, [o.seconds for o in fitted], starts)

    def base(self, o: Observation) -> Observation:
        """Return the same of a single rank; of other windows between exchanges where there is none.

        A rank alone exchanges nothing, but updates its weights as often.
        """
        same = [a for a in self.alone if a.point.hidden_size == o.point.hidden_size]
        windows = o.point.windows_per_step
        return min(same, key=lambda a: a.point.windows_per_step != windows)

    def step(self, values: Values, o: Observation) -> StepTime:
        """Return the seconds of a window of a point."""
        parameters = o.workload.parameters
        known = {name: known or values.get(name, np.inf) for name, known in self.known.items()}
        fabric = Fabric(
            gpus_per_node=o.point.world // o.nodes,
            link_bytes_per_second=known[LINK],
            network_bytes_per_second=known[NETWORK],
        )
        how = Synchronisation(
            bytes_per_parameter=o.payload / parameters,
            chunks=o.pieces,
            overlap=self.part_ready(values) if o.pieces > 1 else 0.0,
            windows=o.point.windows_per_step,
        )
        computing = o.workload.computing_seconds(o.tokens, values[o.speed])
        overhead = values.get(OVERHEAD, 0.0)
        return step_time(computing, parameters, o.point.world, fabric, how, overhead=overhead)

    def part_ready(self, values: Values) -> float:
        """Return f; what is fitted is f / (1 - f), which may be any number above zero."""
        odds = values.get(OVERLAP)
        return (self.overlap or 0.0) if odds is None else odds / (1 + odds)

    def parameters(self, fitted: Fit) -> dict[str, float]:
        """Return the fitted values, the overlap as f."""
        f = {OVERLAP: self.part_ready(fitted.values)} if OVERLAP in fitted.values else {}
        return {**fitted.values, **f}

    def deviations(self, fitted: Fit, reading: np.ndarray | None = None) -> dict[str, float]:
        """Return their standard deviations, as Fit.deviations does."""
        deviations = fitted.deviations(reading)
        if OVERLAP in deviations:
            deviations[OVERLAP] /= (1 + fitted.values[OVERLAP]) ** 2
        return deviations
