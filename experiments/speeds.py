"""What a study's models cost in seconds: short runs in turns, on quiet cores.

python -m experiments.speeds sizes --corpus data/reviews
"""

import statistics
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from configs import command
from data_utils.provenance import describe_origin
from experiments.studies import HERE, read_runs
from experiments.training_runs import Recipe, measure
from model.bounds import Bound, PositiveInt
from model.errors import InputError
from model.files.storage import write_json

LANES = 64  # of nearly all studies
WARM_UP = 4  # first steps of a run, which do not count


@dataclass(frozen=True)
class Options:
    """Measure one run of each shape that a study has."""

    study: Annotated[str, tyro.conf.Positional]
    """A folder of experiments/ that holds a runs.toml."""
    corpus: Path = Path("data/reviews")
    """A prepared corpus."""
    rounds: PositiveInt = 3
    """How often every shape has its turn."""
    steps: Annotated[int, Bound(min=WARM_UP + 1)] = 20
    """Updates of a turn, four of them to warm up."""
    threads: PositiveInt = 2
    """Threads of a run."""


def main() -> None:
    options = command.parse(Options, __doc__)
    shapes = first_of_shapes(list(read_runs(options.study)))
    turns: list[dict[str, float]] = []
    for turn in range(options.rounds):
        turns.append({name: of_shape(recipe, options) for name, recipe in shapes.items()})
        print(f"turn {turn + 1}: {turns[-1]}", flush=True)
    cells = {name: summary([turn[name] for turn in turns]) for name in shapes}
    path = HERE / options.study / "speed.json"
    about = {"threads": options.threads, "origin": describe_origin()}
    write_json(path, {"cells": cells, "turns": turns, **about})


def first_of_shapes(runs: Sequence[Recipe]) -> dict[str, Recipe]:
    """Return the first run of each shape; of several precisions, one in the study's usual one."""
    precisions = Counter(run.keys["train.precision"] for run in runs)
    shapes: dict[str, Recipe] = {}
    for run in sorted(runs, key=lambda run: -precisions[run.keys["train.precision"]]):
        shapes.setdefault(shape(run.keys, run.corpus), run)
    return shapes


def shape(keys: Any, corpus: str = "") -> str:
    """Return the name of what decides a run's speed, beside its precision.

    It has the cell and the number of units, the optimiser unless it is Muon, the corpus unless it
    is the study's, and the lanes unless they are 64.
    """
    optimizer = keys.get("optim.name", "muon")
    parts = (
        keys.get("model.cell", "mlstm"),
        str(keys["model.hidden_size"]),
        optimizer if optimizer != "muon" else "",
        corpus,
        f"{lanes}_lanes" if (lanes := keys.get("data.lanes", LANES)) != LANES else "",
    )
    return "_".join(filter(None, parts))


def timed_on(speed: Any) -> str:
    """Return a sentence on the processor of a speed.json: other processors have other speeds."""
    hardware = speed["origin"]["hardware"]
    return f"Timed on {speed['threads']} cores of {hardware['processor']}."


def of_shape(recipe: Recipe, options: Options) -> float:
    """Return the characters per second of a short run."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        result = measure(shortened(recipe, options.steps), options.corpus, run, options.threads)
    return of_median_step(result)


def shortened(recipe: Recipe, steps: int) -> Recipe:
    """Return a recipe of so many steps, each of which has a row of metrics; one evaluation."""
    windows = steps * recipe.keys.get("parallel.windows_per_step", 1)
    characters = windows * recipe.keys["data.lanes"] * recipe.keys["data.window"]
    rows = {"log.every_steps": 1, "evaluate.every_steps": steps}
    return replace(recipe, characters=characters, keys={**recipe.keys, **rows})


def of_median_step(result: Mapping[str, Any]) -> float:
    """Return the characters per second of a run's median step after the warm-up."""
    if result["failure"]:
        raise InputError(f"{result['name']} failed: {' '.join(result['failure'])}")
    return statistics.median(row["characters_per_second"] for row in result["rows"][WARM_UP:])


def summary(speeds: list[float]) -> dict[str, float]:
    """Return the median of the turns, and their ends."""
    return {"median": statistics.median(speeds), "least": min(speeds), "most": max(speeds)}


if __name__ == "__main__":
    command.run(main)
