"""Draw the figures of closed studies from their results, in one style.

python -m experiments.figures    # race.png, measured_gloo.png, emulated_ddp.png
"""

import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from configs import command
from model.files.storage import read_json
from transfer.plots import BLUE, GREEN, GREY, INK, ORANGE, PINK, STYLE, save_png

HERE = Path(__file__).resolve().parent
LARGEST_OTHERS, LARGEST_OVERSHOOT = 0.10, 0.02  # of a run that counts: the machine did nothing else
COLORS = (BLUE, GREEN, ORANGE, PINK)

Row = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """Draw the figures of closed studies from their results, in one style."""


@dataclass(frozen=True)
class Point:
    """A median with the range of its runs."""

    x: float
    y: float
    low: float
    high: float
    predicted: float | None = None


def main() -> None:
    command.parse(Options, __doc__)
    for path, draw in FIGURES.items():
        with mpl.rc_context(STYLE):
            save_png(draw(), HERE / path)
        print(HERE / path)


def line(
    axes: Axes,
    points: Sequence[Point],
    name: str,
    color: str,
    style: str = "-",
    *,
    at: int = -1,
    up: float = 0.0,
) -> None:
    """Draw medians with their ranges, and dashes for what was predicted.

    The name is written `up` dots above the point `at`, and to the right of the last one.
    """
    xs, ys = [p.x for p in points], [p.y for p in points]
    ranges = [[p.y - p.low for p in points], [p.high - p.y for p in points]]
    axes.errorbar(xs, ys, ranges, color=color, marker="o", markersize=4, linestyle=style, capsize=2)
    if all(p.predicted is not None for p in points):
        predicted = [p.predicted or 0.0 for p in points]
        axes.plot(xs, predicted, color=color, linestyle="--", linewidth=1)
    beside(axes, xs[at], ys[at], name, color, up=up)


def beside(axes: Axes, x: float, y: float, name: str, color: str, up: float = 0.0) -> None:
    """Write a name to the right of a point, so many dots above it."""
    place: Any = {"textcoords": "offset points", "xytext": (6, up), "va": "center", "fontsize": 8}
    axes.annotate(name, (x, y), color=color, annotation_clip=False, **place)


def draw_race() -> Figure:
    """Draw where each recipe was after each budget of characters: medians and ranges of seeds."""
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    target = race_end("published_seed_*_6000000.json")
    axes.axhline(target.low, color=GREY, linewidth=1, linestyle="--")
    axes.annotate(
        "the published recipe's bits", (8, target.low), textcoords="offset points",
        xytext=(0, -10), fontsize=8, color=GREY,
    )  # fmt: skip
    for name, words, color in (("adam_2e-2", "Adam, rate 2e-2", ORANGE), ("ours", "ours", BLUE)):
        budgets = sorted({p.stem.rpartition("_")[2] for p in race_files(f"{name}_*.json")}, key=int)
        ends = [race_ends(f"{name}_seed_*_{budget}.json") for budget in budgets]
        seconds = [statistics.median(row[0] for row in rows) for rows in ends]
        bits = [statistics.median(row[1] for row in rows) for rows in ends]
        spread = [
            [
                [
                    abs(pick(row[side] for row in rows) - middle[place])
                    for place, rows in enumerate(ends)
                ]
                for pick in (min, max)
            ]
            for side, middle in ((0, seconds), (1, bits))
        ]
        axes.errorbar(
            seconds, bits, spread[1], spread[0], color=color, marker="o", markersize=4, capsize=2
        )
        beside(axes, seconds[-1], bits[-1], words, color, up=-4 if name == "ours" else 4)
    for words, is_slow in (("the same, our recurrence", False), ("published, byte by byte", True)):
        ends = [byte_by_byte(seed, is_slow) for seed in range(3)]
        x, y = (statistics.median(row[side] for row in ends) for side in (0, 1))
        low, high = min(row[0] for row in ends), max(row[0] for row in ends)
        axes.errorbar([x], [y], xerr=[[x - low], [high - x]], color=INK, marker="s", capsize=2)
        axes.annotate(
            words, (x, y), textcoords="offset points", xytext=(0, 22 if is_slow else 9),
            ha="center", fontsize=8,
        )  # fmt: skip
    axes.set(xscale="log", xlabel="seconds of training, two cores")
    axes.set_ylabel("valid bits per character")
    axes.set_xticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1,000"])
    axes.minorticks_off()
    axes.set_xlim(6, 2500)
    axes.set_title("Medians and ranges of three seeds; lower is better", fontsize=9)
    return figure


def ranges(groups: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return how far each group goes below its median, and above."""
    middle = list(map(statistics.median, groups))
    below = [m - min(group) for m, group in zip(middle, groups, strict=True)]
    return [below, [max(group) - m for m, group in zip(middle, groups, strict=True)]]


def race_files(pattern: str) -> list[Path]:
    """Return the results of the race whose names match."""
    return sorted((HERE / "race" / "results").glob(pattern))


def race_ends(pattern: str) -> list[tuple[float, float]]:
    """Return the seconds and bits at the end of each run."""
    rows = map(read_json, race_files(pattern))
    return [(row["training_seconds"], row["valid_bits_per_character"]) for row in rows]


def race_end(pattern: str) -> Point:
    """Return the median of runs, with the range of their bits."""
    ends = race_ends(pattern)
    bits = [row[1] for row in ends]
    middle = statistics.median(row[0] for row in ends)
    return Point(middle, statistics.median(bits), min(bits), max(bits))


def byte_by_byte(seed: int, is_slow: bool) -> tuple[float, float]:
    """Return seconds and bits of the published recipe; byte by byte it was timed on fewer bytes."""
    (whole,) = map(read_json, race_files(f"published_seed_{seed}_6000000.json"))
    (part,) = map(read_json, race_files(f"published_byte_by_byte_seed_{seed}_375000.json"))
    seconds = part["training_seconds"] * whole["characters_read"] / part["characters_read"]
    return seconds if is_slow else whole["training_seconds"], whole["valid_bits_per_character"]


def draw_gloo() -> Figure:
    """Draw the performance model against steps measured on this machine."""
    points = read_json(HERE / "scaling/results/measured_gloo.json")["points"]
    figure = Figure(figsize=(7.6, 0.28 * len(points) + 1.4), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=GREY, linewidth=1)
    for place, point in enumerate(points):
        color = BLUE if point["ranks"] == 1 else GREEN
        filled = color if point["fitted"] else "none"
        error = 100 * point["error"]
        axes.barh(place, error, color=filled, edgecolor=color, height=0.6)
        interval = [100 * (point[side] / point["seconds"] - 1) for side in ("low", "high")]
        axes.plot(interval, [place, place], color=INK, linewidth=1)
        end, side, ha = (max, 5, "left") if error > 0 else (min, -5, "right")
        axes.annotate(
            f"{error:+.0f} %", (end(error, *interval), place), textcoords="offset points",
            xytext=(side, 0), va="center", fontsize=7, ha=ha,
        )  # fmt: skip
    axes.set_yticks(range(len(points)), [case_of(point["name"]) for point in points], fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="model over measurement, less 1", xlim=(-75, 40))
    axes.xaxis.set_major_formatter("{x:.0f} %")
    figure.suptitle(
        "Filled: fitted; open: predicted alone. Lines: quartiles of the measurement", fontsize=9
    )
    return figure


def case_of(name: str) -> str:
    """Return a case's name in words."""
    found = re.fullmatch(r"w(\d)_h(\d+)_(\w+?)(?:_b([\d.]+))?_k(\d)", name)
    assert found, name
    ranks, units, how, bucket, every = found.groups()
    parts = [f"{ranks} rank{'s' * (ranks != '1')}", f"{units} units"]
    parts += [how.replace("powersgd", "PowerSGD").replace("adasum", "Adasum")] * (how != "none")
    parts += [f"buckets of {bucket} MB"] if bucket else []
    return ", ".join([*parts, "each window" if every == "1" else f"every {every}th window"])


def draw_emulated() -> Figure:
    """Draw the four parts of the emulated cluster."""
    runs = read_json(HERE / "scaling/results/emulated.json")["runs"]
    counted = [row for row in runs if counts(row["measures"])]
    figure = Figure(figsize=(10.0, 7.6), layout="constrained")
    (first, second), (third, fourth) = figure.subplots(2, 2)
    for color, nodes in zip(COLORS, (2, 4, 8, 16), strict=True):
        words = f"{nodes} nodes"
        rows = of(counted, kind="all_reduce", nodes=nodes)
        line(first, medians(rows, lambda r: r["bytes"]), words, color, at=0, up=11)
        if rows := of(counted, kind="operations", nodes=nodes):
            line(second, medians(rows, lambda r: r["numbers_each"]), words, color, at=0, up=5)
    first.set(xscale="log", yscale="log", xlabel="bytes of an all-reduce, fp32", ylabel="seconds")
    second.set(xscale="log", yscale="log", xlabel="numbers of an operation, 60 million in all")
    second.set(ylabel="seconds")
    names = {
        "feed-forward": ("160 equal layers", -12),
        "one by one": ("mLSTM, gate by gate (today)", 28),
        "together": ("mLSTM, all at the end", -22),
    }
    for color, (profile, (words, up)) in zip(COLORS, names.items(), strict=False):
        rows = of(counted, kind="buckets", profile=profile)
        exposed = medians(rows, lambda r: r["cap_mb"], lambda r, value: value - r["computing"])
        line(third, exposed, words, color, at=1, up=up)
    third.set_xscale("symlog", linthresh=5)
    third.set(
        xlabel="size of a bucket, MB (0: each gradient alone)", ylabel="exposed seconds a step"
    )
    for color, windows in zip(COLORS, (1, 2, 4, 8), strict=True):
        for way, style in (("2018", "-"), ("today", ":")):
            rows = of(counted, kind="training", way=way, windows=windows)
            per_window = medians(rows, lambda r: r["gpus"], lambda r, value: value / r["windows"])
            name = f"every {windows}" if way == "2018" else ""
            measured = [Point(p.x, p.y, p.low, p.high) for p in per_window]
            line(fourth, measured, name, color, style, at=2, up=9)
    fourth.set_xscale("log", base=2)
    fourth.set_xticks([16, 32, 64, 128], ["16", "32", "64", "128"])
    fourth.set(xlabel="GPUs (solid: exchange of 2018, dotted: today's)", ylabel="seconds a window")
    figure.suptitle(
        "Medians and ranges of the runs that count; dashed: predicted, nothing fitted", fontsize=9
    )
    return figure


def counts(measures: Row) -> bool:
    """Whether a run counts: the machine did nothing else, and computing took its time."""
    return measures["others"] <= LARGEST_OTHERS and (
        measures.get("overshoot", 0.0) <= LARGEST_OVERSHOOT
    )


def of(rows: Iterable[Row], **facts: Any) -> list[Row]:
    """Return the rows with these facts."""
    return [row for row in rows if facts.items() <= row.items()]


def medians(
    rows: Iterable[Row],
    x: Callable[[Row], float],
    y: Callable[[Row, float], float] = lambda row, value: value,
) -> list[Point]:
    """Return the median of the runs at each x, in order of x; y: what is shown of seconds."""
    groups = defaultdict(list)
    for row in rows:
        groups[x(row)].append(row)
    points = []
    for at, group in sorted(groups.items()):
        seconds = [y(row, row["seconds"]) for row in group]
        predicted = y(group[0], group[0]["predicted"])
        points.append(Point(at, statistics.median(seconds), min(seconds), max(seconds), predicted))
    return points


FIGURES: dict[str, Callable[[], Figure]] = {
    "race/race.png": draw_race,
    "scaling/figures/measured_gloo.png": draw_gloo,
    "scaling/figures/emulated_ddp.png": draw_emulated,
}


if __name__ == "__main__":
    command.run(main)
