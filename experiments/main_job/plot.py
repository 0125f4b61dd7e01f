"""Draw learning_curve.png: bits per character by the characters that the run has read.

python -m experiments.main_job.plot
"""

from pathlib import Path

from experiments.figures import BLUE, open_frame, panels
from training.metrics import read_rows

HERE = Path(__file__).resolve().parent
MILLION = 1e6


def main() -> None:
    rows = list(read_rows(HERE / "results" / "metrics.jsonl"))
    evaluated = [row for row in rows if "valid_bits_per_character" in row]
    last = evaluated[-1]
    bits = last["valid_bits_per_character"]
    with panels(HERE / "learning_curve.png", size=(7.0, 3.6)) as (_, axes):
        for name, key, points, style in (
            ("train", "train_bits_per_character", rows, {"color": "#999999", "linewidth": 0.8}),
            ("valid", "valid_bits_per_character", evaluated, {"color": BLUE, "marker": "."}),
        ):
            characters = [row["characters"] / MILLION for row in points]
            axes.plot(characters, [row[key] for row in points], label=name, **style)
        place = (last["characters"] / MILLION, bits)
        axes.annotate(f"{bits:.3f}", place, textcoords="offset points", xytext=(0, 8))
        axes.set(
            xlabel="million characters seen",
            ylabel="bits per character",
            ylim=(bits - 0.2, 3.2),
            title="mLSTM on Amazon reviews, two CPU cores",
        )
        open_frame(axes)
        axes.legend()


if __name__ == "__main__":
    main()
