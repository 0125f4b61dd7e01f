"""Draw the seconds of a sweep against those of the model, and the errors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from experiments.figures import GREY, panels

COLORS = ("#2166ac", "#1b7837", "#b2182b", "#762a83", "#e08214", "#01665e")


def draw(path: Path, points: Sequence[dict[str, Any]]) -> None:
    """Draw measured and predicted seconds of all points, and the errors one by one."""
    height = max(4.0, 0.24 * len(points) + 1)
    worlds = sorted({point["ranks"] for point in points})
    colors = {world: COLORS[number % len(COLORS)] for number, world in enumerate(worlds)}
    with panels(path, 2, size=(11, height), grid=True) as (_, (left, right)):
        draw_seconds(left, points, colors)
        draw_errors(right, points, colors)
        for axes in (left, right):
            axes.set_axisbelow(True)


def draw_seconds(axes: Any, points: Sequence[dict[str, Any]], colors: dict[int, str]) -> None:
    """Draw predicted over measured seconds with quartiles; open markers were not fitted."""
    ends = [number for point in points for number in (point["seconds"], point["predicted"])]
    axes.plot(*[(min(ends) / 1.3, max(ends) * 1.3)] * 2, color=GREY, linewidth=1, linestyle=":")
    for world, color in colors.items():
        name = f"{world} rank{'s' * (world > 1)}"
        axes.plot([], [], marker="o", linestyle="none", color=color, label=name)
    for point in points:
        spread = [[point["seconds"] - point["low"]], [point["high"] - point["seconds"]]]
        axes.errorbar(
            point["seconds"], point["predicted"], xerr=spread, marker="o", markersize=5,
            color=colors[point["ranks"]], elinewidth=1,
            markerfacecolor=colors[point["ranks"]] if point["fitted"] else "white",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="seconds of a window, measured", ylabel="model")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set(major_locator=LogLocator(subs=(1, 2, 5)), minor_locator=NullLocator())
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.legend(frameon=False)


def draw_errors(axes: Any, points: Sequence[dict[str, Any]], colors: dict[int, str]) -> None:
    """Draw the error of the model at every point, and the quartiles of the measurement."""
    for place, point in enumerate(points):
        color = colors[point["ranks"]]
        axes.barh(
            place, 100 * point["error"], height=0.6, edgecolor=color, linewidth=1,
            color=color if point["fitted"] else "white",
        )  # fmt: skip
        spread = [100 * (point[end] / point["seconds"] - 1) for end in ("low", "high")]
        axes.plot(spread, [place, place], color="black", linewidth=1)
    axes.axvline(0, color=GREY, linewidth=1)
    axes.set_yticks(range(len(points)), [point["name"] for point in points], fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="model / measured - 1, %")
    axes.set_title("lines: the measurement's quartiles; open bars: not fitted", fontsize=9)
