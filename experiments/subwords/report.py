"""The tables and the figure of subwords against bytes, from results/ and the long run of bytes.

python -m experiments.subwords.report
"""

from pathlib import Path
from typing import Any

from configs import command
from experiments.figures import BLUE, RED, draw_grid, open_frame, panels
from experiments.tables import NOT_YET, accuracy, markdown, origins, percent
from model.files.storage import read_json
from training.metrics import read_rows

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
EXPERIMENTS = HERE.parent
REPRODUCTION = EXPERIMENTS / "reproduction" / "results"
CURVES = {
    "subwords": RESULTS / "curve.jsonl",
    "bytes": EXPERIMENTS / "shipped" / "results" / "continued.jsonl",
}
COLOURS = {"subwords": RED, "bytes": BLUE}
# The weights that were held against the test sets: their results of bits, and of SST.
MEASURED = {
    "subwords": (RESULTS / "bits.json", REPRODUCTION / "amazon_subword_1024"),
    "bytes, as shipped": (
        EXPERIMENTS / "shipped" / "results" / "bits_amazon_1024.json",
        REPRODUCTION / "amazon_1024",
    ),
    "bytes, the longest run": (
        EXPERIMENTS / "shipped" / "results" / "bits_continued_again.json",
        REPRODUCTION / "amazon_1024_continued_again",
    ),
}
MILLION = 1e6
EVERY = 8e6  # characters from one line of the table to the next


def main() -> None:
    print(table(), on_test(), sep="\n\n")
    draw()


def table() -> str:
    """Return points of both runs, by the characters they had read."""
    if not CURVES["subwords"].is_file():
        return NOT_YET
    most = read_rows(CURVES["subwords"])[-1]["characters"]
    points = [
        (row["characters"], name, row)
        for name in CURVES
        for row in thinned(read_rows(CURVES[name]))
        if row["characters"] <= most
    ]
    head = [
        "million characters", "symbols", "learning rate", "valid, bits per character",
        "SST val, all units", "SST val, one unit",
    ]  # fmt: skip
    return markdown(head, [line(name, row) for _, name, row in sorted(points, key=lambda p: p[:2])])


def thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last point in each stretch of EVERY characters."""
    return list({int(row["characters"] // EVERY): row for row in rows}.values())


def line(name: str, row: dict[str, Any]) -> list[str]:
    """Return a point's line."""
    probed = "probe_accuracy" in row
    return [
        f"{row['characters'] / MILLION:.0f}",
        name,
        f"{row['learning_rate']:.1e}",
        f"{row['valid_bits_per_character']:.3f}",
        percent(row["probe_accuracy"]) if probed else "",
        f"{percent(row['probe_unit_accuracy'])} (unit {row['probe_unit']})" if probed else "",
    ]


def on_test() -> str:
    """Return what the weights of each run score on test sets."""
    rows, files = [], {}
    for name, (bits, folder) in MEASURED.items():
        if not bits.is_file():
            return NOT_YET
        measured, sst = read_json(bits), read_json(folder / "sst.json")
        read = sst["model"]["provenance"]["characters"] / MILLION
        rows.append([
            name,
            f"{read:.0f}",
            f"{measured['bits_per_character']:.3f} +- {measured['standard_error']:.3f}",
            accuracy(sst["all_units"]),
            accuracy(sst["one_unit"]),
        ])  # fmt: skip
        files |= {f"{name}, bits": measured, f"{name}, SST": sst}
    head = [
        "symbols", "million characters", "test, bits per character", "SST test, all units",
        "SST test, the unit of largest weight",
    ]  # fmt: skip
    return f"{markdown(head, rows)}\n\n{origins(files)}"


def draw() -> None:
    """Draw both curves: bits, and SST's accuracy, by characters read."""
    with panels(HERE / "curve.png", 1, 2, size=(9, 3.5)) as (_, (bits, sst)):
        for name, path in CURVES.items():
            rows = read_rows(path)
            probed = [row for row in rows if "probe_accuracy" in row]
            style = {"color": COLOURS[name], "label": name, "marker": ".", "linewidth": 1}
            bits.plot(*columns(rows, "valid_bits_per_character"), **style)
            sst.plot(*columns(probed, "probe_accuracy"), **style)
        bits.set(xlabel="characters read, millions", ylabel="valid, bits per character")
        sst.set(xlabel="characters read, millions", ylabel="SST val, all units, last state")
        bits.legend(frameon=False)
        draw_grid(bits, sst)
        open_frame(bits, sst)


def columns(rows: list[dict[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """Return millions of characters, and the values of a key."""
    return [row["characters"] / MILLION for row in rows], [row[key] for row in rows]


if __name__ == "__main__":
    command.run(main)
