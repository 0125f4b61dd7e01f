"""Draw how often the shipped models' labels are right, by their probability.

python -m experiments.default_model.calibration
"""

import matplotlib as mpl
from matplotlib.figure import Figure

from configs import command
from experiments.default_model.tables import HERE, SETS
from experiments.results import read_result
from transfer.plots import BLUE, GREY, ORANGE, STYLE, save_png

MODELS = {"stars_1024": BLUE, "stars_512": ORANGE}
FEWEST = 0.01  # of a set's texts in a bin that is drawn


def main() -> None:
    save_png(draw(), HERE / "calibration.png")


@mpl.rc_context(STYLE)
def draw() -> Figure:
    """Return a panel for each test set: how often labels are right, over their probability."""
    figure = Figure(figsize=(10, 2.9), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, len(SETS)), SETS.items(), strict=True):
        axes.plot([0.5, 1], [0.5, 1], color=GREY, linewidth=1)
        for model, color in MODELS.items():
            bins = read_result("default_model", model)["sets"][name]["reliability"]
            shown = [row for row in bins if row["share"] >= FEWEST]
            confidence, right = ([row[key] for row in shown] for key in ("confidence", "right"))
            axes.plot(confidence, right, "o-", color=color, markersize=3, label=model)
        axes.set(title=title, xlabel="probability of the label", xlim=(0.5, 1), ylim=(0.4, 1.02))
    figure.axes[0].set_ylabel("part that is right")
    figure.axes[0].legend(frameon=False, fontsize=7)
    return figure


if __name__ == "__main__":
    command.run_plain(main, __doc__)
