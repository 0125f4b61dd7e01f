"""Draw when gradients are there and what each way to exchange them costs, from results/.

python -m experiments.exchange.plot
"""

from itertools import accumulate
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no display needed

import matplotlib.pyplot as plt

from configs import command
from model.files.storage import read_json

from .readiness import KINDS

HERE = Path(__file__).resolve().parent
COLORS = dict(zip(KINDS, ("#999999", "#2166ac", "#b2182b"), strict=True))


def main() -> None:
    readiness = read_json(HERE / "results" / "readiness.json")
    replay = read_json(HERE / "results" / "replay.json")
    figure, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for kind in KINDS:
        draw_moments(panels[0], kind, readiness[kind]["leaves"])
    draw_costs(panels[1], replay["rows"])
    figure.savefig(HERE / "exchange.png", dpi=150)
    plt.close(figure)


def draw_moments(axes: Any, kind: str, leaves: list[dict[str, Any]]) -> None:
    """Draw the part of the gradients' bytes that is there, over the backward pass."""
    moments = [0.0, *(leaf["ready"] for leaf in leaves)]
    parts = [0.0, *accumulate(leaf["part"] for leaf in leaves)]
    axes.step(moments, parts, where="post", color=COLORS[kind], label=kind)
    axes.set(xlabel="part of the backward pass", ylabel="part of the gradients that is ready")
    axes.legend()


def draw_costs(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw the exposed seconds of every way, a bar for each kind."""
    ways = list(dict.fromkeys(row["way"] for row in rows))
    height = 0.8 / len(KINDS)
    for number, kind in enumerate(KINDS):
        exposed = [row["exposed_seconds"] for row in rows if row["profile"] == kind]
        places = [index + number * height for index in range(len(ways))]
        axes.barh(places, exposed, height=height, color=COLORS[kind], label=kind)
    axes.set_yticks([index + height for index in range(len(ways))], ways)
    axes.invert_yaxis()
    axes.set(xlabel="seconds of a step that computing does not hide")


if __name__ == "__main__":
    command.run(main)
