"""The table of unequal machines, from results/."""

from statistics import median

from experiments.studies import HERE
from experiments.tables import markdown, origins
from model.files.storage import read_json

RESULT = HERE / "unequal" / "results" / "throttled.json"


def speeds() -> str:
    """Return speeds, one rank alone being 1: even shares, measured ones, the most possible."""
    found = read_json(RESULT)
    runs = found["runs"]
    alone = median(run["characters_per_second"] for run in runs if run.get("ranks") == 1)
    rows = []
    for part in found["settings"]["parts"]:
        cells = []
        for way in ("even", "measured"):
            ratios = sorted(
                run["characters_per_second"] / alone
                for run in runs
                if (run.get("part"), run.get("way")) == (part, way)
            )
            cells.append(f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        rows.append([f"{part:g}", *cells, f"{2 * part:.2f}", f"{1 + part:.2f}"])
    head = [
        "second rank's part of a core", "even shares", "measured shares", "even at best",
        "measured at best",
    ]  # fmt: skip
    return f"{markdown(head, rows)}\n\n{origins({'throttled.json': found})}"
