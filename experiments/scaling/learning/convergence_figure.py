"""Draw the final bits by the windows of an update, and the curves of a few runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.figures import BLUE, GREEN, GREY, RED, draw_grid, panels

from .runs import Result

LOOKS = {
    "same": (GREY, "o", "base rate, unscaled"),
    "another seed": ("#000000", "x", "the base, another seed"),
    "linear": (RED, "^", "rate linear"),
    "square root": (BLUE, "s", "rate by square root"),
    "papers": ("#f4a582", "v", "the papers' rule"),
    "adasum": (GREEN, "D", "Adasum, base rate"),
    "skipped, same": ("#bbbbbb", "P", "synchronised every 4th, 16th window, base rate"),
    "skipped, square root": ("#92c5de", "X", "the same, rate by square root"),
}
BASE = "same"  # its first point begins every curve that scales the rate
SHOWN = 256  # windows of an update in the runs whose training is drawn
HIGHEST = 2.6  # bits per character; higher values are drawn at this edge


def draw(path: Path, results: Sequence[Result]) -> None:
    """Draw the runs of equal characters, those of equal steps, and training."""
    whole = [result for result in results if result["part"] == 1]
    with panels(path, 1, 3, size=(13, 4.6), sharey=True) as (figure, row):
        draw_scores(row[0], whole, "as many characters")
        draw_scores(row[1], equal_steps(results), "as many updates")
        draw_curves(row[2], whole)
        row[0].set_ylabel(f"bits per character (at {HIGHEST:g}: more, or diverged)")
        handles = {
            label: handle
            for axes in row
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        where: dict[str, Any] = {"loc": "outside lower center", "ncols": 4, "fontsize": 8}
        figure.legend(handles.values(), handles.keys(), **where)


def draw_scores(axes: Any, results: Sequence[Result], title: str) -> None:
    """Draw the final bits on valid by lanes times windows, with a line for each series."""
    for series, (color, marker, label) in LOOKS.items():
        points = {read(r): bits_of(r) for r in results if r["series"] == series}
        if points and series not in (BASE, "papers", "another seed"):
            points = {**{read(r): bits_of(r) for r in base_of(results)}, **points}
        xs = sorted(points)
        style = {"color": color, "marker": marker, "markersize": 5, "linewidth": 1.2}
        axes.plot(xs, [points[x] for x in xs], label=label if xs else None, **style)
    read_of = sorted({read(result) for result in results})
    axes.set_xscale("log", base=2)
    axes.set_xticks(read_of, [str(number) for number in read_of])
    axes.minorticks_off()
    axes.set(xlabel="lanes x windows of an update", title=f"valid, {title}")
    draw_grid(axes)


def draw_curves(axes: Any, results: Sequence[Result]) -> None:
    """Draw the bits in training by characters, for the base and for updates of 256 windows."""
    for result in results:
        of_base = result["series"] == BASE and result in base_of(results)
        if result["series"] not in LOOKS or not (read(result) == SHOWN or of_base):
            continue
        color, _, label = LOOKS[result["series"]]
        rows = result["rows"]
        millions = [row["characters"] / 1e6 for row in rows]
        bits = [min(row["train_bits_per_character"], HIGHEST) for row in rows]
        axes.plot(
            millions,
            bits,
            color="black" if of_base else color,
            linestyle=":" if of_base else "-",
            linewidth=1.2,
            label="16 lanes, base rate" if of_base else label,
        )
    axes.set(xlabel="million characters", title=f"training, updates of {SHOWN} windows")
    draw_grid(axes)


def equal_steps(results: Sequence[Result]) -> list[Result]:
    """Return the short runs, and all others with as many updates."""
    steps = {result["steps"] for result in results if result["part"] < 1}
    return [result for result in results if result["steps"] in steps]


def base_of(results: Sequence[Result]) -> list[Result]:
    """Return the run from which all rules begin, if it has been trained."""
    own = [result for result in results if result["series"] == BASE]
    least = min((read(result) for result in own), default=0)
    return [result for result in own if read(result) == least < SHOWN]


def bits_of(result: Result) -> float:
    """Return the final bits on valid, at most those of the edge; diverged runs lie there."""
    bits = result["valid_bits_per_character"]
    return HIGHEST if bits is None else min(bits, HIGHEST)


def read(result: Result) -> int:
    """Return the number of windows that an update reads."""
    return int(result["lanes"] * result["windows_per_step"])
