"""Make the tables of README.md."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.models.tables import named
from experiments.neuron.run import best_units
from experiments.results import names, read_result
from experiments.tables import accuracy, markdown, origins, percent

LABELS = (10, 100, 1000, 6920)
CURVES = {
    "all_units": "all units",
    "known_unit": "the unit, known beforehand",
    "found_unit": "one unit, found by these labels",
    "tfidf": "TF-IDF",
}
BASELINES = {
    "majority": "majority class",
    "tfidf": "TF-IDF",
    "untrained": "untrained, mean of seeds",
}
CLEAR = 0.9  # AUC from which a unit separates sentiment clearly
WORDS = 8  # words that the table names in each direction


def accuracies(model: str) -> str:
    """Return accuracies on SST's test set: the unit alone, and all units with and without it."""
    result = read_result("neuron", f"{model}/neuron")
    neuron, alone, without = result["neuron"], result["alone"], result["without"]
    ranking = result["ranking"]
    best = max(ranking["units"], key=lambda unit: unit["train_accuracy"])
    first, second, third = best_units(ranking)
    ahead_of_second, ahead_of_third = map(difference_of, result["areas"]["apart"])
    on_train = np.array(ranking["train_area"])
    clear = np.count_nonzero(np.abs(on_train - 0.5) >= CLEAR - 0.5)
    rows = [
        ["all units", accuracy(result["all_units"])],
        [f"unit {neuron['unit']} alone{of_largest_weight(neuron)}", accuracy(alone)],
        ["its AUC", area_of(neuron)],
        [f"unit {best['unit']} alone, the best on train", accuracy(best)],
        [
            f"AUC of the two best units on train, {first['unit']}, {second['unit']}",
            f"{area_of(first)}, {area_of(second)}",
        ],
        ["difference of these two, on the same texts", ahead_of_second],
        [f"AUC of the third best unit on train, {third['unit']}", area_of(third)],
        ["second minus third, on the same texts", ahead_of_third],
        [f"units with an AUC of at least {CLEAR} on train", f"{clear} of {len(on_train):,}"],
        [f"all units without {neuron['unit']}, regression not refitted", lost(without["held"])],
        [f"all units without {neuron['unit']}, regression refitted", lost(without["refitted"])],
    ]
    rows += [
        [f"{row['kept']} units of largest weight{used(row)}", accuracy(row)]
        for row in result["by_units"]["weight"]
        if row["kept"] in (2, 5, 10, 20)
    ]
    rows += [[BASELINES[name], accuracy(row)] for name, row in result["baselines"].items()]
    head = ["SST, test, per cent", named(result, model)]
    files = {"neuron.json": result, "areas": result["areas"]}
    return f"{markdown(head, rows)}\n\n{origins(files)}"


def of_largest_weight(unit: dict[str, Any]) -> str:
    """Return a remark for the unit with the largest weight; any other unit was chosen by name."""
    return ", the one of largest weight" if unit["rank"]["weight"] == 1 else ""


def area_of(unit: dict[str, Any]) -> str:
    """Return a unit's AUC on test with its interval; 1 - AUC if its polarity is negative."""
    areas = [unit["test_area"], *unit["test_area_interval"]]
    low, area, high = sorted(areas if unit["polarity"] > 0 else [1 - area for area in areas])
    return f"{area:.3f} ({low:.3f} to {high:.3f})"


def difference_of(apart: dict[str, Any]) -> str:
    """Return how much larger the first unit's AUC is, with its interval."""
    low, high = apart["difference_interval"]
    return f"{apart['difference']:.3f} ({low:.3f} to {high:.3f})"


def used(row: dict[str, Any]) -> str:
    """Say how many of the kept units the regression uses, if not all."""
    return f", {row['nonzero']} of them used" if row["nonzero"] < row["kept"] else ""


def lost(row: dict[str, Any]) -> str:
    """Return an accuracy, and how far it is below that of all units."""
    return f"{percent(row['test_accuracy'])}; lost: {percent(row['lost'], row['lost_interval'])}"


def by_labels(model: str) -> str:
    """Return accuracies with few labels: means over draws, and the interval of a single draw."""
    result = read_result("neuron", f"{model}/neuron")["by_labels"]
    places = [result["counts"].index(count) for count in LABELS]
    rows = []
    for curve, words in CURVES.items():
        points = [result["curves"][curve][place] for place in places]
        rows.append([words, *(with_draws(point) for point in points)])
    return markdown([f"labels, {result['draws']} draws", *(f"{n:,}" for n in LABELS)], rows)


def with_draws(point: dict[str, Any]) -> str:
    """Return a mean over draws with the interval of a single draw; all labels are one draw."""
    return percent(point["test_accuracy"], point.get("draw_interval") or point["test_interval"])


def words(model: str) -> str:
    """Return the words that change the unit most on average, and its largest single changes."""
    extremes = read_result("neuron", f"{model}/neuron")["extremes"]
    rows = [
        [f"words that {way} it", ", ".join(map(changed, beyond_chance(extremes["words"][way])))]
        for way in ("raise", "lower")
    ]
    rows += [
        [f"largest single {way}", ", ".join(map(moment, extremes["moments"][way]))]
        for way in ("rises", "falls")
    ]
    of_moments = "for single rises and falls: the change (label of the text)"
    return markdown(["", f"mean change +- standard error; {of_moments}"], rows)


def beyond_chance(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first words whose change exceeds two standard errors."""
    return [w for w in rows if abs(w["mean_change"]) > 2 * w["standard_error"]][:WORDS]


def changed(word: dict[str, Any]) -> str:
    """Return a word with its mean change and the standard error."""
    return f"*{word['word']}* {word['mean_change']:+.2f} +- {word['standard_error']:.2f}"


def moment(row: dict[str, Any]) -> str:
    """Return a word, the change at it and the label of its text."""
    return f"`{row['word']}` {row['change']:+.1f} ({row['label']})"


def clamped(*models: str) -> str:
    """Return what the other units know without one: left out of a regression, and held still."""
    head = [
        *("SST's test, per cent", "left out", "held", "CR, AUC: left out", "held"),
        *("best of the others on SST, AUC: left out", "held"),
    ]
    files = {model: read_result("neuron", f"clamped_{model}") for model in models}
    rows = [
        [f"`{model}`, without {row['unit']}"]
        + [lost(row[way]["sets"][0]) for way in ("left_out", "held")]
        + [f"{row[way]['sets'][1]['area']:.3f}" for way in ("left_out", "held")]
        + [next_best(row[way]["next"]) for way in ("left_out", "held")]
        for model, result in files.items()
        for row in result["units"]
    ]
    return f"{markdown(head, rows)}\n\n{origins(files)}"


def next_best(unit: dict[str, Any]) -> str:
    """Return the AUC on test of the unit that is the best on train."""
    return f"{unit['areas'][1]:.3f} ({unit['unit']})"


def axes(*models: str) -> str:
    """Return AUCs of units and of rotated axes, and what pruning and clamping cost."""
    head = [
        "SST val",
        "best unit: AUC",
        "next unit",
        "best axis after a rotation, of 20",
        "all units: AUC, accuracy",
        "without the 1, 10, 100, 300 best units",
        "AUC",
        "bits a token that clamping the unit costs; others",
    ]
    rows = [axes_row(model) for model in models]
    files = {model: read_result("neuron", f"axes_{model}") for model in models}
    return f"{markdown(head, rows)}\n\n{origins(files)}"


def retraining(*conditions: str) -> str:
    """Return what the best unit of small networks has over rotated axes; means of the seeds."""
    head = [
        "network",
        "seeds",
        "bits per character",
        "best unit: AUC on train, val",
        "best axis after a rotation, of 20",
        "units ahead of all rotations on train",
        "all units: AUC on val",
    ]
    rows, files = [], {}
    for condition in conditions:
        own = [
            read_result("neuron", name)
            for name in names("neuron")
            if name.startswith(f"retraining/{condition}_seed")
        ]
        files[condition] = own[0]
        turned = {
            part: [[axis[part] for axis in row["rotated"]] for row in own]
            for part in ("train", "val")
        }
        rows.append(
            [
                f"`{condition}`",
                str(len(own)),
                spread_of([row["bits"] for row in own]),
                ", ".join(
                    spread_of([row["units"][0][part] for row in own]) for part in ("train", "val")
                ),
                ", ".join(
                    spread_of([np.median(axes) for axes in turned[part]])
                    for part in ("train", "val")
                ),
                str(
                    sum(
                        row["units"][0]["train"] > max(axes)
                        for row, axes in zip(own, turned["train"], strict=True)
                    )
                ),
                spread_of([row["all"]["area"] for row in own]),
            ]
        )
    return f"{markdown(head, rows)}\n\n{origins(files)}"


def spread_of(values: Sequence[float]) -> str:
    """Return the mean of several values, and the lowest and the highest."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def axes_row(model: str) -> list[str]:
    result = read_result("neuron", f"axes_{model}")
    best, second = result["units"][:2]
    rotated = sorted(axis["val"] for axis in result["rotated"])
    clamp = result["clamp"]
    others = sorted(abs(cost) for cost in clamp["others"].values())
    return [
        f"`{model}`",
        f"{best['val']:.3f} (unit {best['axis']})",
        f"{second['val']:.3f}",
        f"{np.median(rotated):.3f} ({rotated[0]:.3f} to {rotated[-1]:.3f})",
        f"{result['all']['area']:.3f}, {percent(result['all']['accuracy'])}",
        ", ".join(percent(row["accuracy"]) for row in result["pruned"].values()),
        ", ".join(f"{row['area']:.3f}" for row in result["pruned"].values()),
        f"{clamp['unit']:.4f}; {np.median(others):.4f}, at most {others[-1]:.4f}",
    ]
