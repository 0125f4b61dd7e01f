"""Compare the speed of recipes by short runs in turns, which share the load of the machine.

python -m experiments.recipe.speed --corpus data/reviews
"""

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.recipe.run import HERE, read_recipes
from experiments.training_runs import Recipe, measure
from model.errors import InputError
from model.files.storage import write_json

RESULT = HERE / "speed.json"
BASE = "muon_1e-2"
NAMES = (
    BASE,
    "adam_8e-2",
    "window_64",
    "window_32",
    "lanes_32",
    "lanes_128",
    "embedding_256",
    "bf16",
)
WARM_UP = 4  # first steps of a run, which do not count


@dataclass(frozen=True)
class Options:
    """Measure, on one core, the recipes whose operations differ from those of the base."""

    corpus: Path = Path("data/reviews")
    """A prepared corpus."""
    rounds: int = 3
    """Rounds; each runs every recipe once."""
    characters: int = 200_000
    """Characters that a run reads."""


def main() -> None:
    options = command.parse(Options, __doc__)
    recipes = read_recipes()
    turns = []
    for turn in range(options.rounds):
        turns.append(
            {name: speed_of(recipes[name], options.corpus, options.characters) for name in NAMES}
        )
        print(f"turn {turn + 1}: {turns[-1]}", flush=True)
    ratios = ratios_to_base(turns)
    write_json(RESULT, {"turns": turns, "ratios": ratios, "origin": describe_origin()})
    for name, ratio in ratios.items():
        print(f"{name:<16} {ratio['median']:.3f}  {ratio['least']:.3f} to {ratio['most']:.3f}")


def speed_of(recipe: Recipe, corpus: Path, characters: int, threads: int = 1) -> float:
    """Return the characters per second of the median step of a short run."""
    with tempfile.TemporaryDirectory() as folder:
        keys = {**recipe.keys, "log.every_steps": 1}
        short = replace(recipe, characters=characters, keys=keys)
        result = measure(short, corpus, Path(folder) / "run", threads=threads)
    if result["failure"]:
        raise InputError(f"{recipe.name} failed: {' '.join(result['failure'])}")
    return median_speed(result["rows"])


def median_speed(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the median characters per second after the warm-up; rows: one for each step."""
    return statistics.median(row["characters_per_second"] for row in rows[WARM_UP:])


def ratios_to_base(turns: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the speed of each recipe over that of the base: median and range over rounds."""
    ratios = {name: [turn[name] / turn[BASE] for turn in turns] for name in turns[0]}
    return {
        name: {"median": statistics.median(of), "least": min(of), "most": max(of)}
        for name, of in ratios.items()
    }


if __name__ == "__main__":
    command.run(main)
