"""The mLSTM beside its peers: the table, in which each cell has its better rate."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from experiments.sizes.report import COLUMNS
from experiments.speeds import shape, timed_on
from experiments.studies import HERE, bits_cell, sst_cell, whole_results
from experiments.tables import markdown, origins
from model.files.storage import read_json

SPEED = HERE / "peers" / "speed.json"
# The study of sizes has the mLSTM's further seeds: the same run.
SAME_RUN, SIZES_RATE = "units_256_6m_seed_[12]", "1e-2"
WITHOUT_NORM = "mlstm_without_weight_norm"
HEAD = ("cell", "rate", "precision", "parameters", "valid, bits per character", "seconds")
WITH_NORM = ("lstm_with_weight_norm", "gru_with_weight_norm")
CELLS = ("mlstm", WITHOUT_NORM, "lstm", "gru", *WITH_NORM, "transformer")


def table() -> str:
    """Return a line for each cell at each rate, of several seeds the mean; the best rate first."""
    speed = read_json(SPEED)
    rows = [list(line(cell, *runs, speed["cells"])) for cell in CELLS for runs in by_rate(cell)]
    found = whole_results("peers") | whole_results("sizes", SAME_RUN)
    return f"{markdown([*HEAD, *COLUMNS], rows)}\n\n{timed_on(speed)} {origins(found)}"


def line(cell: str, rate: str, same: list[dict[str, Any]], speeds: dict[str, Any]) -> Iterator[str]:
    """Yield the cells of a line; the seconds are those of the shape in bf16, which was timed."""
    keys = same[0]["keys"]
    timed = cell not in (WITHOUT_NORM, *WITH_NORM)
    yield cell.replace("_", " ")
    yield rate
    yield ", ".join(sorted({run["keys"]["train.precision"] for run in same}))
    yield f"{same[0]['parameters']:,}"
    yield bits_cell(same)
    yield f"{same[0]['characters'] / speeds[shape(keys)]['median']:.0f}" if timed else "-"
    for which in COLUMNS.values():
        yield sst_cell(same, *which)


def by_rate(cell: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each rate with the runs of all seeds, the one of fewest bits first."""
    rates: dict[str, list[dict[str, Any]]] = {}
    for name, result in whole_results("peers", f"{cell}_*").items():
        own, _, rate = name.partition("_seed_")[0].rpartition("_")
        if own == cell:
            rates.setdefault(rate, []).append(result)
    if cell == "mlstm":
        rates.setdefault(SIZES_RATE, []).extend(whole_results("sizes", SAME_RUN).values())
    yield from sorted(
        rates.items(), key=lambda pair: fmean(run["valid_bits_per_character"] for run in pair[1])
    )
