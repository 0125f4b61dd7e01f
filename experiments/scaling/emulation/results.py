"""What was measured, as tables and figures ask for it."""

import statistics
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

from .. import readings
from ..explanation import Constants, fit_model, predict
from .gates import disturbances

Row = dict[str, Any]
CURVE = "ethernet_4096"
PUBLISHED = dict(zip(readings.GPUS, readings.SCALING[CURVE], strict=True))


@dataclass(frozen=True)
class Results:
    """The points of a record: each the median of all its runs that count."""

    content: dict[str, Any]

    @property
    def runs(self) -> list[Row]:
        """Return all runs."""
        return list(self.content["runs"])

    @property
    def disturbed(self) -> list[Row]:
        """Return the runs that do not count."""
        return [row for row in self.runs if disturbances(row["measures"])]

    @property
    def rows(self) -> list[Row]:
        """Return a row for each point that has a run that counts."""
        counted: dict[str, list[Row]] = {}
        for row in self.runs:
            if not disturbances(row["measures"]):
                counted.setdefault(row["key"], []).append(row)
        return [summary(runs) for runs in counted.values()]

    @property
    def unsettled(self) -> list[str]:
        """Return the points without a run that counts."""
        return sorted({row["key"] for row in self.runs} - {row["key"] for row in self.rows})

    def of(self, kind: str, **facts: Any) -> list[Row]:
        """Return the points of a kind with these facts."""
        facts["kind"] = kind
        return [row for row in self.rows if facts.items() <= row.items()]

    def training(self, way: str, windows: int) -> dict[int, Row]:
        """Return the steps of a way to exchange, by GPUs."""
        rows = self.of("training", way=way, windows=windows)
        return {row["gpus"]: row for row in sorted(rows, key=lambda row: row["gpus"])}

    def values(self, kind: str, name: str) -> list[Any]:
        """Return what the points of a kind have of a fact, in order."""
        return sorted({row[name] for row in self.of(kind)})


def summary(runs: list[Row]) -> Row:
    """Return a point's facts, the median and the ends of its runs' seconds, and how many it has."""
    seconds = [row["seconds"] for row in runs]
    facts = {k: v for k, v in runs[-1].items() if k not in ("stretch", "quartiles", "measures")}
    return {
        **facts,
        "seconds": statistics.median(seconds),
        "fastest": min(seconds),
        "slowest": max(seconds),
        "runs": len(runs),
        "stretches": Counter(row["stretch"] for row in runs),
    }


def scaling_of(row: Row, seconds: float | None = None) -> float:
    """Return how many GPUs' work is done; seconds: in place of those measured."""
    return float(row["gpus"] * row["computing"] / (seconds or row["seconds"]))


@cache
def fitted_curve() -> dict[int, float]:
    """Return the model's curve, fitted to all published points."""
    values = predict(fit_model().values, Constants())[CURVE]
    return dict(zip(readings.GPUS, values, strict=True))
