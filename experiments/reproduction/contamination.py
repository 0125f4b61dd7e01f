"""Find the texts of the published sets that share wording with the training reviews.

python -m experiments.reproduction.contamination --data DATA --reviews data/selected.jsonl
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from configs import command
from data_utils.provenance import describe_origin
from experiments.intervals import packed_answers, unpacked_answers
from experiments.models.overlap import Words, run_hashes
from experiments.published_sets import SETS
from experiments.results import read_result
from experiments.tables import markdown, origins, percent
from mlstm_sentiment.files.writer import write_json
from mlstm_sentiment.reading.texts import ReadingReport, read_texts
from transfer.regression import accuracy_interval

HERE = Path(__file__).resolve().parent
RUNS = (12, 8)  # words in a row
TASKS = ("cr", "subj", "mpqa")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Count the texts that share runs of words with the training reviews."""

    data: Path
    """The folder that holds a folder for each set: cr/, subj/, ..."""
    reviews: Path
    """The reviews from which the models learned."""
    tasks: tuple[Literal[*SETS], ...] = TASKS  # type: ignore[valid-type]
    """Names of sets."""
    results: Path = HERE / "results"
    """The folder of results."""


def main() -> None:
    options = command.parse(Options, __doc__)
    texts = {name: SETS[name].read(options.data).texts.texts for name in options.tasks}
    reviews = read_texts([options.reviews], None, ReadingReport(), strict=False)
    result = shared_runs(texts, reviews)
    result = {**result, "origin": describe_origin()}
    write_json(options.results / "contamination.json", result, "a result")
    print(table())


def shared_runs(texts: dict[str, list[str]], reviews: Iterable[str]) -> dict[str, Any]:
    """Return for each set and size of run how many texts are as long, and which are shared."""
    read = Words().read
    words = {name: [read(text) for text in own] for name, own in texts.items()}
    runs = {
        size: np.unique(
            np.concatenate([run_hashes(w, size) for own in words.values() for w in own])
        )
        for size in RUNS
    }
    seen = {size: np.zeros(len(targets), bool) for size, targets in runs.items()}
    for review in reviews:
        own = read(review)
        for size, targets in runs.items():
            hashes = run_hashes(own, size)
            places = np.searchsorted(targets, hashes).clip(max=len(targets) - 1)
            seen[size][places[targets[places] == hashes]] = True
    result: dict[str, Any] = {name: {"texts": len(own)} for name, own in texts.items()}
    for size, targets in runs.items():
        shared = targets[seen[size]]
        for name in words:
            rows = np.array([bool(np.isin(run_hashes(w, size), shared).any()) for w in words[name]])
            result[name][str(size)] = {
                "long_enough": sum(len(w) >= size for w in words[name]),
                "shared": int(rows.sum()),
                "rows": packed_answers(rows),
            }
    return result


def table(*models: str) -> str:
    """Return how many texts are shared, and the accuracy of all units on the others."""
    result = read_result("reproduction", "contamination")
    rows = []
    for name in (task for task in TASKS if task in result):
        row = result[name]
        cells = [
            f"{row[str(size)]['shared']:,} of {row[str(size)]['long_enough']:,}" for size in RUNS
        ]
        of_models = [on_the_others(row, model, name) for model in models]
        rows.append([f"{SETS[name].title}, {row['texts']:,} texts", *cells, *of_models])
    heads = [f"share {size} words in a row" for size in RUNS]
    of_units = f"all units: all texts, without those that share {RUNS[-1]}"
    heads += [f"`{model}`, {of_units}" for model in models]
    return f"{markdown(['set', *heads], rows)}\n\n{origins({'contamination.json': result})}"


def on_the_others(row: dict[str, Any], model: str, name: str) -> str:
    """Return the accuracy of all units on all texts, and on those that share no run of words."""
    result = read_result("reproduction", f"{model}/{name}")
    right = unpacked_answers(result["all_units"]["right"], row["texts"])
    others = ~unpacked_answers(row[str(RUNS[-1])]["rows"], row["texts"])
    rest = float(right[others].mean())
    return f"{percent(right.mean())}, {percent(rest, accuracy_interval(rest, int(others.sum())))}"


if __name__ == "__main__":
    command.run(main)
