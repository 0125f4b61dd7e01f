"""Measure the points until each has enough undisturbed runs."""

import os
import time
from collections.abc import Sequence

from experiments.emulation.ranks import Ranks, emulated_nodes

from .gates import LIMITS, Run, disturbances
from .machine import Snapshot, require_memory
from .points import Point
from .record import Record
from .scale import Scale

# An all-reduce of 8 MB over links without a limit measures their highest rate.
CEILING = {"kind": "all_reduce", "numbers": 2_000_000, "operations": 1, "turns": 5}
PAUSE = 5.0  # seconds before another attempt, in which a disturbance may end


def measure_all(
    groups: Sequence[Sequence[Point]], scale: Scale, record: Record, attempts: int
) -> None:
    """Measure all points of the groups, and keep each run in the record."""
    most = max(point.nodes for group in groups for point in group)
    require_memory(most)
    ceilings = record.begin()
    with emulated_nodes(most, scale.rate) as ranks:
        session = Session(ranks, scale, record, ceilings)
        for number, group in enumerate(groups):
            points = [point for rest in groups[number:] for point in rest]
            left = sum(record.missing(point) * point.expected_seconds for point in points)
            place = f"[{number + 1}/{len(groups)}] {len(group)} points"
            print(f"{place}, {left / 60:.1f} min to go if all runs count", flush=True)
            session.measure(group, attempts)


class Session:
    """The ranks, and the highest rates of this machine's links."""

    def __init__(self, ranks: Ranks, scale: Scale, record: Record, ceilings: dict[str, float]):
        self.ranks, self.scale, self.record = ranks, scale, record
        self.ceilings = ceilings  # bytes per second of a link, by the number of nodes

    def ceiling(self, nodes: int) -> float:
        """Return the highest rate of a link when so many links are busy."""
        if str(nodes) not in self.ceilings:
            with self.ranks.unlimited(nodes):
                (turns,) = self.ranks.take([CEILING], nodes)
            rates = [turn["sent_bytes"] / turn["seconds"] for turn in turns]
            self.ceilings[str(nodes)] = max(rates)
        return self.ceilings[str(nodes)]

    def measure(self, group: Sequence[Point], attempts: int) -> None:
        """Measure points with equal nodes in turns until each has enough runs that count."""
        for _ in range(attempts):
            left = [point for point in group if self.record.missing(point)]
            if not left:
                return
            if self.measure_once(left):
                time.sleep(PAUSE)

    def measure_once(self, points: Sequence[Point]) -> bool:
        """Measure points once; return whether any run was disturbed."""
        nodes = points[0].nodes
        traffic = self.scale.payload_bytes_per_second / self.ceiling(nodes)
        if traffic >= LIMITS["traffic"]:
            del self.ceilings[str(nodes)]  # that measurement may have been disturbed
        ours = [os.getpid(), *self.ranks.ids]
        before = Snapshot.now(ours)
        rows = self.ranks.take([point.case for point in points], nodes)
        others = Snapshot.now(ours).others_since(before)
        reasons = [
            self.keep(point, turns, others, traffic)
            for point, turns in zip(points, rows, strict=True)
        ]
        return any(reasons)

    def keep(
        self, point: Point, turns: list[dict[str, float]], others: float, traffic: float
    ) -> dict[str, float]:
        """Keep a run and print its result; return what disturbed it."""
        run = Run(
            seconds=[turn["seconds"] for turn in turns],
            late=[turn["late"] for turn in turns],
            computing=point.computing,
            others=others,
            traffic=traffic,
        )
        self.record.keep(point, run, turns[-1]["sent_bytes"])
        reasons = disturbances(run.measures())
        said = ", ".join(f"{name} {value:.1%}" for name, value in reasons.items())
        outcome = f"DISTURBED: {said}" if reasons else ""
        measured = f"{run.median:>9.3f}{point.predicted:>9.3f}"
        print(f"{point.key:<48}{measured}  {outcome}", flush=True)
        return reasons
