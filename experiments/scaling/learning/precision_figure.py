"""The figure of precision.py: learning, the difference to fp32, the loss scale, memory."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no display needed

import matplotlib.pyplot as plt

from training.precision import FIRST_SCALE

from .runs import Result

COLORS = {
    "fp32": "#000000",
    "fp32, seed 1": "#999999",
    "fp32, seed 2": "#cccccc",
    "fp32, plain torch": "#1b7837",
    "fp16": "#b2182b",
    "fp16, scale from 2^32": "#ef8a62",
    "bf16": "#2166ac",
}
YARDSTICK = "fp32"
HELD = {
    "weights": "#2166ac",
    "weights_as_multiplied": "#92c5de",
    "gradients": "#b2182b",
    "optimizer": "#f4a582",
    "activations": "#bbbbbb",
}


def draw(path: Path, study: Mapping[str, Any]) -> None:
    """Draw all four panels."""
    figure, panels = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    results = {result["way"]: result for result in study["runs"]}
    draw_learning(panels[0, 0], results)
    draw_differences(panels[0, 1], results)
    draw_scale(panels[1, 0], results)
    draw_memory(panels[1, 1], study["memory"])
    for axes in panels.flat:
        axes.grid(color="#dddddd", linewidth=0.5)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_learning(axes: Any, results: Mapping[str, Result]) -> None:
    """Draw training's bits by characters; as in Puri et al.'s figure the curves should cover."""
    for way, result in results.items():
        axes.plot(*curve(result["rows"]), color=COLORS[way], linewidth=1.1, label=way)
    late = [bits for result in results.values() for bits in curve(settled(result))[1]]
    axes.set(xlabel="million characters", ylabel="training bits per character")
    if late:
        axes.set_ylim(top=max(late))
        axes.legend(fontsize=8)


def draw_differences(axes: Any, results: Mapping[str, Result]) -> None:
    """Draw each run's bits less those of fp32, row by row, once the first tenth is over."""
    if YARDSTICK not in results:
        return
    millions, yardstick = curve(settled(results[YARDSTICK]))
    for way, result in results.items():
        if way != YARDSTICK:
            own = curve(settled(result))[1]
            differences = [ours - theirs for ours, theirs in zip(own, yardstick, strict=False)]
            axes.plot(millions[: len(own)], differences, color=COLORS[way], linewidth=1.1)
    axes.axhline(0, color=COLORS[YARDSTICK], linewidth=0.8)
    axes.set(xlabel="million characters", ylabel="training bits less those of fp32")


def draw_scale(axes: Any, results: Mapping[str, Result]) -> None:
    """Draw the loss scale by steps; each mark has so many steps skipped since the one before."""
    for way, result in results.items():
        rows = [row for row in result["rows"] if "loss_scale" in row]
        if not rows:
            continue
        first = result["keys"].get("train.loss_scale", FIRST_SCALE)
        steps = [0, *(row["step"] for row in rows)]
        exponents = [math.log2(scale) for scale in (first, *(row["loss_scale"] for row in rows))]
        axes.step(steps, exponents, where="post", color=COLORS[way], linewidth=1.1)
        for row, exponent in zip(rows, exponents[1:], strict=True):
            if row["overflows"]:
                axes.plot(row["step"], exponent, "x", color=COLORS[way])
                words = f" {row['overflows']} skipped"
                axes.annotate(words, (row["step"], exponent), color=COLORS[way], fontsize=8)
    axes.set(xlabel="steps", ylabel="loss scale, power of two")


def draw_memory(axes: Any, memory: Mapping[str, Any]) -> None:
    """Draw megabytes, stacked by what they are for."""
    names = list(memory)
    bottoms = [0.0] * len(names)
    for kind, color in HELD.items():
        heights = [memory[name]["bytes"][kind] / 1e6 for name in names]
        axes.bar(names, heights, 0.6, bottoms, color=color, label=kind.replace("_", " "))
        bottoms = [low + high for low, high in zip(bottoms, heights, strict=True)]
    axes.set(ylabel="megabytes, counted", ylim=(0, 1.35 * max(bottoms)))
    axes.legend(fontsize=8, ncols=2)


def settled(result: Result) -> list[Mapping[str, Any]]:
    """Return the rows after a tenth of the characters: before, there is little to compare."""
    rows = result["rows"]
    return [row for row in rows if row["characters"] > rows[-1]["characters"] / 10]


def curve(rows: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Return millions of characters and training's bits."""
    return [r["characters"] / 1e6 for r in rows], [r["train_bits_per_character"] for r in rows]
