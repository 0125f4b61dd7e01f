"""Keep every run in the file of results as soon as it is measured, whether it counts or not."""

from pathlib import Path
from typing import Any

from data_utils.provenance import describe_origin
from model.errors import InputError
from model.files.storage import read_json, write_json

from . import machine
from .gates import Run, disturbances
from .points import Point
from .scale import Scale


class Record:
    """The runs so far, and their file."""

    def __init__(self, path: Path | None, scale: Scale, enough: int):
        self.path, self.stretch, self.enough = path, scale.stretch, enough
        settings = {"factor": scale.factor}
        self.content: dict[str, Any] = {"settings": settings, "runs": [], "sessions": []}
        if path is not None and path.exists():
            self.content = opened(path, settings)

    def missing(self, point: Point) -> int:
        """Return how many more runs a point needs that count and are stretched enough."""
        counted = (
            row
            for row in self.content["runs"]
            if row["key"] == point.key
            and row["stretch"] >= self.stretch
            and not disturbances(row["measures"])
        )
        return max(self.enough - sum(1 for _ in counted), 0)

    def begin(self) -> dict[str, float]:
        """Begin a session on this machine; return its empty dictionary of link rates."""
        ceilings: dict[str, float] = {}
        origin = describe_origin()
        self.content["sessions"].append({**machine.facts(), "ceilings": ceilings, "origin": origin})
        self.content["origin"] = origin  # of the newest session
        return ceilings

    def keep(self, point: Point, run: Run, sent_bytes: float) -> None:
        """Add a run, with its seconds converted to those of the cluster."""
        self.content["runs"].append({
            "key": point.key,
            **point.facts,
            "session": len(self.content["sessions"]),
            "stretch": self.stretch,
            "seconds": run.median / self.stretch,
            "quartiles": [seconds / self.stretch for seconds in run.quartiles],
            "turns": len(run.seconds),
            "computing": run.computing / self.stretch,
            "predicted": point.predicted / self.stretch,
            "measures": run.measures(),
            "sent_bytes": sent_bytes,
        })  # fmt: skip
        self.save()

    def save(self) -> None:
        """Write the file."""
        if self.path is not None:
            write_json(self.path, self.content)


def opened(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Read earlier results; InputError if their settings differ."""
    content = read_json(path)
    earlier = content.get("settings")
    if not isinstance(earlier, dict) or "runs" not in content:
        raise InputError(f"{path}: is not of this command; name another --output")
    for name, value in settings.items():
        if earlier.get(name) != value:
            raise InputError(
                f"{path}: was measured with {name} {earlier.get(name)}, not {value}; go on with "
                "that, or name another --output"
            )
    return content
