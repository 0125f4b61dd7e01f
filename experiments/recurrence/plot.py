"""Draw sizes.png: the speed of every contender over that of the floor, by H, B and T.

python -m experiments.recurrence.plot
"""

import statistics
from typing import Any

from configs import command
from experiments.figures import panels
from experiments.tables import EXPERIMENTS, read_result

FOLDER = EXPERIMENTS / "recurrence"
CENTRE = (512, 128, 256)  # H, B, T
LSTM_SHARE = 0.8  # an LSTM's products over those of an mLSTM
LINES = {
    "fused": ("ours", "#b2182b"),
    "fused_from_inputs": ("ours, inputs of a deeper layer", "#ef8a62"),
    "nn_lstm": ("torch.nn.LSTM, for equal operations", "#2166ac"),
    "reference": ("reference loop", "#777777"),
    "loop_2018": ("loop of 2018", "#bbbbbb"),
}
AXES = (("hidden_size", "units H"), ("batch", "lanes B"), ("window", "bytes T"))


def measured(name: str) -> dict[str, Any]:
    """Read a result of run.py."""
    return read_result("recurrence", name)


def points() -> dict[tuple[int, int, int], Any]:
    """Read the measurements of training in fp32, by H, B and T."""
    paths = (FOLDER / "results").glob("*.json")
    names = [path.stem for path in paths if path.stem.startswith(("sweep", "training_fp32"))]
    results = map(measured, names)
    return {tuple(result["options"][key] for key, _ in AXES): result for result in results}


def of_the_floor(result: dict[str, Any], name: str) -> float | None:
    """Return the speed of a contender over that of the floor: the median over rounds."""
    if name not in result["seconds"]:
        return None
    pairs = zip(result["seconds"]["gemm_floor"], result["seconds"][name], strict=True)
    share = LSTM_SHARE if name == "nn_lstm" else 1.0
    return share * statistics.median(floor / theirs for floor, theirs in pairs)


def along(points: dict[tuple[int, int, int], Any], axis: int) -> list[tuple[int, int, int]]:
    """Return the measured sizes that differ from the centre in one axis only, sorted by it."""
    others = [index for index in range(3) if index != axis]
    line = [sizes for sizes in points if all(sizes[i] == CENTRE[i] for i in others)]
    if axis == 0:  # the largest model was measured with a shorter window
        line += [sizes for sizes in points if sizes[0] == 2048]
    return sorted(line, key=lambda sizes: sizes[axis])


def main() -> None:
    """Draw one panel for each of H, B and T."""
    found = points()
    with panels(FOLDER / "sizes.png", 3, size=(10.0, 3.4), sharey=True) as (figure, row):
        for axis, (panel, (_, label)) in enumerate(zip(row, AXES, strict=True)):
            draw_axis(panel, found, axis, label)
        row[0].set_ylabel("speed over the floor's")
        row[0].set_ylim(bottom=0)
        row[2].legend(fontsize=7)
        figure.suptitle(
            "Training, fp32, two CPU cores; around 512 units, 128 lanes, 256 bytes", fontsize=9
        )


def draw_axis(panel: Any, points: dict[tuple[int, int, int], Any], axis: int, label: str) -> None:
    """Draw a line for every contender along one axis of the sizes."""
    line = along(points, axis)
    for name, (words, colour) in LINES.items():
        values = [(sizes[axis], of_the_floor(points[sizes], name)) for sizes in line]
        values = [(x, y) for x, y in values if y is not None]
        panel.plot(*zip(*values, strict=True), marker=".", color=colour, label=words)
    panel.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
    panel.set(xscale="log", xlabel=label)
    panel.set_xticks([sizes[axis] for sizes in line], [str(sizes[axis]) for sizes in line])
    panel.minorticks_off()


if __name__ == "__main__":
    command.run_plain(main, __doc__)
