"""Measure, judge, and repeat what the machine disturbed."""

import os
import time
from collections.abc import Sequence

from .gates import OF_STEPS, Run
from .machine import Snapshot, require_memory
from .points import Point
from .ranks import Ranks, emulated_nodes
from .record import Record
from .scale import Scale

# 8 MB of fp32 over links without a limit: what the machine can carry at most.
CEILING = {"kind": "all_reduce", "numbers": 2_000_000, "operations": 1, "turns": 5}
PAUSE = 5.0  # seconds before another attempt: what disturbed may be over then


def measure_all(
    groups: Sequence[Sequence[Point]], scale: Scale, record: Record, attempts: int
) -> None:
    """Measure all points of the groups, and keep each in the record."""
    most = max(point.nodes for group in groups for point in group)
    require_memory(most)
    ceilings = record.begin()
    with emulated_nodes(most, scale.rate) as ranks:
        session = Session(ranks, scale, record, ceilings)
        for number, group in enumerate(groups):
            left = sum(p.expected_seconds for rest in groups[number:] for p in rest)
            place = f"[{number + 1}/{len(groups)}] {len(group)} points"
            print(f"{place}, {left / 60:.1f} min to go if all runs count", flush=True)
            session.measure(group, attempts)


class Session:
    """Ranks that wait for work, and what this machine's links carry at most."""

    def __init__(self, ranks: Ranks, scale: Scale, record: Record, ceilings: dict[str, float]):
        self.ranks, self.scale, self.record = ranks, scale, record
        self.ceilings = ceilings  # bytes per second of a link, by the number of nodes

    def ceiling(self, nodes: int) -> float:
        """Return what each of so many links sends at most when all do."""
        if str(nodes) not in self.ceilings:
            with self.ranks.unlimited(nodes):
                (turns,) = self.ranks.take([CEILING], nodes)
            rates = [turn["sent_bytes"] / turn["seconds"] for turn in turns]
            self.ceilings[str(nodes)] = max(rates)
        return self.ceilings[str(nodes)]

    def measure(self, group: Sequence[Point], attempts: int) -> None:
        """Measure points of equal nodes in turns, until each has a valid run."""
        left = list(group)
        for attempt in range(attempts):
            if attempt:
                time.sleep(PAUSE)
            left = self.attempt(left)
            if not left:
                return

    def attempt(self, points: Sequence[Point]) -> list[Point]:
        """Measure points once; return those whose run does not count."""
        nodes = points[0].nodes
        traffic = self.scale.payload_bytes_per_second / self.ceiling(nodes)
        if traffic >= OF_STEPS.traffic:
            del self.ceilings[str(nodes)]  # it may have been disturbed itself
        ours = [os.getpid(), *self.ranks.ids]
        before = Snapshot.now(ours)
        rows = self.ranks.take([point.case for point in points], nodes)
        others = Snapshot.now(ours).others_since(before)
        return [
            point
            for point, turns in zip(points, rows, strict=True)
            if not self.judge(point, turns, others, traffic)
        ]

    def judge(
        self, point: Point, turns: list[dict[str, float]], others: float, traffic: float
    ) -> bool:
        """Keep a run or discard it; return whether it counts."""
        run = Run(
            seconds=[turn["seconds"] for turn in turns],
            late=[turn["late"] for turn in turns],
            computing=point.computing,
            predicted=point.predicted,
            modelled=point.modelled,
            others=others,
            traffic=traffic,
        )
        reasons = run.disturbances()
        if reasons:
            self.record.discard(point, run, turns[-1]["sent_bytes"], reasons)
        else:
            self.record.keep(point, run, turns[-1]["sent_bytes"])
        said = ", ".join(f"{name} {value:.1%}" for name, value in reasons.items())
        outcome = f"DISCARDED: {said}" if reasons else ""
        measured = f"{run.median:>9.3f}{run.predicted:>9.3f}"
        print(f"{point.key:<48}{measured}  {outcome}", flush=True)
        return not reasons
