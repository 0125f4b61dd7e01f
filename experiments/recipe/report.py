"""Draw the study and print its table, from results/.

python -m experiments.recipe.report
"""

from collections.abc import Mapping
from pathlib import Path
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
from model.errors import InputError
from model.storage import read_json

SEED = "_seed_"  # in the name of a finalist's further runs


def main() -> None:
    speeds = read_json(SPEED)["ratios"] if SPEED.exists() else {}
    studies = {"first corpus": found(RESULTS / "first_corpus"), "second corpus": found(RESULTS)}
    for corpus, results in studies.items():
        print(f"\n{corpus}\n")
        print(table([result for result in results if SEED not in result["name"]], speeds))
        print()
        print(finalists(results))
    draw(studies)


def found(folder: Path) -> list[dict[str, Any]]:
    """Return the results of a folder in the order of runs.toml: of one corpus, or InputError."""
    paths = [folder / f"{name}.json" for name in read_recipes()]
    results = [read_json(path) for path in paths if path.exists()]
    if len({result.get("fingerprint") for result in results}) > 1:
        raise InputError(f"{folder}: runs on different corpora do not compare; make them anew")
    return results


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
    return markdown(["run", "seeds", "mean", "standard deviation"], rows)


def draw(studies: Mapping[str, list[dict[str, Any]]]) -> None:
    """Draw what each run learnt by characters, a panel for each corpus."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained", sharey=True)
    for axes, (corpus, results) in zip(panels, studies.items(), strict=True):
        for result in results:
            if not result.get("corpus"):  # of all reviews, shuffled
                color = "#2166ac" if result["keys"]["optim.name"] == "muon" else "#b2182b"
                bits = [row["train_bits_per_character"] for row in result["rows"]]
                million = [row["characters"] / 1e6 for row in result["rows"]]
                axes.plot(million, bits, color=color, alpha=0.5, linewidth=1)
        axes.set(title=f"{corpus} (red: Adam, blue: Muon)", xlabel="million characters")
    panels[0].set(ylabel="training bits per character", ylim=(1.6, 3.5))
    figure.savefig(HERE / "curves.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    command.run(main)
