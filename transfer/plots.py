"""Figures for files and pages: the weight of each unit, the spread of one by label."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure  # without pyplot: needs no display, nothing to close

from data_utils.pictures import literal
from model.layers.cells import LAYERS

from .regression import Examples, Regression

BINS = 25
COLORS = {"negative": "#d6604d", "positive": "#4393c3"}  # on light ground and on dark
SIZE = (7.0, 3.6)  # inches
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


def weight_contributions(regression: Regression) -> np.ndarray:
    """Return the weights [F], scaled to an L2 norm of 1.

    With more than two classes they have no sign: each is the L2 norm of a unit's weights.
    """
    weights = regression.coefficients
    norm = float(np.linalg.norm(weights)) or 1.0
    return (weights if weights.ndim == 1 else np.linalg.norm(weights, axis=0)) / norm


def legend(classes: Sequence[str]) -> list[str]:
    """Return the classes' names in a figure; two classes are named by their meaning."""
    return list(COLORS) if len(classes) == 2 else [f"label {name}" for name in classes]


def state_name(cell: str) -> str:
    """Return the name of a feature of a model with this cell."""
    return LAYERS[cell].feature


def cell_name(cell: str) -> str:
    """Return a cell's name in tables."""
    return LAYERS[cell].title


def unit_histogram(
    unit: int, examples: Examples, names: Sequence[str] = tuple(COLORS)
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


@mpl.rc_context(STYLE)
def draw_weights(
    contributions: np.ndarray, neuron: int, poolings: Sequence[str] = ("last",)
) -> Figure:
    """Draw the contribution of every unit, with the sentiment neuron highlighted.

    contributions: [P * H], those of all H units in each of the P poolings side by side; neuron: its
    place among them.
    """
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    axes.vlines(np.arange(len(contributions)), 0, contributions, linewidth=0.8, color="#444444")
    which, unit = divmod(neuron, len(contributions) // len(poolings))
    name, xlabel = f"unit {unit}", "unit"
    if len(poolings) > 1:
        name, xlabel = f"{name}, {poolings[which]}", f"units: {', '.join(poolings)}, side by side"
    axes.annotate(name, (neuron, contributions[neuron]), fontsize=9, color=COLORS["negative"])
    axes.axhline(0, linewidth=0.5, color="black")
    axes.set(xlabel=xlabel, ylabel="share of the weights (L2)", title="Weight by unit")
    return figure


@mpl.rc_context(STYLE)
def draw_histogram(
    histogram: dict[str, Any],
    unit: int,
    size: tuple = SIZE,
    *,
    pooling: str = "last",
    cell: str = "mlstm",
) -> Figure:
    """Draw the spread of a unit's value for every label.

    pooling: of the states; cell: the model's, which decides their name.
    """
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    edges = np.array(histogram["edges"])
    for name in (name for name in histogram if name != "edges"):
        color = COLORS.get(name)  # if absent, the next one of matplotlib's cycle
        axes.stairs(histogram[name], edges, fill=True, alpha=0.5, color=color, label=literal(name))
    axes.set(
        xlabel=f"{state_name(cell)} of unit {unit} after the text"
        if pooling == "last"
        else f"{pooling} {state_name(cell)} of unit {unit} over the text",
        ylabel="texts of the test set",
        title="The unit by label",
    )
    axes.legend()
    return figure


def save_png(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, on white."""
    with mpl.rc_context(STYLE):
        figure.savefig(path, dpi=150, facecolor="white")


def as_svg(figure: Figure) -> str:
    """Return a figure as SVG without background, in dark ink on light pages and the reverse."""
    file = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue().decode()
    start = svg.index("<svg")
    head = svg.index(">", start) + 1
    return svg[start:head] + SCHEME + svg[head:].replace(INK, "currentColor")


SCHEME = (
    f"<style>svg {{ color: {INK}; }}\n"
    "@media (prefers-color-scheme: dark) { svg { color: #f2f3f4; } }</style>"
)
