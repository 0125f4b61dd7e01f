"""Draw curve.png: bits per character and accuracy on SST, by the characters read.

python -m experiments.shipped.plot
"""

from pathlib import Path
from typing import Any

from configs import command
from experiments.figures import BLUE, RED, open_frame, panels
from model.files.storage import read_json
from training.metrics import read_rows

HERE = Path(__file__).resolve().parent
MILLION = 1e6
GREY = "#999999"


def main() -> None:
    draw(
        list(read_rows(HERE / "results" / "metrics.jsonl")),
        read_json(HERE / "results" / "curve.json")["points"],
        HERE / "curve.png",
    )


def draw(rows: list[dict[str, Any]], points: list[dict[str, Any]], path: Path) -> None:
    """Draw the metrics of a run above the points of probe.py."""
    with panels(path, 2, 1, size=(7.0, 5.4), sharex=True) as (_, (above, below)):
        draw_bits(above, rows)
        draw_accuracy(below, points)
        open_frame(above, below)
        for axes in (above, below):
            axes.legend()


def draw_bits(above: Any, rows: list[dict[str, Any]]) -> None:
    """Draw bits per character in training and on the valid split."""
    evaluated = [row for row in rows if "valid_bits_per_character" in row]
    above.plot(*series(rows, "train_bits_per_character"), color=GREY, linewidth=0.8, label="train")
    valid = series(evaluated, "valid_bits_per_character")
    above.plot(*valid, color=BLUE, marker=".", label="valid")
    above.set(ylabel="bits per character", ylim=(min(valid[1]) - 0.1, 2.4))


def draw_accuracy(below: Any, points: list[dict[str, Any]]) -> None:
    """Draw accuracies on SST's validation set."""
    for key, color, label in (
        ("val_accuracy", BLUE, "all units"),
        ("neuron_val_accuracy", RED, "best unit alone"),
    ):
        below.plot(*series(points, key), color=color, marker=".", label=label)
    below.set(xlabel="million characters read", ylabel="SST, accuracy on val")


def series(rows: list[dict[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """Return millions of characters, and the values of a key."""
    return [row["characters"] / MILLION for row in rows], [row[key] for row in rows]


if __name__ == "__main__":
    command.run(main)
