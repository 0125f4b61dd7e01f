"""Draw the published points and the model's curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from transfer.plots import save_png

from . import puri

BLUE, RED, GREEN, GREY = "#2166ac", "#b2182b", "#1b7837", "#777777"
LOOKS = {
    "infiniband_8192": (BLUE, "o", "8,192 units, InfiniBand"),
    "infiniband_4096": (GREEN, "s", "4,096 units, InfiniBand"),
    "ethernet_4096": (RED, "^", "4,096 units, 10 Gb/s Ethernet"),
}
Curves = Mapping[str, Sequence[float]]


def draw(path: Path, fitted: Curves, extrapolated: Curves, size_alone: Sequence[float]) -> None:
    """Draw the speed and the efficiency side by side.

    extrapolated: the curves that were fitted to 8 to 32 GPUs. size_alone: the scaling of the large
    model over the network of the small one.
    """
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(puri.GPUS, puri.GPUS, color=GREY, linewidth=1, linestyle=":")
    for name, (color, marker, _) in LOOKS.items():
        for axes, scale in ((left, [1.0] * 5), (right, [1 / p for p in puri.GPUS])):
            draw_curve(axes, name, fitted[name], extrapolated[name], scale, color, marker)
    efficiency = [s / p for s, p in zip(size_alone, puri.GPUS, strict=True)]
    right.plot(puri.GPUS, efficiency, color=BLUE, linewidth=1.2, linestyle="-.")
    label(left, right)
    figure.legend(handles=legend(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dddddd", linewidth=0.5)
    save_png(figure, path)


def draw_curve(
    axes: Any,
    name: str,
    fitted: Sequence[float],
    extrapolated: Sequence[float],
    scale: Sequence[float],
    color: str,
    marker: str,
) -> None:
    """Draw the points of a curve with their reading errors, the fit and the extrapolation."""
    scaled = [[v * s for v, s in zip(row, scale, strict=True)] for row in (fitted, extrapolated)]
    points = [v * s for v, s in zip(puri.SCALING[name], scale, strict=True)]
    errors = [puri.READING_ERROR * s for s in scale]
    axes.plot(puri.GPUS, scaled[0], color=color, linewidth=1.4)
    axes.plot(puri.GPUS[2:], scaled[1][2:], color=color, linewidth=1.2, linestyle="--")
    axes.errorbar(
        puri.GPUS, points, errors, color=color, marker=marker, markersize=6, linestyle="none",
        markerfacecolor="white", markeredgewidth=1.4, elinewidth=1, capsize=2,
    )  # fmt: skip


def label(left: Any, right: Any) -> None:
    """Label the axes of both panels: speed and efficiency over GPUs."""
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(puri.GPUS, [str(p) for p in puri.GPUS])
        axes.set_xlabel("GPUs (V100, eight to a DGX-1V)")
    left.set_yscale("log", base=2)
    left.set_yticks(puri.GPUS, [str(p) for p in puri.GPUS])
    left.set_ylabel("times the speed of one GPU")
    right.set(ylim=(0.68, 1.005), ylabel="efficiency: speed over GPUs")


def legend() -> list[Line2D]:
    """Return the legend of all lines and markers."""
    points: dict[str, Any] = {
        "markerfacecolor": "white",
        "markeredgewidth": 1.4,
        "linestyle": "none",
    }
    return [
        *(
            Line2D([], [], color=color, marker=marker, label=name, **points)
            for color, marker, name in LOOKS.values()
        ),
        Line2D([], [], color=GREY, linestyle=":", label="ideal"),
        Line2D([], [], color="black", label="model, fitted to all 15 points"),
        Line2D([], [], color="black", linestyle="--", label="fitted to 8, 16, 32 GPUs only"),
        Line2D([], [], color=BLUE, linestyle="-.", label="8,192 over the fabric of 4,096"),
    ]
