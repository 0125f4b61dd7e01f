"""Draw calibration.png: how often each method is right, by the probability that it gives.

python -m experiments.default_model.plot
"""

from typing import Any

from matplotlib.axes import Axes

from configs import command
from experiments.default_model.tables import HERE, NAMES, SETS, results
from experiments.figures import panels

# The methods that give probabilities, and their colours.
SHOWN = {"stars_1024": "#b2182b", "stars_512": "#f4a582", "tfidf": "#2166ac"}
FEWEST = 0.005  # share of the texts that a point must stand for


def main() -> None:
    """Draw a reliability diagram for each test set, side by side."""
    measured = results()
    with panels(HERE / "calibration.png", len(SETS), size=(9.6, 3.6), sharey=True) as (_, row):
        for axes, (name, title) in zip(row, SETS.items(), strict=True):
            draw_set(axes, measured, name)
            axes.set(title=title, xlabel="probability of the label told")
        row[0].set_ylabel("share that is right")


def draw_set(axes: Axes, measured: dict[str, dict[str, Any]], name: str) -> None:
    """Draw the lines of one test set; on the diagonal, probabilities are correct."""
    axes.plot((0.5, 1), (0.5, 1), color="#cccccc", linewidth=1)
    for method, colour in SHOWN.items():
        found = measured[method]["sets"][name]
        bins = [row for row in found["reliability"] if row["share"] >= FEWEST]
        told = NAMES[method].replace("`", "").partition(",")[0]
        axes.plot(
            [row["confidence"] for row in bins],
            [row["right"] for row in bins],
            color=colour,
            marker=".",
            label=f"{told}: error {found['calibration_error']:.3f}",
        )
    axes.legend(fontsize=7, loc="lower right")
    axes.set(xlim=(0.48, 1.02), ylim=(0.1, 1.02))


if __name__ == "__main__":
    command.run_plain(main, __doc__)
