"""The ways of fine-tuning beside each other and the published rows, from the JSON of one model.

python -m experiments.finetuning.table experiments/finetuning/results/amazon_1024
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from configs import command
from data_utils.published_sets.registry import FineTuned
from experiments.reproduction.emotions import PLUTCHIK
from experiments.tables import markdown
from model.errors import InputError
from model.files.storage import read_json, write_atomically, write_json
from transfer.plots import save_png

from .figure import draw
from .variants import TASKS, variants_of

HERE = Path(__file__).resolve().parent
WAYS = ("constant", "bag_of_words", *variants_of(1, 0))
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
Per cent, with 95 % intervals over texts: of several seeds the means of their values and of the ends
of their intervals, and from the lowest to the highest value of the first measure. MCC is Matthews's
coefficient; of SemEval the mean of the classes'. Minutes are those of learning, of one seed; what
frozen features take to be read is not in them. `constant` says the commoner class, or every
emotion. Published: (source).
"""

Scores = dict[str, list[dict[str, Any]]]  # of each way, what the file of each seed holds


def main() -> None:
    if len(sys.argv) != 2:
        raise InputError("give the folder of one model's results")
    print(write_table(Path(sys.argv[1])))


def write_table(folder: Path) -> str:
    """Write table.md, table.json and table.png for the results that a folder holds; return it."""
    found = measured(folder)
    text = as_markdown(found)
    rows = {task: numbers(task, scores) for task, scores in found.items()}
    write_atomically(folder / "table.md", lambda path: path.write_text(text, encoding="utf-8"))
    write_json(folder / "table.json", rows)
    save_png(draw(rows), folder / "table.png")
    return text


def shown(model: str) -> str:
    """Return the tables of a model's results, for README.md."""
    return as_markdown(measured(HERE / "results" / model))


def measured(folder: Path) -> dict[str, Scores]:
    """Return what was measured with a model, by task."""
    found = {task: results(folder, task) for task in TITLES}
    found = {task: scores for task, scores in found.items() if scores}
    if not found:
        raise InputError(f"{folder}: no results of {' or '.join(TITLES)}")
    return found


def as_markdown(found: dict[str, Scores]) -> str:
    """Return the tables of all tasks, below what the model is."""
    parts = [part for task, scores in found.items() for part in (scores_table(task, scores), "")]
    for task in (name for name in found if TASKS[name].kind == "emotions"):
        parts += [emotions_table(found[task], TASKS[task].fine_tuned), ""]
    return "\n".join([*about(found), *parts, NOTES])


def results(folder: Path, task: str) -> Scores:
    """Return what was measured, in the order in which the ways are explained."""
    found = {}
    for way in WAYS:
        first = folder / f"{task}_{way}.json"
        others = sorted(folder.glob(f"{task}_{way}_[0-9]*.json"))
        found[way] = [read_json(path) for path in (first, *others) if path.is_file()]
    return {way: seeds for way, seeds in found.items() if seeds}


def about(found: dict[str, Scores]) -> list[str]:
    """Return lines on the model's size, what it has read, and the texts."""
    tuned = (seeds[0] for scores in found.values() for seeds in scores.values())
    models = [result["model"] for result in tuned if "provenance" in result.get("model", {})]
    known = [model for model in models if not model["provenance"].get("untrained")]
    lines = []
    for model in known[:1]:
        read = model["provenance"].get("characters")
        parts = [f"{model['architecture']['hidden_size']:,} units"]
        parts += [f"{model['parameters']:,} parameters"] if "parameters" in model else []
        parts += [f"{read:,} characters read in training"] if read else []
        lines.append(f"The model: {', '.join(parts)}.")
    for task, scores in found.items():
        counts = next(seeds[0]["examples"] for seeds in scores.values() if "examples" in seeds[0])
        texts = " / ".join(f"{count:,}" for count in counts.values())
        lines.append(f"{TITLES[task]}: {texts} texts to train, choose and test on.")
    return [*lines, ""]


def numbers(task: str, scores: Scores) -> dict[str, Any]:
    """Return what is drawn: the first measure of ours, with its interval, and of the published."""
    measures = measures_of(task)
    name = next(iter(measures))
    ours = {
        way: {"value": mean_of(seeds, name), "interval": interval_of(seeds, name)}
        for way, seeds in scores.items()
    }
    published = {
        f"{row.name} ({row.size.split(', ')[0]})": published_scores(row)[name]
        for row in TASKS[task].fine_tuned
    }
    return {
        "title": TITLES[task],
        "measure": measures[name],
        "ours": ours,
        "published": published,
    }


def scores_table(task: str, scores: Scores) -> str:
    """Return a row for each way, and one for each published model."""
    measures = measures_of(task)
    head = [TITLES[task], *measures.values(), "seeds", "MCC", "epoch", "minutes"]
    rows = [
        [f"`{way}`", *(with_interval(seeds, name) for name in measures), *details(task, seeds)]
        for way, seeds in scores.items()
    ]
    for row in TASKS[task].fine_tuned:
        for words, values in (("", published_scores(row)), (", on the test set", row.on_test)):
            cells = [percent(values[name]) if name in values else "-" for name in measures]
            rows += [[f"{published_name(row)}{words}", *cells, "", "", "", ""]] * bool(values)
    return markdown(head, rows)


def details(task: str, seeds: list[dict[str, Any]]) -> list[str]:
    """Return the spread over seeds, Matthews's coefficient, the epoch kept and the minutes."""
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


def emotions_table(scores: Scores, fine_tuned: Sequence[FineTuned]) -> str:
    """Return the F1 of each of Plutchik's eight emotions, ours and published."""
    rows = [[f"`{way}`", *with_mean(by_emotion(seeds))] for way, seeds in scores.items()]
    rows += [[published_name(row), *with_mean(row.scores["f1"])] for row in fine_tuned]
    return markdown(["F1", *PLUTCHIK, "mean"], rows)


def by_emotion(seeds: list[dict[str, Any]]) -> list[float]:
    """Return the F1 of each of the eight, means over seeds."""
    each = [[seed["test"]["per_class"][name]["f1"] for name in PLUTCHIK] for seed in seeds]
    return np.mean(each, axis=0).tolist()


def with_mean(values: list[float]) -> list[str]:
    """Return values and their mean in per cent."""
    return [percent(value) for value in (*values, np.mean(values))]


def measures_of(task: str) -> dict[str, str]:
    """Return what a set's table has, by name in a result, the main one first."""
    return MEASURES[TASKS[task].kind]


def published_scores(row: FineTuned) -> dict[str, float]:
    """Return the measures of a published row, by name in a result."""
    scores = dict(row.scores)
    return {"f1_plutchik": float(np.mean(scores["f1"]))} if "f1" in scores else scores


def published_name(row: FineTuned) -> str:
    """Return what a published row is called, with its source."""
    return f"{row.name}, {row.size} ({row.source})"


def mean_of(seeds: list[dict[str, Any]], name: str) -> float:
    """Return the mean of a measure over seeds."""
    return float(np.mean([seed["test"][name] for seed in seeds]))


def interval_of(seeds: list[dict[str, Any]], name: str) -> list[float]:
    """Return the means over seeds of an interval's ends."""
    return np.mean([seed["test"][f"{name}_interval"] for seed in seeds], axis=0).tolist()


def with_interval(seeds: list[dict[str, Any]], name: str) -> str:
    """Return a measure and its interval in per cent."""
    low, high = interval_of(seeds, name)
    return f"{percent(mean_of(seeds, name))} ({percent(low)} to {percent(high)})"


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


if __name__ == "__main__":
    command.run(main)
