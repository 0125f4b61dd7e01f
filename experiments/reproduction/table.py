"""Compare the published transfer table with the results of one model.

python -m experiments.reproduction.table experiments/reproduction/results/default    # table.png
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from configs import command
from experiments.baselines import BASELINES
from experiments.intervals import (
    WORDS,
    Difference,
    Measured,
    compare,
    fold_interval,
    separate_difference,
    unpacked_answers,
    wider,
)
from experiments.models.tables import begun, characters_read, given, trainings
from experiments.published_sets import SETS, Published
from experiments.results import find_result, result_at
from experiments.tables import markdown, percent, revision
from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.errors import InputError
from transfer.plots import BLUE, GREY, ORANGE, STYLE, save_png

from .words import saved_words

HERE = Path(__file__).resolve().parent
BASELINE_MARKS = (("x", "tfidf"), ("+", "nb"), ("1", "words_and_characters"))
LABEL_WIDTH = 0.0125  # width of a label in the figure, in units of its axis
HEAD = (
    "| task | | published | ours | TF-IDF | NB-weighted | words and characters | untrained | "
    "majority | train / val / test |"
)


@dataclass(frozen=True)
class Options:
    """Compare the published transfer table with the results of one model."""

    folder: Annotated[Path, Argument(positional=True)]
    """The folder of the model's results; table.png is written there."""


def main() -> None:
    print(write_table(command.parse(Options, __doc__).folder))


def write_table(folder: Path) -> str:
    """Draw table.png for the tasks with results in a folder; return the table."""
    results = measured(folder)
    rows = rows_of(results)
    save_png(draw(rows), folder / "table.png")
    return as_markdown(rows, results)


def measured(folder: Path) -> dict[str, Any]:
    """Read the results of a model, by task."""
    found = {name: with_words(folder / f"{name}.json") for name in SETS}
    results = {name: result for name, result in found.items() if result is not None}
    if not results:
        raise InputError(f"{folder}: no results of {', '.join(SETS)}")
    return results


def with_words(path: Path) -> dict[str, Any] | None:
    """Read a model's result, if there is one; the word baselines are those of all models."""
    alone = result_at(path)
    if alone is None:
        return None
    result = {name: value for name, value in alone.items() if name not in BASELINES}
    words = saved_words(path.parent.parent, path.stem)
    if words is None or words["examples"] != result["examples"]:
        return result
    of_words = {name: words[name] for name in BASELINES if name in words}
    return {**result, **of_words, "words_origin": words["origin"]}


def shown(model: str) -> str:
    """Return the table of a model for README.md."""
    results = measured(HERE / "results" / model)
    return as_markdown(rows_of(results), results)


def differences(*models: str) -> str:
    """Return how far models are ahead of the baselines on sets of classes, in points."""
    rows = []
    for model in models:
        for task, result in classes_of(model).items():
            for row in ("all_units", "one_unit"):
                cells = [ahead(result, row, name) if name in result else "-" for name in BASELINES]
                rows.append([f"{title(task)}, {row.replace('_', ' ')}", f"`{model}`", *cells])
    heads = [f"minus {baseline.title}" for baseline in BASELINES.values()]
    return f"{markdown(['set', 'model', *heads], rows)}\n\n{DIFFERENCE_NOTES}"


def classes_of(model: str) -> dict[str, Any]:
    """Return the results of a model on the sets of classes, with its answers where it has them."""
    results = {}
    for task, result in measured(HERE / "results" / model).items():
        if SETS[task].kind == "classes":
            again = find_result("reproduction", f"{model}_answers/{task}") or {}
            kept = {row: again.get(row, result[row]) for row in ("all_units", "one_unit")}
            results[task] = {**result, **kept}
    return results


def ahead(result: dict[str, Any], row: str, baseline: str) -> str:
    """Return the word, and an accuracy less a baseline's with its 95 % interval."""
    apart = lead(result[row], result[baseline], result["tested"])
    unpaired = " \\*" * ("right" not in result[row])
    return f"{apart.word} {percent(apart.value, apart.interval)}{unpaired}"


def lead(ours: dict[str, Any], other: dict[str, Any], tested: int) -> Difference:
    """Return how far an accuracy is ahead of another one: of pairs if answers are kept.

    Over folds, the fit may differ from fold to fold: the wider interval counts, as in `number`.
    """
    if "right" in ours:
        parts = (Measured(unpacked_answers(part["right"], tested)) for part in (ours, other))
        apart = compare(*parts)
    else:
        sides = ((cell["value"], cell["interval"]) for cell in (number(ours), number(other)))
        gap = separate_difference(*sides)
        apart = Difference(gap["difference"], tuple(gap["difference_interval"]))
    return wider(apart, ours["by_fold"], other["by_fold"])


def against_words(model: str) -> dict[str, list[str]]:
    """Return the sets on which all units are ahead of, level with or behind the best baseline."""
    found: dict[str, list[str]] = {word: [] for word in WORDS}
    for task, result in classes_of(model).items():
        strongest = max(
            (result[name] for name in BASELINES if name in result),
            key=lambda row: number(row)["value"],
        )
        word = lead(result["all_units"], strongest, result["tested"]).word
        found[word].append(SETS[task].title)
    return found


def rows_of(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each task and measure: published values, ours and the baselines."""
    rows = []
    for task, result in results.items():
        entry = SETS[task]
        for row in entry.rows:
            # Untrained models were measured with all units only.
            names = (*BASELINES, *(["untrained"] * (row.of != "one_unit")), entry.baseline)
            others = {n: number(result[n], row.measure) for n in names if n in result}
            rows.append({
                "entry": entry,
                "row": row,
                "published": [value for value in entry.published if value.row == row.name],
                "ours": number(result[row.of], row.measure),
                **others,
                "examples": result["examples"],
            })  # fmt: skip
    return rows


def title(task: str) -> str:
    """Return the name of a set in the table."""
    return ", ".join(filter(None, (SETS[task].title, SETS[task].note)))


def number(result: dict[str, Any], measure: str = "accuracy") -> dict[str, Any]:
    """Return a value of a task's result and its 95 % interval, which folds may widen."""
    if measure in result:
        return {key: result[measure][key] for key in ("value", "interval")}
    interval = fold_interval(result.get("by_fold", ()), result["test_interval"])
    return {"value": result["test_accuracy"], "interval": interval}


def as_markdown(rows: list[dict[str, Any]], results: dict[str, Any]) -> str:
    """Return a description of the model, the table, and the commands that measured it."""
    lines = [*models(results), "", HEAD, "|---|---|---|---|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(cells_of(row))} |" for row in rows]
    origins = {title(task): result["origin"] for task, result in results.items()}
    origins |= {
        f"word baselines on {title(task)}": result["words_origin"]
        for task, result in results.items()
        if "words_origin" in result
    }
    commands = [
        f"- {title}: `python {origin['command']}`, revision {revision(origin)}"
        for title, origin in origins.items()
    ]
    return "\n".join([*lines, "", *commands, "", NOTES])


def cells_of(row: dict[str, Any]) -> list[str]:
    """Return a row of the table, with `-` for values that were not measured."""
    entry, named = row["entry"], row["row"]
    values = ", ".join(map(quoted, row["published"]))
    ours = [
        in_words(row[name]) if name in row else "-"
        for name in ("ours", *BASELINES, "untrained", entry.baseline)
    ]
    sizes = " / ".join(f"{count:,}" for count in row["examples"].values())
    return [title(entry.name), named.title, values or "-", *ours, sizes]


def quoted(published: Published) -> str:
    """Return a published value with its units and source."""
    about = filter(None, (f"{published.units:,}", published.source, published.standing))
    return f"{100 * published.value:.1f} ({', '.join(about)})"


def in_words(cell: dict[str, Any]) -> str:
    """Return a value and its interval, in per cent."""
    value, low, high = (100 * number for number in (cell["value"], *cell["interval"]))
    return f"{value:.1f} ({low:.1f} to {high:.1f})"


DIFFERENCE_NOTES = """\
Points, with 95 % paired intervals: both classified the same texts. \\*: the answers to single texts
were not kept, so the interval is unpaired and wider than necessary. Ahead, level and behind follow
[the rule](../board/README.md#the-rule), but each method is fitted once: other training texts would
move the difference, too, which no interval here covers. Over ten folds the interval is the wider
one of two: of pairs, and of the folds' differences (t), which differ where folds choose different
units, or fit them differently. The latter is a little too narrow, since folds share training texts.
"""


NOTES = """\
Per cent, with 95 % intervals. They cover the choice of the test texts alone: another
training would give other numbers. Published: (units, source). The published models
were trained on 38 GB (radford, gray, rerun) or 40 GB (puri, kant, nvidia; an epoch is 38.3 G
characters) of Amazon reviews. Secondary source: we had no copy of
the paper, and the value stands in a later listing.
Accuracies: Wilson's interval, or over ten folds the t interval of their mean where that is wider.
SemEval: F1 over Plutchik's eight emotions on the validation set, with intervals from resampled
tweets; "majority" always answers every emotion. The published value is from a language model
fine-tuned on the task, ours from frozen features. The word baselines are fitted on the same split,
with C chosen on val: TF-IDF of words and word pairs; runs of 1 to 3 words weighted by naive Bayes
(Wang and Manning 2012); TF-IDF of words, word pairs and runs of 2 to 5 characters. Untrained: mean
over seeds, all units.
"""


def models(results: dict[str, Any]) -> list[str]:
    """Describe the model; where sets were measured with different weights, each with its sets."""
    tasks: dict[str, list[str]] = {}
    for task, result in results.items():
        tasks.setdefault(about(result["model"]), []).append(title(task))
    if len(tasks) == 1:
        return list(tasks)
    return [f"- {', '.join(titles)}: {line}" for line, titles in tasks.items()]


def about(model: dict[str, Any]) -> str:
    """Describe the model's size and training in one line."""
    stages = list(trainings(model["provenance"]))
    first, tuned = stages[0], [stage for stage in stages if "finetuned_from" in stage]
    training = "the last training without labels" if tuned else "training"
    read = characters_read(first) if "characters" in first else None
    bits = first.get("best_valid_bits_per_character")
    corpus = given(first, "--data.corpus") or "its corpus"
    parts = [
        f"Ours: {model['architecture']['hidden_size']:,} units, {model['parameters']:,} parameters",
        *([f"{read:,} characters in {training}{begun(first)}"] if read else []),
        *([f"{bits:.3f} bits per character at best, on valid of {corpus}"] if bits else []),
        *([f"then fine-tuned on labels, {len(tuned)} times"] if tuned else []),
    ]
    return f"{', '.join(parts)}."


@mpl.rc_context(STYLE)
def draw(rows: list[dict[str, Any]]) -> Figure:
    """Draw a line for each row: our value with its interval, the published ones, the baselines."""
    figure = Figure(figsize=(7.0, 0.5 * len(rows) + 1.3), layout="constrained")
    axes = figure.subplots()
    named: set[str] = set()
    for place, row in enumerate(rows):
        ours = row["ours"]
        axes.axhline(place, color=GREY, linewidth=0.4, zorder=0)
        axes.plot(ours["interval"], [place, place], color=BLUE, linewidth=3)
        marks = [
            ("o", BLUE, "ours, 95 % interval", [ours["value"]]),
            (
                "|",
                ORANGE,
                "published, with the number of units",
                [p.value for p in row["published"]],
            ),
        ]
        others = [(mark, name, BASELINES[name].title) for mark, name in BASELINE_MARKS]
        for mark, name, label in (*others, (".", "untrained", "untrained")):
            if name in row:
                marks.append((mark, GREY, label, [row[name]["value"]]))
        for marker, color, label, values in marks:
            shown = None if label in named else label
            named.add(label)
            axes.plot(values, [place] * len(values), marker, color=color, markersize=8, label=shown)
        name_sizes(axes, row["published"], place)
    names = [", ".join(cells_of(row)[:2]) for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=None))
    axes.set(xlabel="per cent (accuracy; SemEval: F1)")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def name_sizes(axes: Axes, published: list[Published], place: int) -> None:
    """Write the number of units of a published model above its mark, rotated by 90 degrees.

    Each size is written once, at the value that is listed last, and only where there is room.
    """
    named: dict[int, float] = {}
    for row in reversed(published):
        apart = min((abs(row.value - value) for value in named.values()), default=1.0)
        if row.units not in named and apart > LABEL_WIDTH:
            named[row.units] = row.value
    for units, value in named.items():
        axes.annotate(
            f"{units:,}",
            (value, place),
            xytext=(0, 7),
            textcoords="offset points",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=6,
            color=ORANGE,
        )


if __name__ == "__main__":
    command.run(main)
