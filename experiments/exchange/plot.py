"""Draw when gradients are ready, and what each way to exchange them costs.

python -m experiments.exchange.plot
"""

from itertools import accumulate
from pathlib import Path
from typing import Any

from configs import command
from experiments.figures import BLUE, RED, panels
from model.files.storage import read_json

from .readiness import KINDS

HERE = Path(__file__).resolve().parent
COLORS = dict(zip(KINDS, ("#999999", BLUE, RED), strict=True))


def main() -> None:
    readiness = read_json(HERE / "results" / "readiness.json")
    replay = read_json(HERE / "results" / "replay.json")
    with panels(HERE / "exchange.png", 1, 2, size=(10, 4)) as (_, (left, right)):
        for kind in KINDS:
            draw_moments(left, kind, readiness[kind]["leaves"])
        draw_costs(right, replay["rows"])


def draw_moments(axes: Any, kind: str, leaves: list[dict[str, Any]]) -> None:
    """Draw the part of the gradients' bytes that is ready during the backward pass."""
    moments = [0.0, *(leaf["ready"] for leaf in leaves)]
    parts = [0.0, *accumulate(leaf["part"] for leaf in leaves)]
    axes.step(moments, parts, where="post", color=COLORS[kind], label=kind)
    axes.set(xlabel="part of the backward pass", ylabel="part of the gradients that is ready")
    axes.legend()


def draw_costs(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw the exposed seconds of every way, with a bar for each kind of gradients."""
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
