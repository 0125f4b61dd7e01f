"""The curve's tables and figures, from results/.

python -m experiments.curve.report
"""

from collections.abc import Mapping
from typing import Any

from configs import command
from experiments.figures import panels
from experiments.studies import HERE, POOLINGS, whole_results
from experiments.tables import accuracy, markdown, origins, percent, read_result

SHOWN = (0, 0.5, 1, 2, 4, 6, 9, 12, 15, 18, 25, 35, 50, 70)  # million characters of its lines
EARLY = (1, 2)  # million characters by which a part of the gain is told
TITLES = {"sst": "SST", "mr": "MR", "imdb": "IMDB"}
COLUMNS = {
    (name, pooling): f"{title}, {pooling}" for name, title in TITLES.items() for pooling in POOLINGS
}
BEST_UNIT = "SST, best unit on train"
LINEAR_BELOW = 1.0  # million characters; beyond, the axis is logarithmic
SIGNIFICANT = 3.0  # standard errors that a word's mean change must be away from zero


def read(name: str) -> dict[str, Any]:
    """Return the curve of a run, its points from the first to the last; NotMeasured if absent."""
    found = read_result("curve", name)
    return {**found, "points": sorted(found["points"], key=lambda point: point["characters"])}


def nearest(points: list[dict[str, Any]], million: float) -> dict[str, Any]:
    """Return the point that is nearest to so many million characters."""
    return min(points, key=lambda point: abs(point["characters"] / 1e6 - million))


def table(name: str) -> str:
    """Return some points: bits, accuracies, words, and how the unit correlates with its end."""
    curve = read(name)
    found = curve["points"]
    wanted = [nearest(found, million) for million in SHOWN]
    rows = [row(point, curve) for i, point in enumerate(wanted) if point not in wanted[:i]]
    head = [
        "million characters", "training, bits per character",
        *columns_of(found[0]).values(), f"{BEST_UNIT} (its number)",
        *(["SST, largest areas of units"] if "selectivity" in found[0] else []),
        "likeness of the unit of the end", "nearest unit, likeness",
        f"of {len(curve['words'])} words right, wrong",
    ]  # fmt: skip
    return f"{markdown(head, rows)}\n\n{origins({f'{name}.json': curve})}"


def row(point: dict[str, Any], curve: Mapping[str, Any]) -> list[str]:
    """Return a point's line."""
    followed, best = point["followed"], point["sets"]["sst"]["mean"]["best_unit"]
    bits = point.get("train_bits_per_character")
    areas = point["selectivity"]["sst"]["areas"] if "selectivity" in point else []
    return [
        f"{point['characters'] / 1e6:.1f}",
        "" if bits is None else f"{bits:.3f}",
        *(percent(cell_of(point, column)["test_accuracy"]) for column in columns_of(point)),
        f"{percent(best['test_accuracy'])} ({best['index']})",
        *([", ".join(f"{area:.3f}" for area in areas)] if areas else []),
        f"{followed['correlation']:.2f}",
        f"{followed['nearest_unit']}, {followed['nearest_correlation']:.2f}",
        ", ".join(str(len(moved)) for moved in moved_words(point, curve)),
    ]


def words(name: str) -> str:
    """Return the words that move the followed unit the right and the wrong way, first and last."""
    curve = read(name)
    rows = [
        [f"{point['characters'] / 1e6:.1f}", *map(", ".join, moved_words(point, curve))]
        for point in (curve["points"][0], curve["points"][-1])
    ]
    return markdown(["million characters", "right", "wrong"], rows)


def moved_words(point: Mapping[str, Any], curve: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the words that move the followed unit, those that move it the right way first."""
    ways: dict[bool, list[str]] = {True: [], False: []}
    for word, odds in curve["words"].items():
        change = point["words"][word]
        if change["error"] and abs(change["mean"]) > SIGNIFICANT * change["error"]:
            ways[change["mean"] * odds * curve["polarity"] > 0].append(f"`{word}`")
    return ways[True], ways[False]


def gains(name: str) -> str:
    """Return what reading adds to each accuracy of the untrained model, and how early."""
    found = read(name)["points"]
    rows = [[title, *gain(found, key)] for key, title in columns_of(found[0]).items()]
    parts = [f"of the gain by {million} million, per cent" for million in EARLY]
    head = ["", "untrained", "at the end", *parts, "apart from untrained from, million characters"]
    return markdown(head, rows)


def gain(found: list[dict[str, Any]], column: tuple[str, str]) -> list[str]:
    """Return an accuracy at first and at last, and how its gain is spread over the points.

    It is apart from a point on if from there on no interval overlaps with the first one.
    """
    cells = [cell_of(point, column) for point in found]
    first, last = cells[0], cells[-1]
    whole, early = (
        [cell_of(point, column)["test_accuracy"] - first["test_accuracy"] for point in points]
        for points in (found[-1:], [nearest(found, million) for million in EARLY])
    )
    parts = [f"{100 * part / whole[0]:.0f}" if whole[0] else "-" for part in early]
    high = first["test_interval"][1]
    overlaps = [place for place, cell in enumerate(cells) if cell["test_interval"][0] <= high]
    apart = [f"{point['characters'] / 1e6:.1f}" for point in found[overlaps[-1] + 1 :]]
    return [accuracy(first), accuracy(last), *parts, *(apart or "-")[:1]]


def columns_of(point: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return the columns of accuracies that a point has, by set and pooling, with their titles."""
    return {key: title for key, title in COLUMNS.items() if key[1] in point["sets"].get(key[0], {})}


def cell_of(point: Mapping[str, Any], column: tuple[str, str]) -> Mapping[str, Any]:
    """Return a point's accuracy by all units of a set and a way of pooling."""
    cell: Mapping[str, Any] = point["sets"][column[0]][column[1]]["all_units"]
    return cell


def main() -> None:
    for name in whole_results("curve"):
        draw(name)


def draw(name: str) -> None:
    """Draw accuracies by characters, and the followed unit's correlation with its end."""
    found = read(name)["points"]
    million = [point["characters"] / 1e6 for point in found]
    curves = {
        title: [cell_of(point, column) for point in found]
        for column, title in columns_of(found[0]).items()
    }
    curves[BEST_UNIT] = [point["sets"]["sst"]["mean"]["best_unit"] for point in found]
    path = HERE / "curve" / f"{name}.png"
    with panels(path, 2, size=(10, 4.2), grid=True) as (_, (left, right)):
        for title, cells in curves.items():
            values = [100 * cell["test_accuracy"] for cell in cells]
            left.plot(million, values, label=title, linewidth=1.2)
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
        left.set(ylim=(48, 80))  # room for the legend


if __name__ == "__main__":
    command.run_plain(main, __doc__)
