"""Draw every way of fine-tuning with its interval, and the published values."""

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transfer.plots import COLORS, STYLE


@mpl.rc_context(STYLE)
def draw(tasks: dict[str, dict[str, Any]]) -> Figure:
    """Draw a panel for each task; tasks: the result of `table.main_measures`."""
    figure = Figure(figsize=(5.5 * len(tasks), 4.0), layout="constrained")
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axes, task in zip(panels, tasks.values(), strict=True):
        draw_task(axes, task)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def draw_task(axes: Axes, task: dict[str, Any]) -> None:
    """Draw our values above the published ones."""
    ours, published = task["ours"], task["published"]
    for place, row in enumerate(ours.values()):
        axes.plot(row["interval"], [place, place], color="#999999", linewidth=3)
        label = "ours, 95 % interval" if place == 0 else None
        axes.plot(row["value"], place, "o", color=COLORS["positive"], label=label)
    places = range(len(ours), len(ours) + len(published))
    color = COLORS["negative"]
    axes.plot(list(published.values()), places, "D", color=color, label="published")
    axes.set_yticks(range(len(ours) + len(published)), [*ours, *published])
    axes.invert_yaxis()
    axes.set(xlabel=task["measure"], title=task["title"], xlim=(0, 1))
