"""The tables of a closed study: ways to fine-tune one model, beside published results.

Its commands name the revision that measured them and that holds the code.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data_utils.published_sets.registry import SETS, PublishedFinetuning
from experiments.reproduction.emotions import PLUTCHIK
from experiments.tables import markdown, percent
from model.files.storage import read_json

HERE = Path(__file__).resolve().parent
TASKS = {name: entry for name, entry in SETS.items() if entry.fine_tuned}
WAYS = (
    *("constant", "bag_of_words", "frozen", "frozen_hidden"),
    *("learned", "learned_with_lm", "untrained"),
)
TITLES = {name: f"{entry.title}, {entry.tested_on}" for name, entry in TASKS.items()}
MEASURES = {
    "classes": {"accuracy": "accuracy", "f1_macro": "macro F1"},
    "emotions": {
        "f1_plutchik": "F1, mean of 8 emotions",
        "f1_micro": "micro F1",
        "f1_macro": "macro F1",
        "jaccard_samples": "Jaccard",
    },
}
NOTES = """\
Values are in per cent, with 95 % intervals over texts. With several seeds, we give the mean of
their values and the mean of each end of their intervals; the column `seeds` gives the lowest and
the highest value of the first measure. MCC is Matthews's correlation coefficient; for SemEval it is
the mean over the classes. Minutes are the training time of one seed, without the time to compute
frozen features. `constant` says the commoner class, or every emotion. Published: (source).
"""

Scores = dict[str, list[dict[str, Any]]]  # for each way, the files of its seeds


def main_measures(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the first measure of each task, ours and published."""
    return {task: numbers(task, scores) for task, scores in measured(folder).items()}


def shown(model: str) -> str:
    """Return a description of a model and the tables of all tasks, for README.md."""
    found = measured(HERE / "results" / model)
    parts = [part for task, scores in found.items() for part in (scores_table(task, scores), "")]
    for task in (name for name in found if TASKS[name].kind == "emotions"):
        parts += [emotions_table(found[task], TASKS[task].fine_tuned), ""]
    return "\n".join([*about(found), *parts, NOTES])


def measured(folder: Path) -> dict[str, Scores]:
    """Read the results of a model, by task."""
    return {task: results(folder, task) for task in TITLES}


def results(folder: Path, task: str) -> Scores:
    """Read the results of a task, in the order in which README.md explains the ways."""
    found = {}
    for way in WAYS:
        first = folder / f"{task}_{way}.json"
        others = sorted(folder.glob(f"{task}_{way}_[0-9]*.json"))
        found[way] = [read_json(path) for path in (first, *others) if path.is_file()]
    return {way: seeds for way, seeds in found.items() if seeds}


def about(found: dict[str, Scores]) -> list[str]:
    """Describe the model's size, its training and the texts."""
    model = found["sst"]["frozen"][0]["model"]
    lines = [
        f"The model: {model['architecture']['hidden_size']:,} units, {model['parameters']:,} "
        f"parameters, {model['provenance']['characters']:,} characters read in training."
    ]
    for task, scores in found.items():
        counts = scores["frozen"][0]["examples"].values()
        texts = " / ".join(f"{count:,}" for count in counts)
        lines.append(f"{TITLES[task]}: {texts} texts to train, choose and test on.")
    return [*lines, ""]


def numbers(task: str, scores: Scores) -> dict[str, Any]:
    """Return the first measure of a task: ours with intervals, and the published values."""
    name = next(iter(measures_of(task)))
    ours = {
        way: {"value": mean_of(seeds, name), "interval": interval_of(seeds, name)}
        for way, seeds in scores.items()
    }
    published = {
        f"{row.name} ({row.size.split(', ')[0]})": published_scores(row)[name]
        for row in TASKS[task].fine_tuned
    }
    return {"ours": ours, "published": published}


def scores_table(task: str, scores: Scores) -> str:
    """Return a table with a row for each way and each published model."""
    measures = measures_of(task)
    head = [TITLES[task], *measures.values(), "seeds", "MCC", "epoch", "minutes"]
    rows = [
        [
            f"`{way}`",
            *(percent(mean_of(seeds, name), interval_of(seeds, name)) for name in measures),
            *details(task, seeds),
        ]
        for way, seeds in scores.items()
    ]
    for row in TASKS[task].fine_tuned:
        for words, values in (("", published_scores(row)), (", on the test set", row.on_test)):
            cells = [percent(values[name]) if name in values else "-" for name in measures]
            rows += [[f"{published_name(row)}{words}", *cells, "", "", "", ""]] * bool(values)
    return markdown(head, rows)


def details(task: str, seeds: list[dict[str, Any]]) -> list[str]:
    """Return the spread over seeds, Matthews's coefficient, the best epoch and the minutes."""
    measured = [seed["test"][next(iter(measures_of(task)))] for seed in seeds]
    spread = f": {percent(min(measured))} to {percent(max(measured))}" if len(seeds) > 1 else ""
    correlation = mean_of(seeds, "mcc" if TASKS[task].kind == "classes" else "mcc_macro")
    epochs = ", ".join(str(seed["best_epoch"]) for seed in seeds if "best_epoch" in seed)
    minutes = [seed["seconds"] / 60 for seed in seeds if "seconds" in seed]
    return [
        f"{len(seeds)}{spread}" if epochs else "-",
        f"{correlation:.3f}",
        epochs or "-",
        f"{np.mean(minutes):.1f}" if minutes else "-",
    ]


def emotions_table(scores: Scores, fine_tuned: Sequence[PublishedFinetuning]) -> str:
    """Return the F1 of each of Plutchik's eight emotions: our seeds' means, and the published."""
    rows = []
    for way, seeds in scores.items():
        each = [[seed["test"]["per_class"][name]["f1"] for name in PLUTCHIK] for seed in seeds]
        rows.append([f"`{way}`", *with_mean(np.mean(each, axis=0).tolist())])
    rows += [[published_name(row), *with_mean(row.scores["f1"])] for row in fine_tuned]
    return markdown(["F1", *PLUTCHIK, "mean"], rows)


def with_mean(values: list[float]) -> list[str]:
    """Return values and their mean in per cent."""
    return [percent(value) for value in (*values, np.mean(values))]


def measures_of(task: str) -> dict[str, str]:
    """Return the measures of a set by their keys in a result, the main measure first."""
    return MEASURES[TASKS[task].kind]


def published_scores(row: PublishedFinetuning) -> dict[str, float]:
    """Return the measures of a published row by their keys in a result."""
    scores = dict(row.scores)
    return {"f1_plutchik": float(np.mean(scores["f1"]))} if "f1" in scores else scores


def published_name(row: PublishedFinetuning) -> str:
    """Return the name of a published row, with its source."""
    return f"{row.name}, {row.size} ({row.source})"


def mean_of(seeds: list[dict[str, Any]], name: str) -> float:
    """Return the mean of a measure over seeds."""
    return float(np.mean([seed["test"][name] for seed in seeds]))


def interval_of(seeds: list[dict[str, Any]], name: str) -> list[float]:
    """Return the ends of an interval, averaged over seeds."""
    return np.mean([seed["test"][f"{name}_interval"] for seed in seeds], axis=0).tolist()
