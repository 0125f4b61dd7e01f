"""Figures of a transfer and of a unit's study, each drawn from a part of their JSON."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure  # without pyplot: needs no display, nothing to close

from mlstm_sentiment.files.writer import Kind, write_atomically, write_json
from mlstm_sentiment.head.head import Head

from .regression import Examples, Regression, Transfer

FIGURES, PICTURES = "figures.json", ("weights.png", "neuron.png")
BINS = 25
_WIDE = (7.0, 3.6)  # inches
SMALL = (5.6, 3.6)  # letters stay readable on a phone
_TALL = (5.6, 4.6)  # with the legend below
# Of medium lightness, for light and dark backgrounds; distinct for every kind of colour vision.
BLUE, ORANGE, GREEN, PINK, GREY = "#3b82c4", "#d9822b", "#2f9e77", "#c0629c", "#8a8f98"
_COLORS = {"negative": ORANGE, "positive": BLUE}
ORDERS = {"weight": ("largest L1 weight", BLUE), "accuracy": ("best by themselves", ORANGE)}
CURVES = {
    "all_units": ("all units", BLUE),
    "known_unit": ("the unit, known beforehand", ORANGE),
    "found_unit": ("one unit, found by these labels", GREEN),
    "tfidf": ("TF-IDF, words and pairs", PINK),
}
_LEVELS = {"tfidf": ("TF-IDF", PINK), "majority": ("majority", GREY)}
INK = "#16181b"  # axes and letters: matplotlib's black is only for the data
STYLE: Any = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.fonttype": "none",  # letters stay letters
    "svg.hashsalt": "figure",  # the same file every time
}


log = logging.getLogger(__name__)


def _weight_contributions(regression: Regression) -> np.ndarray:
    """Return the weights [F], scaled to an L2 norm of 1.

    With more than two classes they have no sign: each is the L2 norm of a unit's weights.
    """
    weights = regression.coefficients
    norm = float(np.linalg.norm(weights)) or 1.0
    return (weights if weights.ndim == 1 else np.linalg.norm(weights, axis=0)) / norm


def legend(classes: Sequence[str]) -> list[str]:
    """Return the classes' names in a figure; two classes are named by their meaning."""
    return list(_COLORS) if len(classes) == 2 else [f"label {name}" for name in classes]


def _literal(text: str) -> str:
    """Return a label that matplotlib shows literally, not as a formula, and does not hide."""
    escaped = text.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def unit_histogram(
    unit: int, examples: Examples, names: Sequence[str] = tuple(_COLORS)
) -> dict[str, Any]:
    """Count a unit's values by label, in bins that all labels share; names: one per label."""
    # fp32 cannot fit 25 bins between values that are nearly equal.
    values = examples.features[:, unit].astype(np.float64)
    edges = np.histogram_bin_edges(values, BINS)
    counts = {
        name: np.histogram(values[examples.labels == label], edges)[0].tolist()
        for label, name in enumerate(names)
    }
    return {"edges": edges.tolist(), **counts}


def _axes(title: str, size: tuple[float, float]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    return figure, axes


@mpl.rc_context(STYLE)
def _draw_weights(
    contributions: np.ndarray, neuron: int, poolings: Sequence[str] = ("last",)
) -> Figure:
    """Draw every unit's contribution, [P * H]; `neuron`, a place among them, is highlighted."""
    figure, axes = _axes("Weight by unit", _WIDE)
    axes.vlines(np.arange(len(contributions)), 0, contributions, linewidth=0.8, color="#444444")
    which, unit = divmod(neuron, len(contributions) // len(poolings))
    name, xlabel = f"unit {unit}", "unit"
    if len(poolings) > 1:
        name, xlabel = f"{name}, {poolings[which]}", f"units: {', '.join(poolings)}, side by side"
    axes.annotate(name, (neuron, contributions[neuron]), fontsize=9, color=_COLORS["negative"])
    axes.axhline(0, linewidth=0.5, color="black")
    axes.set(xlabel=xlabel, ylabel="fraction of the weights (L2)")
    return figure


@mpl.rc_context(STYLE)
def draw_histogram(
    histogram: dict[str, Any],
    unit: int,
    size: tuple[float, float] = _WIDE,
    *,
    pooling: str = "last",
    state: str = "cell state",
    polarity: int = 1,
    cut: float | None = None,
) -> Figure:
    """Draw the spread of a unit's value for every label, the positive one to the right.

    histogram: from `unit_histogram`; pooling: of the states; state: their name; polarity: -1 if low
    values are positive, which flips the sign; cut: the value above which a text is positive, or
    below with polarity -1; None: not drawn.
    """
    figure, axes = _axes("The unit by label", size)
    edges = polarity * np.array(histogram["edges"])[::polarity]
    for name in (name for name in histogram if name != "edges"):
        color = _COLORS.get(name)  # if absent, the next one of matplotlib's cycle
        counts = histogram[name][::polarity]
        axes.stairs(counts, edges, fill=True, alpha=0.5, color=color, label=_literal(name))
    if cut is not None:
        axes.axvline(polarity * cut, color=INK, linewidth=1, linestyle="--")
        axes.annotate(
            "threshold",
            (polarity * cut, 1),
            xytext=(4, -8),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            fontsize=8,
        )
    value, when = (state, "after") if pooling == "last" else (f"{pooling} {state}", "over")
    sign = ", sign turned" if polarity < 0 else ""
    xlabel = f"{value} of unit {unit} {when} the text{sign}"
    axes.set(xlabel=xlabel, ylabel="texts of the test set")
    axes.legend()
    return figure


@mpl.rc_context(STYLE)
def draw_ranking(study: dict[str, Any]) -> Figure:
    """Draw every unit by its weight and by its accuracy alone, with the studied one highlighted."""
    figure, axes = _axes("Every unit, by itself and among all", SMALL)
    unit, ranking = study["neuron"]["index"], study["ranking"]
    weights, accuracies = ranking["weight"], ranking["train_accuracy"]
    place = weights[unit], accuracies[unit]
    axes.scatter(weights, accuracies, s=6, color=GREY, alpha=0.6, linewidths=0)
    axes.scatter(*place, s=36, color=ORANGE)
    axes.annotate(f"unit {unit}", place, textcoords="offset points", xytext=(6, 4))
    axes.set(xlabel="weight in the L1 regression on all units", ylabel="train accuracy alone")
    return figure


def draw_by_units(study: dict[str, Any]) -> Figure:
    """Draw accuracy by the number of units kept, with 95 % intervals."""
    title, by_units, baselines = "How many units it takes", study["by_units"], study["baselines"]
    counts = [row["kept"] for row in by_units["weight"]]
    xlabel = "units kept\nshaded: 95 % interval for other test texts"
    return _draw_curves(title, ORDERS, counts, by_units, "test_interval", baselines, xlabel)


def draw_by_labels(study: dict[str, Any]) -> Figure:
    """Draw accuracy by the number of labels: means over the draws, 95 % intervals of one draw."""
    title, majority = "How many labels it takes", {"majority": study["baselines"]["majority"]}
    counts, curves = study["by_labels"]["counts"], study["by_labels"]["curves"]
    xlabel = "labelled training texts\nshaded: 95 % interval of one draw, other test texts"
    if "finetuned_from" in study["model"]["provenance"]:
        xlabel += "\nthe features were fine-tuned on labels before, not counted here"
    return _draw_curves(title, CURVES, counts, curves, "draw_interval", majority, xlabel)


@mpl.rc_context(STYLE)
def _draw_curves(
    title: str,
    styles: dict[str, tuple[str, str]],
    counts: Sequence[int],
    curves: dict[str, Any],
    interval: str,
    baselines: dict[str, Any],
    xlabel: str,
) -> Figure:
    """Draw accuracies over counts with their intervals, and a dotted line for each baseline."""
    figure, axes = _axes(title, _TALL)
    for name, (label, color) in styles.items():
        accuracies = [row["test_accuracy"] for row in curves[name]]
        axes.plot(counts, accuracies, ".-", color=color, label=label)
        low, high = zip(*(row[interval] for row in curves[name]), strict=True)
        axes.fill_between(counts, low, high, color=color, alpha=0.15, linewidth=0)
    for name in (name for name in _LEVELS if name in baselines):
        label, color = _LEVELS[name]
        level = baselines[name]["test_accuracy"]
        axes.axhline(level, color=color, linestyle=":", linewidth=1.2, label=label)
    axes.set(xscale="log", xlabel=xlabel, ylabel="test accuracy")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def write_figures(folder: Path, transfer: Transfer, classifier: Head, state: str) -> None:
    """Write the numbers of a transfer's figures, then draw them; state: as for `draw_histogram`."""
    contributions, neuron = _weight_contributions(transfer.regression), transfer.neuron
    histogram = unit_histogram(neuron.index, transfer.examples[2], legend(classifier.classes))
    drawn = {
        "weights.png": lambda: _draw_weights(contributions, neuron.index, classifier.pooling),
        "neuron.png": lambda: draw_histogram(
            histogram,
            classifier.neuron,
            pooling=classifier.own_unit.pooling,
            state=state,
            polarity=neuron.polarity if classifier.is_binary else 1,
            cut=neuron.cut if classifier.is_binary else None,
        ),
    }
    figures = {"weights": contributions.tolist(), "neuron_by_label": histogram}
    write_json(folder / FIGURES, figures, "a transfer")
    write_pictures(folder, drawn)


def write_pictures(folder: Path, drawn: Mapping[str, Callable[[], Figure]]) -> None:
    """Draw figures by the name of their file; the results are written, so a failure is logged."""
    for name, draw in drawn.items():
        try:
            save_png(draw(), folder / name)
        except Exception as error:  # matplotlib raises many kinds, without a common base class
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            log.warning(
                "%s could not be drawn (%s); the results are complete", folder / name, reason
            )


def save_png(figure: Figure, path: Path, kind: Kind | None = "a picture") -> None:
    """Write a figure as PNG, on white; kind: as for `write_atomically`."""
    with mpl.rc_context(STYLE):
        write_atomically(
            path,
            lambda file: figure.savefig(file, format="png", dpi=150, facecolor="white"),
            kind,
        )
