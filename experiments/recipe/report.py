"""Draw the study and print its table, from results/.

python -m experiments.recipe.report
"""

from collections.abc import Mapping
from statistics import mean, stdev
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: no display needed

import matplotlib.pyplot as plt

from configs import command
from experiments.recipe.run import HERE, RESULTS, read_recipes
from experiments.recipe.speed import BASE
from experiments.recipe.speed import RESULT as SPEED
from experiments.scaling.tables import markdown
from model.storage import read_json

SEED = "_seed_"  # in the name of a finalist's further runs


def main() -> None:
    results = [
        read_json(RESULTS / f"{name}.json")
        for name in read_recipes()
        if (RESULTS / f"{name}.json").exists()
    ]
    speeds = read_json(SPEED)["ratios"] if SPEED.exists() else {}
    print(table([result for result in results if SEED not in result["name"]], speeds))
    print()
    print(finalists(results))
    draw(results)


def table(results: list[dict[str, Any]], speeds: Mapping[str, Mapping[str, float]]) -> str:
    """Return the results as Markdown, best first, runs that failed last."""
    base = next((r["valid_bits_per_character"] for r in results if r["name"] == BASE), None)
    rows = []
    for result in sorted(results, key=lambda r: r["valid_bits_per_character"] or float("inf")):
        bits, speed = result["valid_bits_per_character"], speeds.get(result["name"])
        score = f"{bits:.4f}" if bits else "failed: " + " ".join(result["failure"])
        against = f"{bits - base:+.4f}" if bits and base else ""
        rows.append([result["name"], score, against, f"{speed['median']:.2f}" if speed else ""])
    return markdown(["run", "valid, bits per character", "against the base", "speed"], rows)


def finalists(results: list[dict[str, Any]]) -> str:
    """Return the runs of more than one seed: every score, mean and standard deviation."""
    by_name: dict[str, list[float]] = {}
    for result in results:
        name = result["name"].split(SEED)[0]
        by_name.setdefault(name, []).append(result["valid_bits_per_character"])
    rows = []
    for name, scores in by_name.items():
        if len(scores) > 1 and None not in scores:
            each = ", ".join(f"{bits:.4f}" for bits in scores)
            rows.append([name, each, f"{mean(scores):.4f}", f"{stdev(scores):.4f}"])
    return markdown(["run", "seeds 0, 1, 2", "mean", "standard deviation"], rows)


def draw(results: list[dict[str, Any]]) -> None:
    """Draw what each run learnt by characters and by seconds."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained", sharey=True)
    for result in results:
        rows = result["rows"]
        if SEED in result["name"]:
            continue
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
