"""Draw the published curve and today's, and figures like those of DDP's paper."""

from pathlib import Path
from typing import Any

from experiments.figures import BLUE, GREEN, GREY, RED, draw_grid, panels

from .. import readings
from ..figure import label
from .report import PROFILES, exposed
from .results import PUBLISHED, Results, Row, fitted_curve, scaling_of

COLORS = (BLUE, GREEN, RED, "#762a83")
LOOKS = {  # by way and windows: colour, marker, label
    ("2018", 1): (RED, "s", "emulated, the exchange of 2018"),
    ("today", 1): (BLUE, "D", "emulated, today's"),
    ("today", 4): (GREEN, "v", "emulated, today's in every fourth window"),
}


def draw(folder: Path, content: dict[str, Any]) -> None:
    """Draw emulated.png and emulated_ddp.png, as far as there are points for them."""
    results = Results(content)
    if results.of("training"):
        draw_scaling(results, folder / "emulated.png")
    if any(results.of(kind) for kind in ("all_reduce", "operations", "buckets")):
        draw_ddp(results, folder / "emulated_ddp.png")


def draw_scaling(results: Results, path: Path) -> None:
    """Draw speed and efficiency: published, modelled, and emulated with both exchanges."""
    with panels(path, 1, 2, size=(11, 4.8)) as (figure, (left, right)):
        left.plot(
            readings.GPUS, readings.GPUS, color=GREY, linewidth=1, linestyle=":", label="ideal"
        )
        for axes, per_gpu in ((left, False), (right, True)):
            draw_published(axes, per_gpu)
            for (way, windows), look in LOOKS.items():
                draw_emulated(axes, list(results.training(way, windows).values()), per_gpu, look)
        label(left, right, "GPUs, eight to a node")
        handles, labels = left.get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9
        )


def draw_published(axes: Any, per_gpu: bool) -> None:
    """Draw the published points with their reading errors, and the model's curve."""
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
    """Draw the measured points of a way, and the line of the predictions."""
    color, marker, words = look
    gpus = [row["gpus"] for row in rows]
    scale = [1 / p if per_gpu else 1.0 for p in gpus]
    predicted = [scaling_of(row, row["predicted"]) * s for row, s in zip(rows, scale, strict=True)]
    measured = [scaling_of(row) * s for row, s in zip(rows, scale, strict=True)]
    axes.plot(gpus, predicted, color=color, linewidth=1, linestyle="--")
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


def draw_ddp(results: Results, path: Path) -> None:
    """Draw figures like those of Li et al. 2020; dashed lines are predictions."""
    with panels(path, 2, 2, size=(11, 8)) as (_, places):
        draw_reductions(*places[0], results)
        draw_buckets(places[1, 0], results)
        draw_skipped(places[1, 1], results)
        draw_grid(*places.flat)
        for axes in places.flat:
            if names := axes.get_legend_handles_labels()[1]:
                axes.legend(frameon=False, fontsize=9, ncols=1 + (len(names) > 3))


def draw_reductions(left: Any, right: Any, results: Results) -> None:
    """Draw all-reduces by size, and those of 60 million numbers by the size of an operation."""
    for color, nodes in zip(COLORS, results.values("all_reduce", "nodes"), strict=False):
        rows = results.of("all_reduce", nodes=nodes)
        draw_line(left, rows, "bytes", "seconds", color, f"{nodes} nodes")
        rows = results.of("operations", nodes=nodes)
        draw_line(right, rows, "numbers_each", "seconds", color, f"{nodes} nodes")
    left.set(xscale="log", yscale="log", xlabel="bytes of an all-reduce, fp32")
    right.set(xscale="log", xlabel="numbers of an operation, 60 million in all")
    for axes in (left, right):
        axes.set_ylabel("seconds")


def draw_line(axes: Any, rows: list[Row], x: str, y: str, color: str, words: str) -> None:
    """Draw a line of points, if there are any, and their predictions."""
    if not rows:
        return
    rows = sorted(rows, key=lambda row: row[x])
    places = [row[x] for row in rows]
    axes.plot(places, [row[y] for row in rows], color=color, marker="o", markersize=4, label=words)
    predicted = [row["predicted"] for row in rows]
    axes.plot(places, predicted, color=color, linewidth=1, linestyle="--")


def draw_buckets(axes: Any, results: Results) -> None:
    """Draw exposed seconds by bucket size; at 0 every gradient travels alone."""
    for color, profile in zip(COLORS, PROFILES, strict=False):
        rows = sorted(results.of("buckets", profile=profile), key=lambda row: row["cap_mb"])
        places = [row["cap_mb"] for row in rows]
        measured = [exposed(row, "seconds") for row in rows]
        words = PROFILES[profile]
        axes.plot(places, measured, color=color, marker="o", markersize=4, label=words)
        predicted = [exposed(row, "predicted") for row in rows]
        axes.plot(places, predicted, color=color, linewidth=1, linestyle="--")
    axes.set_xscale("symlog", linthresh=5)
    axes.set(xlabel="size of a bucket, MB (0: each alone)", ylabel="exposed seconds of a step")


def draw_skipped(axes: Any, results: Results) -> None:
    """Draw the seconds of a window by GPUs, for each number of windows between exchanges."""
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
