"""The curve's tables and figure, from results/.

python -m experiments.curve.report
"""

from collections.abc import Iterator
from typing import Any

from configs import command
from experiments.figures import panels
from experiments.studies import HERE
from experiments.tables import NOT_YET, markdown, origins, percent
from model.files.storage import read_json

FOLDER = HERE / "curve"
RESULTS = FOLDER / "results"
SHOWN = (0, 0.5, 1, 2, 4, 6, 9, 12, 15, 18, 25, 35, 50, 70)  # million characters of its lines
COLUMNS = {
    ("sst", "last"): "SST, last",
    ("sst", "mean"): "SST, mean",
    ("mr", "mean"): "MR, mean",
    ("imdb", "mean"): "IMDB, mean",
}
LINEAR_BELOW = 1.0  # million characters; beyond, the axis is logarithmic
SIGNIFICANT = 3.0  # standard errors that a word's mean change must be away from zero
TITLES = {"sst": "SST", "mr": "MR, a part", "imdb": "IMDB, a part"}


def main() -> None:
    for path in sorted(RESULTS.glob("*.json")):
        print(table(path.stem), words(path.stem), sep="\n\n")
        draw(path.stem)


def points(name: str) -> list[dict[str, Any]]:
    """Return the points of a run, the earliest first; none if it has no result."""
    path = RESULTS / f"{name}.json"
    found = read_json(path)["points"] if path.is_file() else []
    return sorted(found, key=lambda point: point["characters"])


def table(name: str) -> str:
    """Return some points: bits, accuracies, and how the followed unit correlates with its end."""
    found = points(name)
    if not found:
        return NOT_YET
    wanted = [min(found, key=lambda p: abs(p["characters"] / 1e6 - million)) for million in SHOWN]
    rows = [row(point) for i, point in enumerate(wanted) if point not in wanted[:i]]
    head = [
        "million characters", "training, bits per character",
        *(title for (name, _), title in COLUMNS.items() if name in found[0]["sets"]),
        "SST, best unit on train", "its number",
        *(["SST, largest areas of units"] if "selectivity" in found[0] else []),
        "likeness of the unit of the end", "nearest unit, likeness",
    ]  # fmt: skip
    made = {f"{name}.json": read_json(RESULTS / f"{name}.json")}
    return f"{markdown(head, rows)}\n\n{origins(made)}"


def row(point: dict[str, Any]) -> list[str]:
    """Return a point's line."""
    sets, followed = point["sets"], point["followed"]
    best = sets["sst"]["mean"]["best_unit"]
    bits = point.get("train_bits_per_character")
    areas = point["selectivity"]["sst"]["areas"] if "selectivity" in point else []
    return [
        f"{point['characters'] / 1e6:.1f}",
        "" if bits is None else f"{bits:.3f}",
        *(
            percent(sets[name][pooling]["all_units"]["test_accuracy"])
            for name, pooling in COLUMNS
            if name in sets
        ),
        percent(best["test_accuracy"]),
        str(best["index"]),
        *([", ".join(f"{area:.3f}" for area in areas)] if areas else []),
        f"{followed['correlation']:.2f}",
        f"{followed['nearest_unit']}, {followed['nearest_correlation']:.2f}",
    ]


def words(name: str) -> str:
    """Return when each word began to move the followed unit the right way, and kept doing so."""
    told = points(name)
    if not told:
        return NOT_YET
    found = read_json(RESULTS / f"{name}.json")
    begun = {
        word: when(told, word, odds * found["polarity"]) for word, odds in found["words"].items()
    }
    learnt = sorted((at, word) for word, at in begun.items() if at is not None)
    counts = {word: change["count"] for word, change in told[-1]["words"].items()}
    never = [f"`{word}`" for word, at in begun.items() if at is None and counts[word] > 1]
    rare = [f"`{word}`" for word, count in counts.items() if count < 2]
    rows = [[f"{at / 1e6:.1f}", ", ".join(f"`{w}`" for a, w in learnt if a == at)]
            for at in sorted({at for at, _ in learnt})]  # fmt: skip
    ends = f"Not by the end: {', '.join(never) or 'none'}."
    ends += f" Not measured: {', '.join(rare)}." * bool(rare)
    return f"{markdown(['million characters', 'words'], rows)}\n\n{ends}"


def when(told: list[dict[str, Any]], word: str, direction: float) -> int | None:
    """Return the characters from which on a word moves the unit in its direction; None if never."""
    since = None
    for point in told:
        change = point["words"][word]
        moves = change["error"] and change["mean"] * direction > 0 and (
            abs(change["mean"]) > SIGNIFICANT * change["error"]
        )  # fmt: skip
        if not moves:
            since = None
        elif since is None:
            since = int(point["characters"])
    return since


def draw(name: str) -> None:
    """Draw accuracies by characters, and the followed unit's correlation with its end."""
    found = points(name)
    million = [point["characters"] / 1e6 for point in found]
    with panels(FOLDER / f"{name}.png", 2, size=(10, 4.2), grid=True) as (_, (left, right)):
        for label, values in curves(found):
            left.plot(million, values, label=label, linewidth=1.2)
        left.set(ylabel="test accuracy, per cent")
        left.legend(frameon=False, fontsize=8)
        for key, label in (("correlation", "the same unit"), ("nearest_correlation", "nearest")):
            right.plot(million, [point["followed"][key] for point in found], label=label)
        right.set(ylabel="correlation with the unit of the end")
        right.legend(frameon=False, fontsize=8, loc="lower right")
        for axes in (left, right):
            axes.set_xscale("symlog", linthresh=LINEAR_BELOW)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set(xlabel="million characters read")


def curves(found: list[dict[str, Any]]) -> Iterator[tuple[str, list[float]]]:
    """Yield the curves of accuracy with their labels."""
    for name in found[0]["sets"]:
        for pooling in found[0]["sets"][name]:
            cells = [point["sets"][name][pooling]["all_units"] for point in found]
            yield (
                f"{TITLES[name]}, {pooling} state",
                [100 * cell["test_accuracy"] for cell in cells],
            )
    units = [point["sets"]["sst"]["mean"]["best_unit"] for point in found]
    yield "SST, best unit on train", [100 * cell["test_accuracy"] for cell in units]


if __name__ == "__main__":
    command.run(main)
