"""What each way to spend the same seconds learned: the table, from results/."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from experiments.speeds import shape, timed_on
from experiments.studies import HERE, bits_cell, by_name, sst_cells, whole_results
from experiments.tables import NOT_YET, markdown, origins
from model.files.storage import read_json

STUDY = "levers"
SPEED = HERE / STUDY / "speed.json"
BEGINNINGS = ("half", "small_updates")  # runs that another one continues: no line of their own
HEAD = (
    "run", "million characters", "seconds", "valid, bits per character", "SST, last state",
    "SST, mean state",
)  # fmt: skip


def table() -> str:
    """Return a line for each way, of several seeds the mean; most bits first."""
    if not SPEED.exists():
        return NOT_YET
    results, speed = whole_results(STUDY), read_json(SPEED)
    rows = [
        list(line(name, same, results, speed["cells"]))
        for name, same in by_name(STUDY).items()
        if name not in BEGINNINGS
    ]
    told = f"{timed_on(speed)} {origins({**results, 'speed.json': speed})}"
    return f"{markdown(HEAD, rows)}\n\n{told}"


def line(
    name: str,
    same: list[dict[str, Any]],
    results: dict[str, dict[str, Any]],
    speeds: dict[str, dict[str, float]],
) -> Iterator[str]:
    """Yield the cells of a line; characters and seconds include those of the run before.

    The seconds are those at the median speed of each shape on quiet cores.
    """
    parts = [[run, *before(run, results)] for run in same]
    read = [sum(part["characters_read"] for part in whole) / 1e6 for whole in parts]
    seconds = [
        sum(part["characters_read"] / speeds[shape(part["keys"])]["median"] for part in whole)
        for whole in parts
    ]
    yield f"`{name}`"
    yield f"{fmean(read):.1f}"  # the same for all seeds
    yield f"{fmean(seconds):.0f}"
    yield bits_cell(same)
    yield from sst_cells(same)


def before(run: dict[str, Any], results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the run that this one continues, if any."""
    return [results[run["after"]]] if run["after"] else []
