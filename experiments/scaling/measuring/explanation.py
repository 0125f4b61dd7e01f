"""Fit the performance model to a measured sweep.

The fit finds the operations per second for each number of units, the bandwidths within a node and
between nodes, an overhead of several ranks, and the part of computing over which gradients become
ready, each where some points depend on it. The bytes sent are those that were measured. Adasum
computes as well as sends: the model predicts it from its bytes, and is not fitted to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.scaling.least_squares import Fit, Values, fit
from mlstm_sentiment.errors import InputError
from model.layers.config import ModelConfig
from scaling.step_time import Fabric, StepTime, Synchronisation, ring_seconds, step_time
from scaling.workload import Workload

from .points import Point

LINK, NETWORK = "link_bytes_per_second", "network_bytes_per_second"
OVERHEAD, OVERLAP = "overhead_seconds", "overlap"
COMPUTING_TOO = "adasum"  # the exchange that does not only send
QUARTILES = 1.349  # distance of a normal distribution's quartiles, in standard deviations


@dataclass(frozen=True)
class Observation:
    """A measured point as the model sees it; its seconds are those of a window."""

    point: Point
    nodes: int
    tokens: float  # of a rank, in a window
    payload: float  # bytes of the gradients in an exchange, as they travel
    pieces: int
    seconds: float
    low: float  # the quartiles of the seconds
    high: float
    exposed: float  # wait for gradients, the mean over ranks

    @classmethod
    def of(cls, result: dict[str, Any]) -> "Observation":
        """Read the content of a point's file."""
        point, clock = Point(**result["point"]), result["summary"]["clock"]
        k, seconds = point.windows_per_step, clock["seconds"]
        ring = ring_seconds(1.0, point.world, 1.0)
        sent = clock["sent_bytes"]["median"]
        return cls(
            point=point,
            nodes=result["repeats"][-1]["environment"]["nodes"],
            tokens=float(result["settings"]["lanes_per_rank"] * result["settings"]["window"]),
            payload=sent / ring if ring else 0.0,
            pieces=point.pieces,
            seconds=seconds["median"] / k,
            low=seconds["low"] / k,
            high=seconds["high"] / k,
            exposed=clock["exposed"]["median"] / k,
        )

    @property
    def workload(self) -> Workload:
        """The costs of its model."""
        return Workload.of(ModelConfig(hidden_size=self.point.hidden_size))

    @property
    def fitted(self) -> bool:
        """Whether the performance model describes all that its seconds go into."""
        return self.point.exchange != COMPUTING_TOO

    @property
    def speed(self) -> str:
        """The name of the parameter for the speed of computing its model."""
        return f"operations_per_second_{self.point.hidden_size}"

    def reading(self) -> float:
        """Return the relative standard deviation of its seconds, from their quartiles."""
        return (self.high - self.low) / QUARTILES / self.seconds


class SweepModel:
    """Predicts the seconds of the points of a sweep."""

    def __init__(self, observations: Sequence[Observation]):
        self.observations = observations
        self.alone = [o for o in observations if o.point.world == 1]
        sizes = {o.point.hidden_size for o in observations}
        if missing := sizes - {o.point.hidden_size for o in self.alone}:
            raise InputError(
                f"{min(missing)} units have no point of a single rank, which shows the seconds "
                "of computing; measure it with --worlds 1"
            )

    @property
    def starts(self) -> dict[str, float]:
        """The parameters that these points determine, each with its first value in the search."""
        starts = {}
        for o in self.alone:
            starts[o.speed] = o.tokens * o.workload.operations_per_token / o.seconds
        several = [o for o in self.observations if o.point.world > 1 and o.fitted]
        for name, chosen in ((LINK, lambda o: o.nodes == 1), (NETWORK, lambda o: o.nodes > 1)):
            waits = [o.exposed / o.payload for o in several if chosen(o)]
            if waits:
                starts[name] = 1 / max(float(np.median(waits)), 1e-15)
        if several:
            starts[OVERHEAD] = 0.01 * min(o.seconds for o in several)
        if any(o.pieces > 1 for o in several):
            starts[OVERLAP] = 0.3
        return starts

    def fit(self) -> Fit:
        """Fit the unknown parameters to all points that the model describes."""
        fitted, starts = [o for o in self.observations if o.fitted], self.starts
        if len(fitted) <= len(starts):
            raise InputError(
                f"{len(fitted)} points for {len(starts)} parameters ({', '.join(starts)}); "
                "measure more"
            )
        predict = lambda values: [self.step(values, o).seconds for o in fitted]  # noqa: E731
        return fit(predict, [o.seconds for o in fitted], starts)

    def base(self, o: Observation) -> Observation:
        """Return the observation of a single rank for the same model.

        It has the same number of windows between updates, where such a point was measured.
        """
        same = [a for a in self.alone if a.point.hidden_size == o.point.hidden_size]
        windows = o.point.windows_per_step
        return min(same, key=lambda a: a.point.windows_per_step != windows)

    def step(self, values: Values, o: Observation) -> StepTime:
        """Predict the seconds of a window."""
        parameters = o.workload.parameters
        fabric = Fabric(
            gpus_per_node=o.point.world // o.nodes,
            link_bytes_per_second=values.get(LINK, np.inf),
            network_bytes_per_second=values.get(NETWORK, np.inf),
        )
        how = Synchronisation(
            bytes_per_parameter=o.payload / parameters,
            chunks=o.pieces,
            overlap=self.ready_fraction(values) if o.pieces > 1 else 0.0,
            windows=o.point.windows_per_step,
        )
        computing = o.tokens * o.workload.operations_per_token / values[o.speed]
        overhead = values.get(OVERHEAD, 0.0)
        return step_time(computing, parameters, o.point.world, fabric, how, overhead=overhead)

    def ready_fraction(self, values: Values) -> float:
        """Return f. The fitted parameter is f / (1 - f), which may be any number above zero."""
        odds = values.get(OVERLAP, 0.0)
        return odds / (1 + odds)

    def parameters(self, fitted: Fit) -> dict[str, float]:
        """Return the fitted values, with the overlap as f."""
        f = {OVERLAP: self.ready_fraction(fitted.values)} if OVERLAP in fitted.values else {}
        return {**fitted.values, **f}

    def deviations(self, fitted: Fit, reading: np.ndarray | None = None) -> dict[str, float]:
        """Return the standard deviations of the parameters, as Fit.deviations does."""
        deviations = fitted.deviations(reading)
        if OVERLAP in deviations:
            deviations[OVERLAP] /= (1 + fitted.values[OVERLAP]) ** 2
        return deviations
