"""What the figures of all experiments share: a PNG file with panels, and their looks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # it writes files and needs no display

import matplotlib.pyplot as plt

BLUE, RED, GREEN, GREY = "#2166ac", "#b2182b", "#1b7837", "#777777"
ORANGE, PURPLE = "#e08214", "#762a83"


@contextmanager
def panels(
    path: Path,
    columns: int,
    *,
    size: tuple[float, float],
    grid: bool = False,
    **shared: Any,
) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its row of panels, and write them to a PNG file afterwards.

    size: width and height in inches. grid: whether the panels have one. shared: as for
    `matplotlib.pyplot.subplots`.
    """
    figure, axes = plt.subplots(1, columns, figsize=size, layout="constrained", **shared)
    yield figure, axes
    for each in figure.axes:
        each.spines[["top", "right"]].set_visible(False)
        if grid:
            each.grid(color="#dddddd", linewidth=0.5)
    figure.savefig(path, dpi=150)
    plt.close(figure)
