"""Draw learning, the differences from fp32, the loss scale and memory."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.figures import BLUE, GREEN, RED, draw_grid, open_frame, panels
from training.precision import FIRST_SCALE

from .runs import Result

COLORS = {
    "fp32": "#000000",
    "fp32, seed 1": "#999999",
    "fp32, seed 2": "#cccccc",
    "fp32, plain torch": GREEN,
    "fp16": RED,
    "fp16, scale from 2^32": "#ef8a62",
    "bf16": BLUE,
}
YARDSTICK = "fp32"
HELD = {
    "weights": BLUE,
    "weights_as_multiplied": "#92c5de",
    "gradients": RED,
    "optimizer": "#f4a582",
    "activations": "#bbbbbb",
}


def draw(path: Path, study: Mapping[str, Any]) -> None:
    """Draw all four panels."""
    results = {result["way"]: result for result in study["runs"]}
    with panels(path, 2, 2, size=(10, 7)) as (_, places):
        draw_learning(places[0, 0], results)
        draw_differences(places[0, 1], results)
        draw_scale(places[1, 0], results)
        draw_memory(places[1, 1], study["memory"])
        draw_grid(*places.flat)
        open_frame(*places.flat)
        for axes in places.flat:
            axes.set_axisbelow(True)


def draw_learning(axes: Any, results: Mapping[str, Result]) -> None:
    """Draw the bits in training by characters; in Puri et al.'s figure the curves coincide."""
    for way, result in results.items():
        axes.plot(*curve(result["rows"]), color=COLORS[way], linewidth=1.1, label=way)
    late = [bits for result in results.values() for bits in curve(settled(result))[1]]
    axes.set(xlabel="million characters", ylabel="training bits per character")
    if late:
        axes.set_ylim(top=max(late))
        axes.legend(fontsize=8)


def draw_differences(axes: Any, results: Mapping[str, Result]) -> None:
    """Draw the bits of each run minus those of fp32, without the first tenth."""
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
    """Draw the loss scale by steps; a mark names the steps skipped since the last mark."""
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
    """Draw megabytes, stacked by their purpose."""
    names = list(memory)
    bottoms = [0.0] * len(names)
    for kind, color in HELD.items():
        heights = [memory[name]["bytes"][kind] / 1e6 for name in names]
        axes.bar(names, heights, 0.6, bottoms, color=color, label=kind.replace("_", " "))
        bottoms = [low + high for low, high in zip(bottoms, heights, strict=True)]
    axes.set(ylabel="megabytes, counted", ylim=(0, 1.35 * max(bottoms)))
    axes.legend(fontsize=8, ncols=2)


def settled(result: Result) -> list[Mapping[str, Any]]:
    """Return the rows after the first tenth of the characters, in which bits fall fast."""
    rows = result["rows"]
    return [row for row in rows if row["characters"] > rows[-1]["characters"] / 10]


def curve(rows: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Return millions of characters and bits in training."""
    return [r["characters"] / 1e6 for r in rows], [r["train_bits_per_character"] for r in rows]
