"""The tables and the figure of subwords against bytes, from results/ and the long run of bytes.

python -m experiments.subwords.report
"""

from typing import Any

from configs import command
from experiments.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, panels
from experiments.shipped.tables import MILLION, stage, with_error
from experiments.tables import EXPERIMENTS, accuracy, markdown, origins, read_result, table_of
from training.metrics import read_rows

FOLDER = EXPERIMENTS / "subwords"
CURVES = {
    "subwords, more reviews": FOLDER / "results" / "curve_more.jsonl",
    "subwords, slower fall": FOLDER / "results" / "curve_long.jsonl",
    "subwords": FOLDER / "results" / "curve.jsonl",
    "subwords, ended sooner": FOLDER / "results" / "curve_216m.jsonl",
    "subwords, the first run": FOLDER / "results" / "curve_62m.jsonl",
    "bytes": EXPERIMENTS / "shipped" / "results" / "continued.jsonl",
}
COLOURS = {
    "subwords, more reviews": GREEN,
    "subwords, slower fall": PURPLE,
    "subwords": RED,
    "subwords, ended sooner": ORANGE,
    "subwords, the first run": GREY,
    "bytes": BLUE,
}
COMPARED = ("subwords", "bytes")  # in the table of both curves
# The weights that were held against the test sets: their results of bits, and of SST.
MEASURED = {
    "subwords, the first run": (("subwords", "bits_62m"), "amazon_subword_1024_62m"),
    "subwords, ended sooner": (("subwords", "bits_216m"), "amazon_subword_1024_216m"),
    "subwords": (("subwords", "bits"), "amazon_subword_1024_355m"),
    "subwords, slower fall": (("subwords", "bits_long"), "amazon_subword_1024_long"),
    "subwords, more reviews": (("subwords", "bits_more"), "amazon_subword_1024_more"),
    "bytes, as shipped then": (("shipped", "bits_172m"), "amazon_1024_172m"),
    "bytes, the run continued": (
        ("shipped", "bits_continued_again"),
        "amazon_1024_continued_again",
    ),
    "bytes, as shipped": (("shipped", "bits_amazon_1024"), "amazon_1024"),
}
# Characters that a run's first weights had read, where it began from those of another: the rate of
# `subwords` was held until then.
BEFORE = {"subwords, more reviews": 292_203_052}
EVERY = 24e6  # characters from one line of the table to the next


def table() -> str:
    """Return points of both runs, by the characters they had read."""
    most = read_rows(CURVES["subwords"])[-1]["characters"]
    points = [
        (row["characters"], name, row)
        for name in COMPARED
        # The last point in each stretch of EVERY characters.
        for row in {int(r["characters"] // EVERY): r for r in read_rows(CURVES[name])}.values()
        if row["characters"] <= most
    ]
    head = [
        "million characters", "symbols", "learning rate", "training, bits per character", "valid",
        "SST val, all units", "SST val, one unit",
    ]  # fmt: skip
    rows = [
        [f"{characters / MILLION:.0f}", name, *stage(row)]
        for characters, name, row in sorted(points, key=lambda p: p[:2])
    ]
    return markdown(head, rows)


def on_test() -> str:
    """Return what the weights of each run score on test sets."""
    rows, files = [], {}
    for name, (place, model) in MEASURED.items():
        measured, sst = read_result(*place), read_result("reproduction", f"{model}/sst")
        read = (sst["model"]["provenance"]["characters"] + BEFORE.get(name, 0)) / MILLION
        rows.append({
            "symbols": name,
            "million characters": f"{read:,.0f}",
            "test, bits per character": with_error(measured),
            "SST test, all units": accuracy(sst["all_units"]),
            "SST test, the unit of largest weight": accuracy(sst["one_unit"]),
        })  # fmt: skip
        files |= {f"{name}, bits": measured, f"{name}, SST": sst}
    return f"{table_of(rows)}\n\n{origins(files)}"


def main() -> None:
    """Draw both curves: bits, and SST's accuracy, by characters read."""
    with panels(FOLDER / "curve.png", 2, size=(9, 3.5), grid=True) as (_, (bits, sst)):
        for name, path in CURVES.items():
            rows = [
                row | {"characters": row["characters"] + BEFORE.get(name, 0)}
                for row in read_rows(path)
            ]
            probed = [row for row in rows if "probe_accuracy" in row]
            style = {"color": COLOURS[name], "label": name, "marker": ".", "linewidth": 1}
            bits.plot(*columns(rows, "valid_bits_per_character"), **style)
            sst.plot(*columns(probed, "probe_accuracy"), **style)
        bits.set(xlabel="characters read, millions", ylabel="valid, bits per character")
        sst.set(xlabel="characters read, millions", ylabel="SST val, all units, mean state")
        bits.legend(frameon=False)


def columns(rows: list[dict[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """Return millions of characters, and the values of a key."""
    return [row["characters"] / MILLION for row in rows], [row[key] for row in rows]


if __name__ == "__main__":
    command.run_plain(main, __doc__)
