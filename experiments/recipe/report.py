"""Draw the study and print its tables.

python -m experiments.recipe.report
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from configs import command
from experiments.figures import BLUE, RED, panels
from experiments.recipe.run import HERE, RESULTS, read_recipes
from experiments.recipe.speed import BASE
from experiments.recipe.speed import RESULT as SPEED
from experiments.tables import markdown, origins
from model.errors import InputError
from model.files.storage import read_json

SEED = "_seed_"  # precedes the seed in the names of a finalist's further runs
STUDIES = ("first_corpus", ".")  # folders of results; each used one corpus


def main() -> None:
    for folder in STUDIES:
        print(f"\n{folder}\n\n{shown(folder)}")
    draw({folder: found(RESULTS / folder) for folder in STUDIES})


def shown(folder: str) -> str:
    """Return the tables of one corpus: each run with its first seed, then the finalists' seeds."""
    results = found(RESULTS / folder)
    speeds = read_json(SPEED)["ratios"] if SPEED.exists() else {}
    first_seeds = [result for result in results if SEED not in result["name"]]
    revisions = origins({f"{result['name']}.json": result for result in results})
    return "\n\n".join(filter(None, (table(first_seeds, speeds), finalists(results), revisions)))


def thin_windows() -> str:
    """Return the score with and without lowering the rate where few lanes still have text."""
    found = {
        name: read_json(RESULTS / "thin_windows" / f"{name}.json") for name in ("before", "after")
    }
    rows = [[name, f"{result['valid_bits_per_character']:.4f}"] for name, result in found.items()]
    head = ["a part of the corpus read often", "valid, bits per character"]
    return f"{markdown(head, rows)}\n\n{origins({f'{n}.json': r for n, r in found.items()})}"


def found(folder: Path) -> list[dict[str, Any]]:
    """Return the results of a folder in the order of runs.toml.

    Raises InputError where they used different corpora.
    """
    paths = [folder / f"{name}.json" for name in read_recipes()]
    results = [read_json(path) for path in paths if path.exists()]
    if len({result.get("fingerprint") for result in results}) > 1:
        raise InputError(f"{folder}: runs on different corpora do not compare; train them again")
    return results


def table(results: list[dict[str, Any]], speeds: Mapping[str, Mapping[str, float]]) -> str:
    """Return the results in Markdown, the best first, failed runs last."""
    base = next((r["valid_bits_per_character"] for r in results if r["name"] == BASE), None)
    rows = []
    for result in sorted(results, key=lambda r: r["valid_bits_per_character"] or float("inf")):
        bits, speed = result["valid_bits_per_character"], speeds.get(result["name"])
        score = f"{bits:.4f}" if bits else "failed: " + " ".join(result["failure"])
        against = f"{bits - base:+.4f}" if bits and base else ""
        cost = f"{speed['median']:.2f}" if speed else ""
        rows.append([f"`{result['name']}`", changes(result), score, against, cost])
    head = ["run", "changes of the base", "valid, bits per character", "against it", "its speed"]
    return markdown(head, rows)


def changes(result: Mapping[str, Any]) -> str:
    """Return the keys in which a run differs from the base, and its corpus if it has its own."""
    base = read_recipes()[BASE].keys
    keys = {key: value for key, value in result["keys"].items() if base.get(key) != value}
    words = [f"{key.partition('.')[2]} {value}" for key, value in keys.items()]
    if corpus := result.get("corpus"):
        words.append(f"corpus `{corpus}`")
    return ", ".join(words)


def finalists(results: list[dict[str, Any]]) -> str:
    """Return the scores, the mean and the standard deviation of runs with several seeds."""
    by_name: dict[str, list[float]] = {}
    for result in results:
        name = result["name"].split(SEED)[0]
        by_name.setdefault(name, []).append(result["valid_bits_per_character"])
    rows = []
    for name, scores in by_name.items():
        if len(scores) > 1 and None not in scores:
            each = ", ".join(f"{bits:.4f}" for bits in scores)
            rows.append([name, each, f"{mean(scores):.4f}", f"{stdev(scores):.4f}"])
    return markdown(["run", "seeds", "mean", "standard deviation"], rows) if rows else ""


def draw(studies: Mapping[str, list[dict[str, Any]]]) -> None:
    """Draw bits per character in training by the characters read, a panel for each corpus."""
    names = ("first corpus", "second corpus")
    with panels(HERE / "curves.png", 1, 2, size=(10, 4.5), sharey=True) as (_, row):
        for axes, corpus, results in zip(row, names, studies.values(), strict=True):
            draw_runs(axes, results)
            axes.set(title=f"{corpus} (red: Adam, blue: Muon)", xlabel="million characters")
        row[0].set(ylabel="training bits per character", ylim=(1.6, 3.5))


def draw_runs(axes: Any, results: list[dict[str, Any]]) -> None:
    """Draw the runs that read the whole corpus in its order."""
    for result in results:
        if not result.get("corpus"):
            color = BLUE if result["keys"]["optim.name"] == "muon" else RED
            bits = [row["train_bits_per_character"] for row in result["rows"]]
            million = [row["characters"] / 1e6 for row in result["rows"]]
            axes.plot(million, bits, color=color, alpha=0.5, linewidth=1)


if __name__ == "__main__":
    command.run(main)
