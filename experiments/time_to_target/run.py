"""Measure how soon our recipe and Adam reach the score of the published recipe.

python -m experiments.time_to_target.run --corpus data/reviews --work runs/time_to_target
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs import command
from experiments.training_runs import Recipe, measure
from model.errors import InputError
from model.files.storage import read_json, write_json

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
RECIPES = tomllib.loads((HERE / "recipes.toml").read_text())
# Parts of the published recipe's characters that a challenger tries, from the smallest.
PARTS = tuple(2 ** (exponent / 2) for exponent in range(-14, 1))


@dataclass(frozen=True)
class Options:
    """Train the published recipe; then each challenger, longer each time, until it is as good."""

    corpus: Path = Path("data/reviews")
    """A prepared corpus."""
    work: Path = Path("runs/time_to_target")
    """Folder for the runs."""
    characters: int = 12_000_000
    """Characters that the published recipe reads."""
    threads: int = 2
    """Threads of a run. One run trains at a time; nothing else should use the cores."""
    results: Path = RESULTS
    """The folder of results."""


Train = Callable[[Recipe, Path, Path, int], dict[str, Any]]  # as `measure`


def main() -> None:
    race(command.parse(Options, __doc__), measure)


def race(options: Options, train: Train) -> None:
    """Train what has no result yet; write and print what each recipe took."""
    label = f"published_{options.characters}"
    published = kept(label, options.characters, RECIPES["published"], options, train)
    target = published["valid_bits_per_character"]
    if target is None:
        raise InputError(f"the published recipe failed: {' '.join(published['failure'])}")
    summary = {"target": target, "published": brief(published, published)}
    print(line("published", summary["published"]), flush=True)
    for name in RECIPES["challengers"]:
        first = first_as_low(name, target, options, train)
        summary[name] = brief(first, published) if first else None
        print(line(name, summary[name]), flush=True)
    write_json(options.results / "summary.json", summary)


def first_as_low(name: str, target: float, options: Options, train: Train) -> dict[str, Any] | None:
    """Return the shortest run of a challenger that reaches the target, or None."""
    for part in PARTS:
        characters = round(options.characters * part)
        label = f"{name}_{characters}"
        result = kept(label, characters, RECIPES["challengers"][name], options, train)
        bits = result["valid_bits_per_character"]
        if bits is not None and bits <= target:
            return result
    return None


def kept(
    label: str, characters: int, changes: Mapping[str, Any], options: Options, train: Train
) -> dict[str, Any]:
    """Return the result of a run; train it unless an earlier command has kept it."""
    path = options.results / f"{label}.json"
    if not path.exists():
        folder = options.work / label
        recipe = Recipe(label, characters, {**RECIPES["base"], **changes})
        result = train(recipe, options.corpus, folder, options.threads)
        options.results.mkdir(exist_ok=True)
        write_json(path, result)
    return read_json(path)


def brief(result: Mapping[str, Any], published: Mapping[str, Any]) -> dict[str, float]:
    """Return the cost of a run, and the ratio of the published recipe's cost to it."""
    seconds, characters = result["training_seconds"], result["characters"]
    return {
        "valid_bits_per_character": result["valid_bits_per_character"],
        "characters": characters,
        "seconds": seconds,
        "times_fewer_characters": published["characters"] / characters,
        "times_less_time": published["training_seconds"] / seconds,
    }


def line(name: str, row: Mapping[str, float] | None) -> str:
    """Describe a run in one line."""
    if row is None:
        return f"{name:<10} never as low"
    return (
        f"{name:<10} {row['valid_bits_per_character']:.4f} bits after {row['seconds']:,.0f} s, "
        f"{row['characters']:,} characters: {row['times_less_time']:.1f} times less time, "
        f"{row['times_fewer_characters']:.1f} times fewer characters"
    )


if __name__ == "__main__":
    command.run(main)
