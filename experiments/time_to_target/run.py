"""How long until a model is as good as the published recipe's: ours, and Adam at a higher rate.

python -m experiments.time_to_target.run --corpus data/reviews --work runs/time_to_target
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs import command
from experiments.training_runs import Recipe, measure
from model.errors import InputError
from model.files.storage import read_json, write_json

HERE = Path(__file__).resolve().parent
FOUND = tomllib.loads((HERE / "recipes.toml").read_text())
RECIPE_2018, LOOP_2018 = "published", "published_byte_by_byte"
RECIPES = {
    RECIPE_2018: FOUND["published"],
    LOOP_2018: {**FOUND["published"], "model.backend": "reference"},
    **FOUND["challengers"],
}
LOOPED = 1 / 16  # of the published recipe's characters; byte by byte, all would take hours
# Parts of the published recipe's characters that a challenger tries, least first.
PARTS = tuple(2 ** (exponent / 2) for exponent in range(-12, 1))


@dataclass(frozen=True)
class Options:
    """Train the published recipe, then each challenger for ever longer until it ends as low.

    A run that has a result is not trained again.
    """

    corpus: Path = Path("data/reviews")
    """A prepared corpus."""
    work: Path = Path("runs/time_to_target")
    """Where the runs are written."""
    results: Path = HERE / "results"
    """Where each run leaves its result."""
    characters: int = 6_000_000
    """What the published recipe reads."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Of the initial weights; each seed is a race of its own."""
    challengers: tuple[str, ...] = tuple(FOUND["challengers"])
    """Recipes that race against the published one."""
    threads: int = 2
    """Threads of every run, one run at a time; nothing else should use the cores."""


def main() -> None:
    options = command.parse(Options, __doc__)
    if unknown := set(options.challengers) - set(FOUND["challengers"]):
        raise InputError(f"no such recipes: {', '.join(sorted(unknown))}; see recipes.toml")
    for seed in options.seeds:
        race(seed, options)


def race(seed: int, options: Options) -> None:
    """Train the published recipe, and each challenger until one of its runs ends as low.

    A short run by each recurrence shows what the loop of 2018 takes, and that it learns the same.
    """
    for name in (LOOP_2018, RECIPE_2018):
        kept(name, round(options.characters * LOOPED), seed, options)
    target = bits_of(kept(RECIPE_2018, options.characters, seed, options))
    if target is None:
        raise InputError(f"the published recipe failed with seed {seed}: see {options.work}")
    for name in options.challengers:
        for characters in budgets(options.characters):
            bits = bits_of(kept(name, characters, seed, options))
            if bits is not None and bits <= target:
                break


def budgets(characters: int) -> Iterator[int]:
    """Yield the lengths that a challenger tries, the shortest first."""
    return (round(characters * part) for part in PARTS)


def kept(name: str, characters: int, seed: int, options: Options) -> dict[str, Any]:
    """Return the result of a run, made now unless an earlier call left it."""
    label = f"{name}_seed_{seed}_{characters}"
    path = options.results / f"{label}.json"
    if not path.exists():
        recipe = Recipe(label, characters, {**FOUND["base"], **RECIPES[name], "seed": seed})
        result = measure(recipe, options.corpus, options.work / label, options.threads)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, result)
        seconds = result["training_seconds"]
        print(f"{label:<28} {bits_of(result)} bits after {seconds:,.0f} s", flush=True)
    return read_json(path)


def bits_of(result: Mapping[str, Any]) -> float | None:
    """Return where a run ended on the valid split; None if it failed."""
    bits: float | None = result["valid_bits_per_character"]
    return bits


if __name__ == "__main__":
    command.run(main)
