"""What each way to spend the same seconds learned: the table, from results/."""

from collections.abc import Iterator
from typing import Any

from experiments.sizes.report import sst_cell
from experiments.studies import by_name, mean_of, whole_results
from experiments.tables import NOT_YET, markdown, origins

STUDY = "levers"
BEGINNINGS = ("half", "small_updates")  # runs that another one continues: no line of their own
HEAD = (
    "run", "million characters", "seconds", "valid, bits per character", "SST, last state",
    "SST, mean state",
)  # fmt: skip


def table() -> str:
    """Return a line for each way, of several seeds the mean; most bits first."""
    results = whole_results(STUDY)
    rows = [
        list(line(name, same, results))
        for name, same in by_name(STUDY).items()
        if name not in BEGINNINGS
    ]
    return f"{markdown(HEAD, rows)}\n\n{origins(results)}" if rows else NOT_YET


def line(
    name: str, same: list[dict[str, Any]], results: dict[str, dict[str, Any]]
) -> Iterator[str]:
    """Yield the cells of a line; characters and seconds include those of the run before."""
    parts = [[run, *before(run, results)] for run in same]
    read = [sum(part["characters_read"] for part in whole) / 1e6 for whole in parts]
    seconds = [sum(part["training_seconds"] for part in whole) for whole in parts]
    yield f"`{name}`"
    yield mean_of(read, 1)
    yield mean_of(seconds, 0)
    yield mean_of([run["valid_bits_per_character"] for run in same], 3)
    yield sst_cell(same, "last", "all_units")
    yield sst_cell(same, "mean", "all_units")


def before(run: dict[str, Any], results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the run that this one continues, if any."""
    return [results[run["after"]]] if run["after"] else []
