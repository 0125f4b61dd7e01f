"""The results as pictures: the published curve and today's; the figures of DDP's paper."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no display needed

import matplotlib.pyplot as plt

from .. import readings
from ..figure import label
from .report import PROFILES, exposed
from .results import PUBLISHED, Results, Row, fitted_curve, scaling_of

RED, BLUE, GREEN, GREY = "#b2182b", "#2166ac", "#1b7837", "#777777"
COLORS = (BLUE, GREEN, RED, "#762a83")
LOOKS = {  # way, windows: colour, marker, words
    ("2018", 1): (RED, "s", "emulated, the exchange of 2018"),
    ("today", 1): (BLUE, "D", "emulated, today's"),
    ("today", 4): (GREEN, "v", "emulated, today's in every fourth window"),
}


def draw(folder: Path, content: dict[str, Any]) -> None:
    """Draw what there are points for into emulated.png and emulated_ddp.png."""
    results = Results(content)
    if results.of("training"):
        save(draw_scaling(results), folder / "emulated.png")
    if any(results.of(kind) for kind in ("all_reduce", "operations", "buckets")):
        save(draw_ddp(results), folder / "emulated_ddp.png")


def save(figure: Any, path: Path) -> None:
    """Write a figure and forget it."""
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_scaling(results: Results) -> Any:
    """Draw speed and efficiency: published, by the model, emulated, with today's exchange."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    left.plot(readings.GPUS, readings.GPUS, color=GREY, linewidth=1, linestyle=":", label="ideal")
    for axes, per_gpu in ((left, False), (right, True)):
        draw_published(axes, per_gpu)
        for (way, windows), look in LOOKS.items():
            draw_emulated(axes, list(results.training(way, windows).values()), per_gpu, look)
    label(left, right, "GPUs, eight to a node")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def draw_published(axes: Any, per_gpu: bool) -> None:
    """Draw the published points with what they may be misread by, and the model's curve."""
    scale = {p: 1 / p if per_gpu else 1.0 for p in readings.GPUS}
    axes.errorbar(
        readings.GPUS, [PUBLISHED[p] * scale[p] for p in readings.GPUS],
        [readings.READING_ERROR * scale[p] for p in readings.GPUS],
        color="black", marker="o", markersize=8, linestyle="none", markerfacecolor="white",
        elinewidth=1, capsize=2, label="published, 10 Gb/s Ethernet",
    )  # fmt: skip
    fitted = [fitted_curve()[p] * scale[p] for p in readings.GPUS]
    axes.plot(readings.GPUS, fitted, color="black", linewidth=1.2, label="model, fitted")


def draw_emulated(axes: Any, rows: list[Row], per_gpu: bool, look: tuple[str, str, str]) -> None:
    """Draw a way's measured points, and the line of what was foretold for them."""
    color, marker, words = look
    gpus = [row["gpus"] for row in rows]
    scale = [1 / p if per_gpu else 1.0 for p in gpus]
    foretold = [scaling_of(row, row["predicted"]) * s for row, s in zip(rows, scale, strict=True)]
    measured = [scaling_of(row) * s for row, s in zip(rows, scale, strict=True)]
    axes.plot(gpus, foretold, color=color, linewidth=1, linestyle="--")
    ends = [
        [
            abs(scaling_of(row, row[end]) * s - m)
            for row, s, m in zip(rows, scale, measured, strict=True)
        ]
        for end in ("slowest", "fastest")
    ]
    axes.errorbar(
        gpus, measured, ends, color=color, marker=marker, linestyle="none", capsize=2, label=words
    )


def draw_ddp(results: Results) -> Any:
    """Draw figures as Li et al. 2020 have them; dashed is what was foretold."""
    figure, panels = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for row, nodes in enumerate(results.values("all_reduce", "nodes")):
        rows = results.of("all_reduce", nodes=nodes)
        draw_line(panels[0, 0], rows, "bytes", "seconds", COLORS[row], f"{nodes} nodes")
        rows = results.of("operations", nodes=nodes)
        draw_line(panels[0, 1], rows, "numbers_each", "seconds", COLORS[row], f"{nodes} nodes")
    panels[0, 0].set(xscale="log", yscale="log", xlabel="bytes of an all-reduce, fp32")
    panels[0, 1].set(xscale="log", xlabel="numbers of an operation, 60 million in all")
    for axes in panels[0]:
        axes.set_ylabel("seconds")
    draw_buckets(panels[1, 0], results)
    draw_skipped(panels[1, 1], results)
    for axes in panels.flat:
        axes.grid(color="#dddddd", linewidth=0.5)
        if names := axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False, fontsize=9, ncols=1 + (len(names) > 3))
    return figure


def draw_line(axes: Any, rows: list[Row], x: str, y: str, color: str, words: str) -> None:
    """Draw a line of points, if there are any, and what was foretold of them."""
    if not rows:
        return
    rows = sorted(rows, key=lambda row: row[x])
    places = [row[x] for row in rows]
    axes.plot(places, [row[y] for row in rows], color=color, marker="o", markersize=4, label=words)
    predicted = [row["predicted"] for row in rows]
    axes.plot(places, predicted, color=color, linewidth=1, linestyle="--")


def draw_buckets(axes: Any, results: Results) -> None:
    """Draw exposed seconds by bucket size; 0 is every gradient alone."""
    for color, profile in zip(COLORS, PROFILES, strict=False):
        rows = sorted(results.of("buckets", profile=profile), key=lambda row: row["cap_mb"])
        places = [row["cap_mb"] for row in rows]
        measured = [exposed(row, "seconds") for row in rows]
        words = PROFILES[profile]
        axes.plot(places, measured, color=color, marker="o", markersize=4, label=words)
        foretold = [exposed(row, "predicted") for row in rows]
        axes.plot(places, foretold, color=color, linewidth=1, linestyle="--")
    axes.set_xscale("symlog", linthresh=5)
    axes.set(xlabel="size of a bucket, MB (0: each alone)", ylabel="exposed seconds of a step")


def draw_skipped(axes: Any, results: Results) -> None:
    """Draw seconds of a window over GPUs for every number of windows between exchanges."""
    for color, windows in zip(COLORS, results.values("training", "windows"), strict=False):
        for way, line in (("2018", "-"), ("today", ":")):
            rows = results.training(way, windows)
            seconds = [row["seconds"] / windows for row in rows.values()]
            words = f"every {windows}" if way == "2018" else None
            axes.plot(list(rows), seconds, color=color, linestyle=line, marker="o", label=words)
    axes.set_xscale("log", base=2)
    gpus = results.values("training", "gpus")
    axes.set_xticks(gpus, [str(p) for p in gpus])
    axes.margins(y=0.18)  # for the legend
    axes.set(xlabel="GPUs (dotted: today's exchange)", ylabel="seconds of a window")
