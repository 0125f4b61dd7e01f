"""The ways of fine-tuning beside each other and the published rows, from the JSON of one model.

python -m experiments.finetuning.table experiments/finetuning/results/amazon_1024
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from configs import command
from model.errors import InputError
from model.storage import read_json, write_atomically, write_json
from transfer.plots import COLORS, STYLE, save_png

from .variants import BASIC_EMOTIONS, variants_of

PUBLISHED = read_json(Path(__file__).with_name("published.json"))
WAYS = ("bag_of_words", *variants_of(1))
TASKS = {"sst": "SST, test", "semeval": "SemEval E-c, validation set"}
MEASURES = {
    "sst": {"accuracy": "accuracy", "f1_macro": "macro F1"},
    "semeval": {"f1_micro": "micro F1", "f1_macro": "macro F1", "jaccard_samples": "Jaccard"},
}
EIGHT = "F1, mean of 8 emotions"
NOTE = "Per cent, with 95 % intervals over texts; MCC: Matthews's coefficient, mean of the classes."

Scores = dict[str, dict[str, Any]]  # of each way, what its file holds


def main() -> None:
    if len(sys.argv) != 2:
        raise InputError("give the folder of one model's results")
    print(write_table(Path(sys.argv[1])))


def write_table(folder: Path) -> str:
    """Write table.md, table.json and table.png for the results that a folder holds; return it."""
    found = {task: results(folder, task) for task in TASKS}
    found = {task: scores for task, scores in found.items() if scores}
    if not found:
        raise InputError(f"{folder}: no results of {' or '.join(TASKS)}")
    parts = [part for task, scores in found.items() for part in (scores_table(task, scores), "")]
    if "semeval" in found:
        parts += [emotions_table(found["semeval"]), ""]
    text = "\n".join([*parts, NOTE, ""])
    write_atomically(folder / "table.md", lambda path: path.write_text(text, encoding="utf-8"))
    write_json(folder / "table.json", {task: numbers(scores) for task, scores in found.items()})
    save_png(draw(found), folder / "table.png")
    return text


def results(folder: Path, task: str) -> Scores:
    """Return what was measured, in the order in which the ways are explained."""
    paths = {way: folder / f"{task}_{way}.json" for way in WAYS}
    return {way: read_json(path) for way, path in paths.items() if path.is_file()}


def numbers(scores: Scores) -> dict[str, Any]:
    """Return the numbers that are written and drawn."""
    return {way: result["test"] for way, result in scores.items()}


def scores_table(task: str, scores: Scores) -> str:
    """Return a row for each way: the task's measures, the epoch kept, minutes taken."""
    eight = [EIGHT] if task == "semeval" else []
    head = [TASKS[task], *MEASURES[task].values(), *eight, "MCC", "epoch", "minutes"]
    rows = [
        [
            f"`{way}`",
            *(with_interval(result["test"], name) for name in MEASURES[task]),
            *(percent(result["test"]["f1_basic_emotions"]) for _ in eight),
            f"{result['test']['mcc']:.3f}",
            str(result.get("best_epoch", "-")),
            f"{result['seconds'] / 60:.0f}" if "seconds" in result else "-",
        ]
        for way, result in scores.items()
    ]
    return as_markdown(head, rows)


def emotions_table(scores: Scores) -> str:
    """Return the F1 of each of Plutchik's eight emotions, ours and published."""
    rows = [
        [f"`{way}`", *map(percent, by_emotion(result)), percent(np.mean(by_emotion(result)))]
        for way, result in scores.items()
    ]
    rows += [
        [f"published: {name}", *map(percent, f1), percent(np.mean(f1))]
        for name, f1 in PUBLISHED["f1"].items()
    ]
    return as_markdown(["F1", *BASIC_EMOTIONS, "mean"], rows)


def by_emotion(result: dict[str, Any]) -> list[float]:
    """Return the F1 of each of the eight."""
    return [result["test"]["per_class"][name]["f1"] for name in BASIC_EMOTIONS]


def with_interval(test: dict[str, Any], name: str) -> str:
    """Return a measure and its interval in per cent."""
    low, high = test[f"{name}_interval"]
    return f"{percent(test[name])} ({percent(low)} to {percent(high)})"


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def as_markdown(head: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table: the first column names, the rest are numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@mpl.rc_context(STYLE)
def draw(found: dict[str, Scores]) -> Figure:
    """Draw the first measure of each task, way by way; SemEval's beside the published rows."""
    figure = Figure(figsize=(4.5 * len(found), 3.2), layout="constrained")
    for axes, (task, scores) in zip(
        figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True
    ):
        draw_sst(axes, scores) if task == "sst" else draw_semeval(axes, scores)
        axes.set_title(TASKS[task])
        axes.invert_yaxis()
    return figure


def draw_sst(axes: Axes, scores: Scores) -> None:
    """Draw accuracies with their intervals."""
    for place, result in enumerate(scores.values()):
        axes.plot(result["test"]["accuracy_interval"], [place, place], color="#999999", linewidth=3)
        axes.plot(result["test"]["accuracy"], place, "o", color=COLORS["positive"])
    axes.set_yticks(range(len(scores)), list(scores))
    axes.set(xlabel="accuracy", xlim=(0.5, 1.0))


def draw_semeval(axes: Axes, scores: Scores) -> None:
    """Draw the mean F1 of eight emotions, ours and published."""
    ours = {way: np.mean(by_emotion(result)) for way, result in scores.items()}
    published = {name: np.mean(f1) for name, f1 in PUBLISHED["f1"].items()}
    axes.plot(list(ours.values()), range(len(ours)), "o", color=COLORS["positive"], label="ours")
    places = range(len(ours), len(ours) + len(published))
    axes.plot(list(published.values()), places, "D", color=COLORS["negative"], label="published")
    axes.set_yticks(range(len(ours) + len(published)), [*ours, *published])
    axes.set(xlabel=EIGHT, xlim=(0.0, 0.7))
    axes.legend()


if __name__ == "__main__":
    command.run(main)
