"""Train the recipes named in runs.toml, one core each, and keep what each of them learnt.

python -m experiments.recipe.run --corpus data/reviews --work runs/recipe [NAME ...]
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from configs import command
from data_utils.corpus import open_corpus
from data_utils.provenance import describe_origin
from experiments.failure import reason_in
from experiments.recipe.corpora import RUNS, beside
from model.errors import InputError
from model.files.storage import write_json
from training.metrics import read_rows

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = HERE / "results"
EVALUATIONS = 4  # per run


@dataclass(frozen=True)
class Options:
    """Train recipes of the study; without names, all that have no result yet."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Recipes, as runs.toml calls them."""
    corpus: Path = Path("data/reviews")
    """A prepared corpus."""
    work: Path = Path("runs/recipe")
    """Where the runs are written."""
    jobs: int = 2
    """Runs at a time, one core each."""


@dataclass(frozen=True)
class Recipe:
    """One run: how many characters it may read, the keys of its config, and its corpus."""

    name: str
    characters: int
    keys: Mapping[str, Any]
    corpus: str = ""
    """A variant of the corpus, one of corpora.py; empty, the corpus itself."""

    @property
    def steps(self) -> int:
        """How many updates read the characters."""
        windows = self.keys.get("parallel.windows_per_step", 1)
        of_a_step = self.keys["data.lanes"] * self.keys["data.window"] * windows
        return round(self.characters / of_a_step)

    def arguments(self, corpus: Path, folder: Path) -> list[str]:
        """Return the command line after `python`."""
        steps = self.steps
        keys = {
            "data.corpus": beside(corpus, self.corpus),
            "train.steps": steps,
            "evaluate.every_steps": -(-steps // EVALUATIONS),
            "log.every_steps": max(1, steps // 40),
            "checkpoint.every_steps": steps,
            "evaluate.lanes": 32,
            **self.keys,
        }
        pairs = [word for key, value in keys.items() for word in (f"--{key}", str(value))]
        return ["main.py", "--run-dir", str(folder), *pairs]


def read_recipes() -> dict[str, Recipe]:
    """Return every recipe of runs.toml by its name."""
    recipes = {}
    for stage, budget in RUNS["budget"].items():
        for name, changes in RUNS[stage].items():
            keys = {**RUNS["base"], **changes}
            corpus = keys.pop("corpus", "")
            recipes[name] = Recipe(name, budget, keys, corpus)
    return recipes


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


def train(recipe: Recipe, corpus: Path, folder: Path) -> str:
    """Train one recipe on one core, keep its result, and return a line on it."""
    result = measure(recipe, corpus, folder, threads=1)
    RESULTS.mkdir(exist_ok=True)
    write_json(RESULTS / f"{recipe.name}.json", result)
    bits, seconds = result["valid_bits_per_character"], result["training_seconds"]
    return f"{recipe.name:<24} {bits} in {seconds:.0f} s {result['failure']}"


def measure(
    recipe: Recipe, corpus: Path, folder: Path, threads: int, ranks: int = 1
) -> dict[str, Any]:
    """Train one recipe and return what it learnt, and in how many seconds of training."""
    ranked = ["--standalone", "--nproc-per-node", str(ranks)]
    launcher = ["-m", "torch.distributed.run", *ranked] if ranks > 1 else []
    process = subprocess.run(
        [sys.executable, *launcher, *recipe.arguments(corpus.resolve(), folder)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
    )
    reason = reason_in(process.stderr) or f"exit code {process.returncode}"
    failure = [reason] if process.returncode else []
    rows = read_rows(folder / "metrics.jsonl") if (folder / "metrics.jsonl").exists() else []
    scores = [row["valid_bits_per_character"] for row in rows if "valid_bits_per_character" in row]
    result = {
        "name": recipe.name,
        "characters": recipe.characters,
        "keys": dict(recipe.keys),
        "corpus": recipe.corpus,
        "fingerprint": open_corpus(corpus).fingerprint,
        "characters_read": rows[-1]["characters"] if rows else 0,
        "valid_bits_per_character": scores[-1] if scores and not failure else None,
        "training_seconds": training_seconds(rows),
        "failure": failure,
        "rows": rows,
        "origin": describe_origin(),
    }
    return json.loads(json.dumps(result))


def training_seconds(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds that the steps took; evaluations and checkpoints are not in them."""
    befores = [0, *(row["characters"] for row in rows)]
    return sum(
        (row["characters"] - before) / row["characters_per_second"]
        for row, before in zip(rows, befores, strict=False)
    )


if __name__ == "__main__":
    command.run(main)
