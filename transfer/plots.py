"""Two figures: how much each unit weighs, and how the top one is spread by label."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no display needed

import matplotlib.pyplot as plt
import numpy as np

from .regression import Examples, Neuron, Regression

BINS = 25
COLORS = {"negative": "#b2182b", "positive": "#2166ac"}
SIZE = (7.0, 3.6)  # inches


def weight_contributions(regression: Regression) -> np.ndarray:
    """Return each unit's share of the weights, their L2 norm being 1; [F].

    Of more than two classes without a sign: the L2 norm of the unit's weights.
    """
    weights = regression.coefficients
    norm = float(np.linalg.norm(weights)) or 1.0
    return (weights if weights.ndim == 1 else np.linalg.norm(weights, axis=0)) / norm


def legend(classes: Sequence[str]) -> list[str]:
    """Return what the classes are called in a figure: the two of a polarity by their meaning."""
    return list(COLORS) if len(classes) == 2 else [f"label {name}" for name in classes]


def neuron_histogram(
    neuron: Neuron, examples: Examples, names: Sequence[str] = tuple(COLORS)
) -> dict[str, Any]:
    """Count a unit's values by label, in bins that all labels share; names: one per label."""
    values = examples.features[:, neuron.index]
    edges = np.histogram_bin_edges(values, BINS)
    counts = {
        name: np.histogram(values[examples.labels == label], edges)[0].tolist()
        for label, name in enumerate(names)
    }
    return {"edges": edges.tolist(), **counts}


def plot_weights(contributions: np.ndarray, path: Path) -> None:
    """Draw the contribution of every unit; the sentiment neuron stands out."""
    figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
    axes.vlines(np.arange(len(contributions)), 0, contributions, linewidth=0.8, color="#444444")
    top = int(np.argmax(np.abs(contributions)))
    axes.annotate(f"unit {top}", (top, contributions[top]), fontsize=9, color=COLORS["negative"])
    axes.axhline(0, linewidth=0.5, color="black")
    axes.set(xlabel="unit", ylabel="share of the weights (L2)", title="Weight by unit")
    _finish(figure, path)


def plot_neuron(histogram: dict[str, Any], neuron: Neuron, path: Path) -> None:
    """Draw the spread of the unit's value for every label."""
    figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
    edges = np.array(histogram["edges"])
    for name in (name for name in histogram if name != "edges"):
        color = COLORS.get(name)  # absent, the next one of matplotlib's cycle
        axes.stairs(histogram[name], edges, fill=True, alpha=0.5, color=color, label=name)
    axes.set(
        xlabel=f"cell state of unit {neuron.index} after the text",
        ylabel="texts of the test set",
        title="The top unit by label",
    )
    axes.legend()
    _finish(figure, path)


def _finish(figure: plt.Figure, path: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
