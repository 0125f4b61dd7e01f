"""Draw the study and print its table, from results/.

python -m experiments.recipe.report
"""

from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no display needed

import matplotlib.pyplot as plt

from configs import command
from experiments.recipe.run import HERE, RESULTS, read_recipes
from model.storage import read_json


def main() -> None:
    results = [
        read_json(RESULTS / f"{name}.json")
        for name in read_recipes()
        if (RESULTS / f"{name}.json").exists()
    ]
    for characters in sorted({result["characters"] for result in results}):
        peers = [result for result in results if result["characters"] == characters]
        print(f"\n{characters / 1e6:.0f} million characters\n")
        print(table(peers))
    draw(results)


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as Markdown, best first, runs that failed last."""
    lines = ["| run | valid, bits per character | seconds, one core |", "|---|---:|---:|"]
    for result in sorted(results, key=lambda r: r["valid_bits_per_character"] or float("inf")):
        bits = result["valid_bits_per_character"]
        score = f"{bits:.4f}" if bits else "failed: " + " ".join(result["failure"])
        lines.append(f"| {result['name']} | {score} | {result['training_seconds']:.0f} |")
    return "\n".join(lines)


def draw(results: list[dict[str, Any]]) -> None:
    """Draw what each run learnt by characters and by seconds."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained", sharey=True)
    for result in results:
        rows = result["rows"]
        color = "#b2182b" if result["keys"]["optim.name"] != "muon" else "#2166ac"
        bits = [row["train_bits_per_character"] for row in rows]
        characters = [row["characters"] for row in rows]
        speed = result["training_seconds"] / max(characters, default=1)
        for axes, scale in zip(panels, (1e-6, speed), strict=True):
            axes.plot([c * scale for c in characters], bits, color=color, alpha=0.5, linewidth=1)
    panels[0].set(
        xlabel="million characters", ylabel="training bits per character", ylim=(1.6, 3.5)
    )
    panels[1].set(xlabel="seconds on one core", title="red: Adam, blue: Muon")
    figure.savefig(HERE / "curves.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    command.run(main)
