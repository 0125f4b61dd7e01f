"""Train the recipes that runs.toml names, one core each, and keep what each of them learnt.

python -m experiments.recipe.run --corpus data/reviews --work runs/recipe [NAME ...]
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from configs import command
from experiments.recipe.corpora import RUNS
from experiments.training_runs import Recipe, measure
from model.errors import InputError
from model.files.storage import write_json

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


@dataclass(frozen=True)
class Options:
    """Train recipes of the study; without names, all that have no result yet."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Names of recipes in runs.toml."""
    corpus: Path = Path("data/reviews")
    """A prepared corpus."""
    work: Path = Path("runs/recipe")
    """Folder for the runs."""
    jobs: int = 2
    """Number of runs at a time; each takes one core."""


def main() -> None:
    options = command.parse(Options, __doc__)
    recipes = read_recipes()
    if unknown := set(options.names) - set(recipes):
        raise InputError(f"not in runs.toml: {', '.join(sorted(unknown))}")
    left = [name for name in recipes if not (RESULTS / f"{name}.json").exists()]
    with ThreadPoolExecutor(options.jobs) as pool:
        for line in pool.map(
            lambda name: train(recipes[name], options.corpus, options.work / name),
            options.names or left,
        ):
            print(line, flush=True)


def read_recipes() -> dict[str, Recipe]:
    """Return every recipe of runs.toml by its name."""
    recipes = {}
    for stage, budget in RUNS["budget"].items():
        for name, changes in RUNS[stage].items():
            keys = {**RUNS["base"], **changes}
            corpus = keys.pop("corpus", "")
            recipes[name] = Recipe(name, budget, keys, corpus)
    return recipes


def train(recipe: Recipe, corpus: Path, folder: Path) -> str:
    """Train one recipe on one core, keep its result, and return a line about it."""
    result = measure(recipe, corpus, folder, threads=1)
    RESULTS.mkdir(exist_ok=True)
    write_json(RESULTS / f"{recipe.name}.json", result)
    bits, seconds = result["valid_bits_per_character"], result["training_seconds"]
    return f"{recipe.name:<24} {bits} in {seconds:.0f} s {result['failure']}"


if __name__ == "__main__":
    command.run(main)
