"""The published table beside ours, from the JSON of one model: table.md, table.json, table.png.

python -m experiments.reproduction.table experiments/reproduction/results/default
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from configs import command
from data_utils.published_sets.registry import SETS
from experiments.tables import revision
from model.errors import InputError
from model.files.storage import read_json, write_atomically, write_json
from transfer.plots import COLORS, STYLE, save_png

HERE = Path(__file__).resolve().parent
ROWS = {"all_units": "all units", "one_unit": "one unit"}
MEASURES = {"accuracy": "accuracy", "plutchik_f1": "F1 over Plutchik's eight"}
HEAD = "| task | | published | ours | TF-IDF | untrained | majority | train / val / test |"


def main() -> None:
    if len(sys.argv) != 2:
        raise InputError("give the folder of one model's results")
    print(write_table(Path(sys.argv[1])))


def write_table(folder: Path) -> str:
    """Write the table of all tasks that were measured, with its numbers and its figure."""
    results = measured(folder)
    rows = rows_of(results)
    table = as_markdown(rows, results)
    write_json(folder / "table.json", {"rows": rows})
    write_atomically(folder / "table.md", lambda path: path.write_text(table, encoding="utf-8"))
    save_png(draw(rows), folder / "table.png")
    return table


def measured(folder: Path) -> dict[str, Any]:
    """Return what was measured with a model, by task."""
    results = {
        name: read_json(folder / f"{name}.json")
        for name in SETS
        if (folder / f"{name}.json").is_file()
    }
    if not results:
        raise InputError(f"{folder}: no results of {', '.join(SETS)}")
    return results


def shown(model: str) -> str:
    """Return the table of a model's results, for README.md."""
    results = measured(HERE / "results" / model)
    return as_markdown(rows_of(results), results)


def rows_of(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each task and measure: published values, ours, baselines."""
    rows = []
    for task, result in results.items():
        entry = SETS[task]
        for row in entry.rows:
            # Of untrained models only the regression on all units is measured.
            names = ("tfidf", *(["untrained"] * (row != "one_unit")), entry.floor)
            others = {name: number(result[name]) for name in names if name in result}
            rows.append({
                "task": task,
                "row": row,
                "measure": MEASURES[entry.measure],
                "published": [asdict(p) for p in entry.published if p.row == row],
                "ours": number(result[row]),
                **others,
                "examples": result["examples"],
            })  # fmt: skip
    return rows


def title(task: str) -> str:
    """Return what a set is called in the table."""
    return ", ".join(filter(None, (SETS[task].title, SETS[task].note)))


def number(result: dict[str, Any]) -> dict[str, Any]:
    """Return a value and its 95 % interval, of an accuracy or of F1."""
    if "plutchik_f1" in result:
        return {key: result["plutchik_f1"][key] for key in ("value", "interval")}
    return {"value": result["test_accuracy"], "interval": result["test_interval"]}


def as_markdown(rows: list[dict[str, Any]], results: dict[str, Any]) -> str:
    """Return the table, below what the model is and the command."""
    any_result = next(iter(results.values()))
    lines = [about(any_result["model"]), "", HEAD, "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        floor = row[SETS[row["task"]].floor]
        values = ", ".join(map(quoted, row["published"]))
        sizes = " / ".join(f"{count:,}" for count in row["examples"].values())
        cells = [title(row["task"]), ROWS[row["row"]], values or "-", percent(row["ours"])]
        untrained = percent(row["untrained"]) if "untrained" in row else "-"
        cells += [percent(row["tfidf"]), untrained, percent(floor), sizes]
        lines.append(f"| {' | '.join(cells)} |")
    origins = {title(task): result["origin"] for task, result in results.items()}
    made = [
        f"- {title}: `python {origin['command']}`, revision {revision(origin)}"
        for title, origin in origins.items()
    ]
    return "\n".join([*lines, "", *made, "", NOTES])


def quoted(published: dict[str, Any]) -> str:
    """Return a published value with its units and source."""
    return f"{100 * published['value']:.1f} ({published['units']:,}, {published['source']})"


NOTES = """\
Per cent, with 95 % intervals. Published: (units, source); those models read 38 GB (radford) or 40
GB (puri, kant) of Amazon reviews. Accuracies: Wilson. SemEval: F1 over Plutchik's eight emotions on
the validation set, intervals by resampling tweets, "majority" is every emotion always; the
published one is of a language model fine-tuned on the task, ours of frozen features. Untrained:
mean over seeds, all units.
"""


def about(model: dict[str, Any]) -> str:
    """Return one line on the model's size and its training data."""
    provenance, tuned = model["provenance"], 0
    while "finetuned_from" in provenance:
        provenance, tuned = provenance["finetuned_from"], tuned + 1
    without_labels = ", the last without labels" if tuned else ""
    read = provenance.get("characters")
    bits = provenance.get("best_valid_bits_per_character")
    parts = [
        f"Ours: {model['architecture']['hidden_size']:,} units, {model['parameters']:,} parameters",
        *([f"{read:,} characters read in training{without_labels}"] if read else []),
        *([f"{bits:.3f} bits per character"] if bits else []),
        *([f"then fine-tuned on labels, {tuned} times"] if tuned else []),
    ]
    return f"{', '.join(parts)}."


def percent(cell: dict[str, Any]) -> str:
    """Return a value and its interval in per cent."""
    low, high = cell["interval"]
    return f"{100 * cell['value']:.1f} ({100 * low:.1f} to {100 * high:.1f})"


@mpl.rc_context(STYLE)
def draw(rows: list[dict[str, Any]]) -> Figure:
    """Draw ours with its interval, what was published, and the baselines, a line for each row."""
    figure = Figure(figsize=(7.0, 0.6 * len(rows) + 1.4), layout="constrained")
    axes = figure.subplots()
    named: set[str] = set()
    for place, row in enumerate(rows):
        ours = row["ours"]
        axes.plot(ours["interval"], [place, place], color=COLORS["positive"], linewidth=3)
        marks = [
            ("o", COLORS["positive"], "ours, 95 % interval", [ours["value"]]),
            ("|", COLORS["negative"], "published (units)", [p["value"] for p in row["published"]]),
            ("x", "#777777", "TF-IDF", [row["tfidf"]["value"]]),
        ]
        if "untrained" in row:
            marks.append((".", "#777777", "untrained", [row["untrained"]["value"]]))
        for marker, color, label, values in marks:
            name = None if label in named else label
            named.add(label)
            axes.plot(values, [place] * len(values), marker, color=color, markersize=9, label=name)
        name_sizes(axes, row["published"], place)
    names = [f"{title(row['task'])}, {ROWS[row['row']]}" for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.set(xlabel="accuracy; SemEval: F1", xlim=(0, 1))
    axes.legend(loc="lower left")
    return figure


def name_sizes(axes: Axes, published: list[dict[str, Any]], place: int) -> None:
    """Write how many units a published value's model has, upright above its mark."""
    for value, units in {row["value"]: row["units"] for row in published}.items():
        axes.annotate(
            f"{units:,}",
            (value, place),
            xytext=(0, 7),
            textcoords="offset points",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=6,
            color=COLORS["negative"],
        )


if __name__ == "__main__":
    command.run(main)
