"""The statistics of a corpus as a figure."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no display needed

import matplotlib.pyplot as plt
import numpy as np

from model.files.storage import write_atomically

from ..pictures import literal

COLORS = {"ASCII": "#2166ac", "outside ASCII": "#b2182b"}


def draw_statistics(statistics: dict[str, Any], path: Path) -> None:
    """Draw lengths, bytes and, if there are any, stars."""
    stars = statistics["all"]["stars"]
    columns = 3 if stars else 2
    figure, axes = plt.subplots(1, columns, figsize=(4.6 * columns, 3.8), layout="constrained")
    _draw_lengths(axes[0], statistics["parts"])
    _draw_bytes(axes[1], statistics["all"])
    if stars:
        axes[2].bar(list(stars), list(stars.values()), color=COLORS["ASCII"])
        axes[2].set(xlabel="stars", ylabel="reviews", title="Stars")
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    kind = path.suffix.lower().removeprefix(".")
    write_atomically(path, lambda partial: figure.savefig(partial, format=kind, dpi=150))
    plt.close(figure)


def _draw_lengths(axes: plt.Axes, parts: dict[str, Any]) -> None:
    for name, part in parts.items():
        edges = part["length_histogram"]["lower_edges"]
        counts = np.array(part["length_histogram"]["reviews"][1:], dtype=float)
        if counts.sum():  # empty reviews have no place on a logarithmic axis
            upper = [*edges[1:], edges[-1] * 2**0.5]
            axes.stairs(counts / part["reviews"], upper, label=literal(name), alpha=0.8)
    axes.set(xscale="log", xlabel="bytes in a review", ylabel="fraction of reviews", title="Length")
    if 1 < len(parts) <= 4:
        axes.legend(fontsize=8, loc="upper right")


def _draw_bytes(axes: plt.Axes, part: dict[str, Any]) -> None:
    counts = np.array(part["byte_counts"], dtype=float) / max(part["bytes"], 1)
    for start, (label, color) in zip((0, 128), COLORS.items(), strict=True):
        fractions = counts[start : start + 128]
        axes.bar(start + np.arange(128), fractions, width=1, color=color, label=label)
    axes.set(xlabel="byte", ylabel="fraction of bytes", title="Bytes")
    if counts.any():
        axes.set_yscale("log")
    axes.legend(fontsize=8, loc="upper right")
