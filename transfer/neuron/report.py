"""What a study of one unit found: its verdict, its table, its figures, all from neuron.json."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from mlstm_sentiment.files.writer import check_folder, check_output, make_folder
from model.layers.language_model import layer_of

from ..plots import (
    SMALL,
    draw_by_labels,
    draw_by_units,
    draw_histogram,
    draw_ranking,
    write_pictures,
)
from ..summary import is_above, not_beaten, percent

Results = dict[str, Any]


def write_figures(results: Results, folder: Path) -> None:
    """Draw the figures of neuron.json into `folder`, as PNG.

    A figure that cannot be drawn is logged and left out: the study is in neuron.json.
    """
    make_folder(folder)
    drawn = {f"{name}.png": partial(draw, results) for name, draw in FIGURES.items()}
    write_pictures(folder, drawn)


def check_figures(folder: Path) -> None:
    """Raise InputError before long work if the figures would replace what this did not write."""
    check_folder(folder)
    for name in FIGURES:
        check_output(folder / f"{name}.png", "a picture")


FIGURES: dict[str, Callable[[Results], Figure]] = {
    "histogram": lambda results: draw_histogram(
        results["histogram"],
        results["neuron"]["index"],
        SMALL,
        state=_layer(results).feature,
        polarity=results["neuron"]["polarity"],
        cut=results["neuron"]["cut"],
    ),
    "ranking": draw_ranking,
    "by_units": draw_by_units,
    "by_labels": draw_by_labels,
}


def accuracies_of(results: Results) -> list[tuple[str, dict[str, Any]]]:
    """Return the accuracies of a study: rows of a name and a test accuracy with its interval."""
    unit, baselines = results["neuron"]["index"], results["baselines"]
    draws = len(baselines["untrained"]["accuracies"])
    return [
        (f"all {results['all_units']['units']:,} units", results["all_units"]),
        (f"unit {unit} alone, one threshold", results["neuron"]),
        (f"unit {unit} alone, regression", results["alone"]),
        (f"all units but {unit}", results["without"]["refitted"]),
        ("TF-IDF, words and pairs", baselines["tfidf"]),
        (f"untrained {_layer(results).title}, mean of {draws}", baselines["untrained"]),
        ("majority class", baselines["majority"]),
    ]


def verdict(results: Results) -> str:
    """Return what the study found, in one sentence.

    The model knows the label if its interval is above an untrained model and the majority class;
    the unit, if its interval is above the majority class. `_stands_out` decides whether such a unit
    is a sentiment neuron.
    """
    neuron, whole, baselines = results["neuron"], results["all_units"], results["baselines"]
    unit, total = f"unit {neuron['index']} alone", f"all {whole['units']:,} units"
    untrained, majority = baselines["untrained"], baselines["majority"]
    if rival := not_beaten(whole, baselines):
        return (
            f"No better than {rival}: {total} predict {percent(whole)} of the test labels, an "
            f"untrained model {percent(untrained)}, the majority class {percent(majority)}."
        )
    if not is_above(neuron, majority):
        return (
            f"The model knows the label, but not in this unit: {total} predict "
            f"{percent(whole)} of the test labels, {unit} {percent(neuron)}."
        )
    sentence = (
        f"{unit.capitalize()} predicts {percent(neuron)} of the test labels, {total} "
        f"{percent(whole)}"
    )
    if _stands_out(results):
        negative, positive = results["classes"]
        of_others = negative == f"not {positive}"
        return f"{sentence}: a {f'neuron for {positive}' if of_others else 'sentiment neuron'}."
    best = best_units(results)[0]["unit"]
    if best == neuron["index"]:
        return f"{sentence}: other units know the label nearly as well, so no sentiment neuron."
    return f"{sentence}: unit {best} separates the classes better, so no sentiment neuron."


def _stands_out(results: Results) -> bool:
    """Return whether the unit is the sentiment neuron of docs/glossary.md.

    Of all units it separates the classes best on train (largest area under the ROC curve), and its
    interval on test does not overlap with that of the next best unit.
    """
    first, second = best_units(results)
    lowest, _ = _above_half(first)
    _, highest = _above_half(second)
    return bool(first["unit"] == results["neuron"]["index"] and lowest > highest)


def best_units(results: Results) -> list[dict[str, Any]]:
    """Return the two units that separate the classes best on train, the best first."""
    return sorted(results["ranking"]["units"], key=lambda row: row["rank"]["area"])[:2]


def _above_half(row: dict[str, Any]) -> tuple[float, float]:
    """Return the interval of a unit's AUC, mirrored if low values are the positive ones."""
    low, high = row["test_area_interval"]
    return (low, high) if row["train_area"] >= 0.5 else (1 - high, 1 - low)


def _layer(results: Results) -> Any:
    return layer_of(results["model"]["architecture"].get("cell", "mlstm"))
