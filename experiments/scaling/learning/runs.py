"""Train the runs of a study, one core each, and keep every result as soon as it is there."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any

from data_utils.sources import load_corpus
from experiments.training_runs import Recipe, measure
from model.errors import InputError
from model.files.storage import read_json

DIVERGED = "not finite"  # part of the message with which training refuses to continue
OF_A_ROW = (
    *("step", "characters", "train_bits_per_character", "valid_bits_per_character"),
    *("learning_rate", "loss_scale", "overflows"),
)

Result = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A recipe, its number of ranks, and the facts that the study adds."""

    recipe: Recipe
    ranks: int = 1
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """The options of every study of training runs."""

    corpus: Path
    """A prepared corpus."""
    work: Path
    """Folder for the files of the runs."""
    output: Path
    """JSON file for the results; runs with a result in it are not trained again."""
    figure: Path | None = None
    """PNG to draw; absent, it has the name of the JSON file."""
    jobs: int = 2
    """Number of runs at a time; each has a core of its own."""

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InputError(f"--jobs {self.jobs}: at least 1")

    @property
    def picture(self) -> Path:
        """The PNG to draw."""
        return self.figure or self.output.with_suffix(".png")


def make_runs(
    runs: Sequence[Run], options: StudyOptions, keep: Callable[[list[Result]], object]
) -> list[Result]:
    """Train the runs that have no result in `options.output`; return all results in order.

    The other results of the output follow, so none is lost. keep: called after each run with all
    results so far, to write them. A run that diverges is a result. A run that ends too soon raises
    InputError.
    """
    options.work.mkdir(parents=True, exist_ok=True)
    corpus = load_corpus(options.corpus).fingerprint
    earlier = _earlier(options.output, runs[0].facts.keys())
    made = {
        run.recipe.name: earlier[run.recipe.name]
        for run in runs
        if _identity(run, corpus).items() <= earlier.get(run.recipe.name, {}).items()
    }
    names = [run.recipe.name for run in runs]
    left = [run for run in runs if run.recipe.name not in made]
    failed: list[BaseException] = []
    stopped = Event()

    def work(run: Run) -> Result | None:
        if stopped.is_set():
            return None
        try:
            return _result_of(run, options, corpus)
        except Exception:
            stopped.set()  # runs that have begun still end and are kept
            raise

    with _pool(options.jobs) as pool:
        try:
            for future in as_completed([pool.submit(work, run) for run in left]):
                if error := future.exception():
                    failed.append(error)
                elif result := future.result():
                    made[result["name"]] = result
                    print(_line(result), flush=True)
                    keep(_in_order(names, made, earlier))
        finally:
            stopped.set()  # also after Ctrl-C
    if failed:
        raise failed[0]
    return _in_order(names, made, earlier)


def _in_order(
    names: Sequence[str], made: Mapping[str, Result], earlier: Mapping[str, Result]
) -> list[Result]:
    """Return the results with these names, then all earlier ones."""
    others = [result for name, result in earlier.items() if name not in names]
    return [*(made[name] for name in names if name in made), *others]


def _pool(jobs: int) -> ThreadPoolExecutor:
    """Return threads, each of which stays on one core with the processes that it starts."""
    numbers: SimpleQueue[int] = SimpleQueue()
    for number in range(jobs):
        numbers.put(number)
    return ThreadPoolExecutor(jobs, initializer=lambda: _take_core(numbers.get()))


def _earlier(output: Path, facts: Collection[str]) -> dict[str, Result]:
    """Return earlier results by name; InputError if they belong to another study."""
    if not output.exists():
        return {}
    try:
        results = {result["name"]: result for result in read_json(output)["runs"]}
    except (KeyError, TypeError) as error:
        raise InputError(f"{output}: holds no runs of a study; name another --output") from error
    for result in results.values():
        if missing := [name for name in facts if name not in result]:
            raise InputError(f"{output}: belongs to another study (no {missing[0]} in its runs)")
    return results


def _identity(run: Run, corpus: str) -> dict[str, Any]:
    recipe = run.recipe
    return {
        "name": recipe.name,
        **run.facts,
        "ranks": run.ranks,
        "characters": recipe.characters,
        "keys": dict(recipe.keys),
        "corpus": corpus,
    }


def _result_of(run: Run, options: StudyOptions, corpus: str) -> Result:
    folder = (options.work / run.recipe.name).resolve()
    measured = measure(run.recipe, options.corpus, folder, threads=1, ranks=run.ranks)
    failure, rows = " ".join(measured["failure"]), measured["rows"]
    if DIVERGED not in failure and not _complete(run.recipe, rows):
        why = failure or f"it ended at step {rows[-1]['step'] if rows else 0}"
        raise InputError(f"{run.recipe.name} was not trained to its end: {why}")
    return {
        **_identity(run, corpus),
        "valid_bits_per_character": measured["valid_bits_per_character"],
        "training_seconds": measured["training_seconds"],
        "failure": failure,
        "rows": [{key: row[key] for key in OF_A_ROW if key in row} for row in rows],
        "made": {key: measured["origin"][key] for key in ("git_revision", "date")},
    }


def _complete(recipe: Recipe, rows: Sequence[Mapping[str, Any]]) -> bool:
    return bool(rows) and rows[-1]["step"] == recipe.steps


def _take_core(number: int) -> None:
    """Keep this thread on one of the available cores."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


def _line(result: Result) -> str:
    bits = result["valid_bits_per_character"]
    score = f"{bits:.4f} bits per character" if bits else result["failure"]
    return f"{result['name']:<24} {score} in {result['training_seconds']:.0f} s"
