"""Draw the race and print its table.

python -m experiments.time_to_target.report
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configs import command
from experiments.figures import panels
from experiments.tables import markdown, origins
from experiments.time_to_target.run import HERE, RECIPES, RESULTS
from model.files.storage import read_json

HEADER = [
    "recipe",
    "valid, bits per character",
    "characters",
    "times fewer",
    "seconds",
    "times less",
]
COLORS = {
    "published": "black",
    "adam_1e-2": "#fdae61",
    "adam_2e-2": "#f46d43",
    "adam_4e-2": "#a50026",
    "ours": "#2166ac",
}


def main() -> None:
    print(shown())
    draw(RESULTS, HERE / "race.png")


def shown(folder: Path = RESULTS) -> str:
    """Return the table of the race, and the revisions of its runs."""
    summary = read_json(folder / "summary.json")
    runs = {path.name: read_json(path) for path in sorted(folder.glob("*_*.json"))}
    return f"{table(summary)}\n\n{origins(runs)}"


def table(summary: Mapping[str, Any]) -> str:
    """Return the table in Markdown, with a row for each recipe."""
    rows = [[name, *cells(row)] for name, row in summary.items() if name != "target"]
    return markdown(HEADER, rows)


def cells(row: Mapping[str, float] | None) -> list[str]:
    """Return the cells of a recipe's row, without its name."""
    if row is None:
        return ["never as low", "", "", "", ""]
    return [
        f"{row['valid_bits_per_character']:.4f}",
        f"{row['characters']:,}",
        f"{row['times_fewer_characters']:.1f}",
        f"{row['seconds']:,.0f}",
        f"{row['times_less_time']:.1f}",
    ]


def rungs(folder: Path, name: str) -> list[tuple[float, float]]:
    """Return the seconds and the bits per character of every finished run of a recipe."""
    results = [read_json(path) for path in folder.glob(f"{name}*.json")]
    return sorted(
        (result["training_seconds"], result["valid_bits_per_character"])
        for result in results
        if result["valid_bits_per_character"] is not None
    )


def draw(folder: Path, path: Path) -> None:
    """Draw the final bits of every run by its seconds, a line for each recipe, and the target."""
    target = read_json(folder / "summary.json")["target"]
    with panels(path, size=(7, 4.5)) as (_, axes):
        for name in ("published", *RECIPES["challengers"]):
            if points := rungs(folder, name):
                axes.plot(*zip(*points, strict=True), marker="o", color=COLORS[name], label=name)
        axes.axhline(target, color="black", linewidth=0.8, linestyle="--")
        axes.set(
            xscale="log",
            ylim=(target - 0.5, target + 2.5),
            xlabel="seconds of training, two cores: a run each",
            ylabel="valid bits per character at its end",
        )
        axes.legend()


if __name__ == "__main__":
    command.run(main)
