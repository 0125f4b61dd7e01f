"""Draw sizes.png from results/: every contender as a fraction of the floor, by H, B and T.

Prints the same as tables in Markdown.
"""

import json
import statistics
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent
CENTRE = (512, 128, 256)  # H, B, T
LSTM_SHARE = 0.8  # of the mLSTM's products
LINES = {
    "fused": ("ours", "#b2182b"),
    "fused_from_inputs": ("ours, inputs of a deeper layer", "#ef8a62"),
    "nn_lstm": ("torch.nn.LSTM, for equal operations", "#2166ac"),
    "reference": ("reference loop", "#777777"),
    "loop_2018": ("loop of 2018", "#bbbbbb"),
}
AXES = (("hidden_size", "units H"), ("batch", "lanes B"), ("window", "bytes T"))


def main() -> None:
    results = {
        path.stem: json.loads(path.read_text()) for path in (HERE / "results").glob("*.json")
    }
    training = ("sweep", "training_fp32")
    points = {sizes_of(r): r for name, r in results.items() if name.startswith(training)}
    draw(points)
    print_sweep(points)
    print_targets(results)


def sizes_of(result: dict[str, Any]) -> tuple[int, int, int]:
    """Return H, B, T."""
    return tuple(result["options"][key] for key, _ in AXES)


def of_the_floor(result: dict[str, Any], name: str) -> float | None:
    """Return a contender's speed over the floor's, round against round."""
    if name not in result["seconds"]:
        return None
    pairs = zip(result["seconds"]["gemm_floor"], result["seconds"][name], strict=True)
    share = LSTM_SHARE if name == "nn_lstm" else 1.0
    return share * statistics.median(floor / theirs for floor, theirs in pairs)


def along(points: dict[tuple[int, int, int], Any], axis: int) -> list[tuple[int, int, int]]:
    """Return the sizes that differ from the centre in one axis at most, sorted by it."""
    others = [index for index in range(3) if index != axis]
    line = [sizes for sizes in points if all(sizes[i] == CENTRE[i] for i in others)]
    if axis == 0:  # the largest model was measured on a shorter window
        line += [sizes for sizes in points if sizes[0] == 2048]
    return sorted(line, key=lambda sizes: sizes[axis])


def draw(points: dict[tuple[int, int, int], Any]) -> None:
    figure, panels = plt.subplots(1, 3, figsize=(10.0, 3.4), sharey=True, layout="constrained")
    for axis, (panel, (_, label)) in enumerate(zip(panels, AXES, strict=True)):
        line = along(points, axis)
        for name, (words, colour) in LINES.items():
            values = [(sizes[axis], of_the_floor(points[sizes], name)) for sizes in line]
            values = [(x, y) for x, y in values if y is not None]
            panel.plot(*zip(*values, strict=True), marker=".", color=colour, label=words)
        panel.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
        panel.set(xscale="log", xlabel=label, ylim=(0, None))
        panel.set_xticks([sizes[axis] for sizes in line], [str(sizes[axis]) for sizes in line])
        panel.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("speed over the floor's")
    panels[2].legend(fontsize=7)
    figure.suptitle(
        "Training, fp32, two CPU cores; around 512 units, 128 lanes, 256 bytes", fontsize=9
    )
    figure.savefig(HERE / "sizes.png", dpi=150)


def print_sweep(points: dict[tuple[int, int, int], Any]) -> None:
    print("| H | B | T | ours, characters/s | floor | from inputs | nn.LSTM | reference | 2018 |")
    print("|---:" * 9 + "|")
    for sizes in sorted(points):
        result = points[sizes]
        shares = [of_the_floor(result, name) for name in LINES]
        cells = [f"{result['chars_per_second']['fused']:,.0f}"]
        cells += ["-" if share is None else f"{share:.2f}" for share in shares]
        print("| " + " | ".join([*map(str, sizes), *cells]) + " |")


def print_targets(results: dict[str, Any]) -> None:
    print(
        "\n| measurement | ours, characters/s | ratios (lowest to highest round) |\n|---|---:|---|"
    )
    for name, result in sorted(results.items()):
        if not name.startswith("sweep"):
            speeds = result["chars_per_second"]
            speed = speeds.get("fused", speeds.get("step"))
            ratios = [
                f"{key} {value:.2f} ({low:.2f} to {high:.2f})"
                for key, value in result["ratios"].items()
                for low, high in [result["ratio_ranges"][key]]
            ]
            print(f"| {name} | {speed:,.0f} | {', '.join(ratios)} |")


if __name__ == "__main__":
    main()
