"""The mLSTM beside its peers: the table, in which each cell has its better rate."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from experiments.sizes.report import COLUMNS, sst_cell
from experiments.speeds import shape
from experiments.studies import HERE, mean_of, whole_results
from experiments.tables import markdown, origins
from model.files.storage import read_json

SPEED = HERE / "peers" / "speed.json"
# The study of sizes has the mLSTM's further seeds: the same run.
SAME_RUN, SIZES_RATE = "units_256_6m_seed_[12]", "1e-2"
CELLS = ("mlstm", "lstm", "gru", "transformer")


def table() -> str:
    """Return a line for each cell at each rate, of several seeds the mean; the best rate first."""
    speeds = read_json(SPEED)["cells"]
    rows = []
    for cell in CELLS:
        for rate, same in by_rate(cell):
            seconds = same[0]["characters"] / speeds[shape(same[0]["keys"])]["median"]
            bits = mean_of([run["valid_bits_per_character"] for run in same], 3)
            known = [f"`{cell}`", rate, f"{same[0]['parameters']:,}", bits, f"{seconds:.0f}"]
            rows.append([*known, *(sst_cell(same, *which) for which in COLUMNS.values())])
    head = ["cell", "rate", "parameters", "valid, bits per character", "seconds", *COLUMNS]
    found = whole_results("peers") | whole_results("sizes", SAME_RUN)
    return f"{markdown(head, rows)}\n\n{origins(found)}"


def by_rate(cell: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each rate with the runs of all seeds, the one of fewest bits first."""
    rates: dict[str, list[dict[str, Any]]] = {}
    for name, result in whole_results("peers", f"{cell}_*").items():
        rate = name.removeprefix(f"{cell}_").partition("_seed_")[0]
        rates.setdefault(rate, []).append(result)
    if cell == "mlstm":
        rates.setdefault(SIZES_RATE, []).extend(whole_results("sizes", SAME_RUN).values())
    yield from sorted(
        rates.items(), key=lambda pair: fmean(run["valid_bits_per_character"] for run in pair[1])
    )
