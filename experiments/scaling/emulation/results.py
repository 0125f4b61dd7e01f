"""What was measured, as tables and figures ask for it."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from .. import readings
from ..explanation import Constants, fit_model, predict

Row = dict[str, Any]
CURVE = "ethernet_4096"
PUBLISHED = dict(zip(readings.GPUS, readings.SCALING[CURVE], strict=True))
BOUND = 0.08  # of the difference from a published point


@dataclass(frozen=True)
class Results:
    """The valid points of a record."""

    content: dict[str, Any]

    @property
    def rows(self) -> list[Row]:
        """Return all points."""
        return list(self.content["points"].values())

    def every_run(self) -> list[Row]:
        """Return all runs, those that were discarded or measured again among them."""
        return [*self.rows, *self.content["discarded"], *self.content["replaced"]]

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

    def worst(self) -> float | None:
        """Return the largest difference from a published point, as a part of it."""
        rows = self.training("2018", 1)
        errors = (abs(scaling_of(row) / PUBLISHED[gpus] - 1) for gpus, row in rows.items())
        return max(errors, default=None)


def scaling_of(row: Row, seconds: float | None = None) -> float:
    """Return how many GPUs' work is done; seconds: in place of those measured."""
    return float(row["gpus"] * row["computing"] / (seconds or row["seconds"]))


@cache
def fitted_curve() -> dict[int, float]:
    """Return the model's curve, fitted to all published points."""
    values = predict(fit_model().values, Constants())[CURVE]
    return dict(zip(readings.GPUS, values, strict=True))
