"""The board: which recipe reaches a target in the fewest seconds, from results/ and speed.json."""

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.speeds import shape, timed_on
from experiments.studies import HERE, bits_by_seed, bits_cell, by_name, sst_cells, whole_results
from experiments.tables import markdown, origins
from model.files.storage import read_json

STUDY = "speedrun"
SPEED = HERE / STUDY / "speed.json"
TARGETS = (1.8, 1.7, 1.6)  # bits per character
ABSENT = "no run of this study"

Result = Mapping[str, Any]
Speeds = Mapping[str, Mapping[str, float]]  # characters per second: median, least and most


def board() -> str:
    """Return for each target a line for each recipe that reaches it, the fastest first."""
    speed = read_json(SPEED)
    lines = markdown(
        ["target", "run", "million characters", "valid, bits per character", "seconds"],
        [line for of_target in all_lines(speed["cells"]) for line in of_target],
    )
    return f"{lines}\n\n{timed_on(speed)} {origins({'speed.json': speed})}"


def best_lines() -> list[list[str]]:
    """Return the board's first line for each target that a run reaches."""
    first = [of_target[0] for of_target in all_lines(read_json(SPEED)["cells"])]
    return [line for line in first if line[1] != ABSENT]


def all_lines(speeds: Speeds) -> list[list[list[str]]]:
    """Return the board's lines, target by target; the results are read once."""
    runs = by_name(STUDY)
    return [lines_of(target, runs, speeds) for target in TARGETS]


def lines_of(
    target: float, runs: Mapping[str, Sequence[Result]], speeds: Speeds
) -> list[list[str]]:
    """Return the board's lines for a target.

    A run counts if all its seeds end at or below the target; of a recipe's runs the shortest does.
    """
    shortest: dict[str, tuple[float, list[str]]] = {}
    for name, same in sorted(runs.items(), key=lambda pair: pair[1][0]["characters_read"]):
        if max(bits_by_seed(same).values()) <= target:
            median, least, most = seconds_of(same[0], speeds)
            read = f"{same[0]['characters_read'] / 1e6:.1f}"
            seconds = f"{median:.0f} ({least:.0f} to {most:.0f})"
            cells = [f"`{name}`", read, bits_cell(same), seconds]
            shortest.setdefault(name.rpartition("_")[0], (median, cells))
    found = [cells for _, cells in sorted(shortest.values())]
    return [[f"{target:.2f}", *cells] for cells in found or [[ABSENT, "", "", ""]]]


def seconds_of(run: Result, speeds: Speeds) -> tuple[float, float, float]:
    """Return a run's seconds at the median speed of its shape, at the most and at the least."""
    speed, read = speeds[shape(run["keys"], run["corpus"])], run["characters_read"]
    return read / speed["median"], read / speed["most"], read / speed["least"]


def table() -> str:
    """Return a line for each run, of several seeds the mean, those that miss every target too."""
    runs = by_name(STUDY)
    rows = [
        [
            f"`{name}`",
            f"{same[0]['parameters']:,}",
            f"{same[0]['characters_read'] / 1e6:.1f}",
            bits_cell(same),
            *sst_cells(same),
        ]
        for name, same in sorted(runs.items())
    ]
    head = [
        "run", "parameters", "million characters", "valid, bits per character",
        "SST, last state", "SST, mean state",
    ]  # fmt: skip
    return f"{markdown(head, rows)}\n\n{origins(whole_results(STUDY))}"
