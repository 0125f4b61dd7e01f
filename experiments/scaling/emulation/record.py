"""The file of results: every point is kept as soon as it is measured."""

from pathlib import Path
from typing import Any

from data_utils.provenance import describe_origin
from model.errors import InputError
from model.storage import read_json, write_json

from . import machine
from .gates import Run
from .points import Point
from .scale import Scale


class Record:
    """What has been measured so far, and where it is kept."""

    def __init__(self, path: Path | None, scale: Scale):
        self.path, self.stretch = path, scale.stretch
        settings = {"factor": scale.factor}
        self.content: dict[str, Any] = {
            "settings": settings,
            "points": {},
            "discarded": [],  # disturbed runs
            "replaced": [],  # valid ones that were measured again, stretched more
            "sessions": [],
        }
        if path is not None and path.exists():
            self.content = opened(path, settings)

    @property
    def points(self) -> dict[str, dict[str, Any]]:
        """Return the valid runs by the keys of their points."""
        points: dict[str, dict[str, Any]] = self.content["points"]
        return points

    def has(self, point: Point) -> bool:
        """Say whether a point needs no measuring: it was, stretched as much or more."""
        row = self.points.get(point.key)
        return row is not None and row["stretch"] >= self.stretch

    def begin(self) -> dict[str, float]:
        """Note that measuring begins (again), on this machine; return where ceilings are noted."""
        ceilings: dict[str, float] = {}
        origin = describe_origin()
        self.content["sessions"].append({**machine.facts(), "ceilings": ceilings, "origin": origin})
        self.content["origin"] = origin  # of the newest session
        return ceilings

    def keep(self, point: Point, run: Run, sent_bytes: float) -> None:
        """Add a valid run, in place of one that was stretched less."""
        if earlier := self.points.get(point.key):
            self.content["replaced"].append({"key": point.key, **earlier})
        self.points[point.key] = self.row_of(point, run, sent_bytes)
        self.save()

    def discard(self, point: Point, run: Run, sent_bytes: float, reasons: dict[str, float]) -> None:
        """Add a run that does not count."""
        row = {"key": point.key, "reasons": reasons, **self.row_of(point, run, sent_bytes)}
        self.content["discarded"].append(row)
        self.save()

    def row_of(self, point: Point, run: Run, sent_bytes: float) -> dict[str, Any]:
        """Return a run as it is kept: in the cluster's seconds, whatever they took here."""
        return {
            **point.facts,
            "session": len(self.content["sessions"]),
            "stretch": self.stretch,
            "seconds": run.median / self.stretch,
            "quartiles": [seconds / self.stretch for seconds in run.quartiles],
            "turns": len(run.seconds),
            "computing": run.computing / self.stretch,
            "predicted": run.predicted / self.stretch,
            "modelled": run.modelled,
            "measures": run.measures(),
            "sent_bytes": sent_bytes,
        }

    def save(self) -> None:
        """Write the file."""
        if self.path is not None:
            write_json(self.path, self.content)


def opened(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return an earlier session's results; InputError where it had other settings."""
    content = read_json(path)
    earlier = content.get("settings")
    if not isinstance(earlier, dict) or "points" not in content:
        raise InputError(f"{path}: is not of this command; name another --output")
    for name, value in settings.items():
        if earlier.get(name) != value:
            raise InputError(
                f"{path}: was measured with {name} {earlier.get(name)}, not {value}; go on with "
                "that, or name another --output"
            )
    return content
