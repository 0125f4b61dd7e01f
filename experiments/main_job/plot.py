"""Draw learning_curve.png from results/metrics.jsonl: bits per character by characters seen."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent
MILLION = 1e6


def main() -> None:
    lines = (HERE / "results" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    evaluated = [row for row in rows if "valid_bits_per_character" in row]
    figure, axes = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
    for name, key, points, style in (
        ("train", "train_bits_per_character", rows, {"color": "#999999", "linewidth": 0.8}),
        ("valid", "valid_bits_per_character", evaluated, {"color": "#2166ac", "marker": "."}),
    ):
        characters = [row["characters"] / MILLION for row in points]
        axes.plot(characters, [row[key] for row in points], label=name, **style)
    last = evaluated[-1]
    axes.annotate(
        f"{last['valid_bits_per_character']:.3f}",
        (last["characters"] / MILLION, last["valid_bits_per_character"]),
        textcoords="offset points",
        xytext=(0, 8),
    )
    axes.set(
        xlabel="million characters seen",
        ylabel="bits per character",
        ylim=(last["valid_bits_per_character"] - 0.2, 3.2),
        title="mLSTM on Amazon reviews, two CPU cores",
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend()
    figure.savefig(HERE / "learning_curve.png", dpi=150)


if __name__ == "__main__":
    main()
