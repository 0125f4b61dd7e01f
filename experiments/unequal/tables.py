"""The table of unequal machines, from results/."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from experiments.tables import markdown, origins, read_result


def speeds() -> str:
    """Return speeds, one rank alone being 1: even shares, measured ones, the most possible."""
    found = read_result("unequal", "throttled")
    alone = median(r["characters_per_second"] for r in found["runs"] if r.get("ranks") == 1)
    rows = []
    for part in found["settings"]["parts"]:
        cells = []
        for way in ("even", "measured"):
            ratios = [speed / alone for speed in speeds_of(found, part, way)]
            cells.append(f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        rows.append([f"{part:g}", *cells, f"{2 * part:.2f}", f"{1 + part:.2f}"])
    head = [
        "second rank's part of a core", "even shares", "measured shares", "even at best",
        "measured at best",
    ]  # fmt: skip
    return f"{markdown(head, rows)}\n\n{origins({'throttled.json': found})}"


def speeds_of(found: Mapping[str, Any], part: float, way: str) -> list[float]:
    """Return the sorted speeds of the runs with a part of a core and a way to share."""
    wanted = (part, way)
    runs = (run for run in found["runs"] if (run.get("part"), run.get("way")) == wanted)
    return sorted(run["characters_per_second"] for run in runs)
