"""Figures of one unit's report, each drawn from a part of the report's JSON."""

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..plots import STYLE

SIZE = (5.6, 3.6)  # inches: letters stay readable on a phone
TALL = (5.6, 4.6)  # with the legend below
# Of medium lightness, for light and dark backgrounds; distinct for every kind of colour vision.
BLUE, ORANGE, GREEN, PINK, GREY = "#3b82c4", "#d9822b", "#2f9e77", "#c0629c", "#8a8f98"
ORDERS = {"weight": ("largest L1 weight", BLUE), "accuracy": ("best by themselves", ORANGE)}
CURVES = {
    "all_units": ("all units", BLUE),
    "known_unit": ("the unit, known beforehand", ORANGE),
    "found_unit": ("one unit, found by these labels", GREEN),
    "tfidf": ("TF-IDF, words and pairs", PINK),
}
LEVELS = {"tfidf": ("TF-IDF", PINK), "majority": ("majority", GREY)}


@mpl.rc_context(STYLE)
def draw_ranking(ranking: dict[str, Any], unit: int) -> Figure:
    """Draw every unit by its weight and by its accuracy alone, with the studied one highlighted."""
    figure, axes = _figure("Every unit, by itself and among all")
    weights, accuracies = ranking["weight"], ranking["train_accuracy"]
    axes.scatter(weights, accuracies, s=6, color=GREY, alpha=0.6, linewidths=0)
    axes.scatter([weights[unit]], [accuracies[unit]], s=36, color=ORANGE)
    place = (weights[unit], accuracies[unit])
    axes.annotate(f"unit {unit}", place, textcoords="offset points", xytext=(6, 4))
    axes.set(xlabel="weight in the L1 regression on all units", ylabel="train accuracy alone")
    return figure


@mpl.rc_context(STYLE)
def draw_by_units(by_units: dict[str, Any], baselines: dict[str, Any]) -> Figure:
    """Draw accuracy by the number of units kept, with 95 % intervals."""
    figure, axes = _figure("How many units it takes", TALL)
    for name, (label, color) in ORDERS.items():
        rows = by_units[name]
        counts = [row["kept"] for row in rows]
        axes.plot(counts, [row["test_accuracy"] for row in rows], ".-", color=color, label=label)
        low, high = zip(*(row["test_interval"] for row in rows), strict=True)
        axes.fill_between(counts, low, high, color=color, alpha=0.15, linewidth=0)
    _levels(axes, baselines)
    shading = "shaded: 95 % interval for other test texts"
    axes.set(xscale="log", xlabel=f"units kept\n{shading}", ylabel="test accuracy")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


@mpl.rc_context(STYLE)
def draw_by_labels(
    by_labels: dict[str, Any], baselines: dict[str, Any], *, finetuned: bool
) -> Figure:
    """Draw accuracy by the number of labels: means over the draws, 95 % intervals of one draw.

    finetuned: whether the features were trained on labels; the figure then says so.
    """
    figure, axes = _figure("How many labels it takes", TALL)
    for name, (label, color) in CURVES.items():
        rows = by_labels["curves"][name]
        axes.plot(
            by_labels["counts"],
            [row["test_accuracy"] for row in rows],
            ".-",
            color=color,
            label=label,
        )
        low, high = zip(*(row["draw_interval"] for row in rows), strict=True)
        axes.fill_between(by_labels["counts"], low, high, color=color, alpha=0.15, linewidth=0)
    _levels(axes, {"majority": baselines["majority"]})
    notes = ["labelled training texts", "shaded: 95 % interval of one draw, other test texts"]
    if finetuned:
        notes.append("the features were fine-tuned on labels before, not counted here")
    axes.set(xscale="log", xlabel="\n".join(notes), ylabel="test accuracy")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _figure(title: str, size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    return figure, axes


def _levels(axes: Axes, baselines: dict[str, Any]) -> None:
    """Draw a dotted line for each baseline."""
    for name, (label, color) in LEVELS.items():
        if name in baselines:
            level = baselines[name]["test_accuracy"]
            axes.axhline(level, color=color, linestyle=":", linewidth=1.2, label=label)
