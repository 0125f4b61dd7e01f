"""Draw curve.png: bits per character and what is known of sentiment, by characters read.

python -m experiments.shipped.plot
"""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no display needed

import matplotlib.pyplot as plt

from configs import command
from model.files.storage import read_json
from training.metrics import read_rows

HERE = Path(__file__).resolve().parent
MILLION = 1e6
BLUE, RED, GREY = "#2166ac", "#b2182b", "#999999"


def main() -> None:
    draw(
        list(read_rows(HERE / "results" / "metrics.jsonl")),
        read_json(HERE / "results" / "curve.json")["points"],
        HERE / "curve.png",
    )


def draw(rows: list[dict[str, Any]], points: list[dict[str, Any]], path: Path) -> None:
    """Draw the rows of a run's metrics and the points of probe.py, one above the other."""
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(7.0, 5.4), layout="constrained", sharex=True
    )
    evaluated = [row for row in rows if "valid_bits_per_character" in row]
    above.plot(*series(rows, "train_bits_per_character"), color=GREY, linewidth=0.8, label="train")
    valid = series(evaluated, "valid_bits_per_character")
    above.plot(*valid, color=BLUE, marker=".", label="valid")
    above.set(ylabel="bits per character", ylim=(min(valid[1]) - 0.1, 2.4))
    for key, color, label in (
        ("val_accuracy", BLUE, "all units"),
        ("neuron_val_accuracy", RED, "best unit alone"),
    ):
        below.plot(*series(points, key), color=color, marker=".", label=label)
    below.set(xlabel="million characters read", ylabel="SST, accuracy on val")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def series(rows: list[dict[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """Return millions of characters, and what the rows hold under a key."""
    return [row["characters"] / MILLION for row in rows], [row[key] for row in rows]


if __name__ == "__main__":
    command.run(main)
