"""Select and summarize the runs for tables and figures."""

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
    """The points of a record; each is the median of its runs that count."""

    content: dict[str, Any]

    @property
    def runs(self) -> list[Row]:
        """All runs."""
        return list(self.content["runs"])

    @property
    def disturbed(self) -> list[Row]:
        """The runs that do not count."""
        return [row for row in self.runs if disturbances(row["measures"])]

    @property
    def rows(self) -> list[Row]:
        """A row for each point that has a run that counts."""
        counted: dict[str, list[Row]] = {}
        for row in self.runs:
            if not disturbances(row["measures"]):
                counted.setdefault(row["key"], []).append(row)
        return [summary(runs) for runs in counted.values()]

    @property
    def unsettled(self) -> list[str]:
        """The keys of the points without a run that counts."""
        return sorted({row["key"] for row in self.runs} - {row["key"] for row in self.rows})

    def of(self, kind: str, **facts: Any) -> list[Row]:
        """Return the points of a kind with these facts."""
        facts["kind"] = kind
        return [row for row in self.rows if facts.items() <= row.items()]

    def training(self, way: str, windows: int) -> dict[int, Row]:
        """Return the steps of a way to exchange, by the number of GPUs."""
        rows = self.of("training", way=way, windows=windows)
        return {row["gpus"]: row for row in sorted(rows, key=lambda row: row["gpus"])}

    def values(self, kind: str, name: str) -> list[Any]:
        """Return the sorted values of a fact among the points of a kind."""
        return sorted({row[name] for row in self.of(kind)})


def summary(runs: list[Row]) -> Row:
    """Return the facts of a point, with the median and range of its runs' seconds."""
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
    """Return the scaling: how many GPUs' work is done; seconds: instead of the measured ones."""
    return float(row["gpus"] * row["computing"] / (seconds or row["seconds"]))


@cache
def fitted_curve() -> dict[int, float]:
    """Return the curve of the model that is fitted to all published points."""
    values = predict(fit_model().values, Constants())[CURVE]
    return dict(zip(readings.GPUS, values, strict=True))
