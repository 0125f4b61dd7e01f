"""What n-grams and a rate of the decoder's own are worth: the table, from results/."""

from collections.abc import Iterator
from typing import Any

from experiments.speeds import shape, timed_on
from experiments.studies import HERE, against, bits_cell, by_name, sst_cells, whole_results
from experiments.tables import markdown, origins
from model.files.storage import read_json

STUDY = "ngrams"
SPEED = HERE / STUDY / "speed.json"
BASE = "mlstm"
HEAD = (
    "cell", "decoder's rate", "parameters", "valid, bits per character", "against mlstm",
    "thousand characters/s", "SST, last state", "SST, mean state",
)  # fmt: skip


def table() -> str:
    """Return a line for each run, of several seeds the mean."""
    runs = by_name(STUDY)
    speed = read_json(SPEED)
    rows = [list(line(same, runs, speed["cells"])) for same in runs.values()]
    return f"{markdown(HEAD, rows)}\n\n{timed_on(speed)} {origins(whole_results(STUDY))}"


def line(
    same: list[dict[str, Any]], runs: dict[str, list[dict[str, Any]]], speeds: dict[str, Any]
) -> Iterator[str]:
    """Yield the cells of a line."""
    keys = same[0]["keys"]
    yield f"`{keys.get('model.cell', 'mlstm')}`"
    yield f"{keys.get('optim.decoder_factor', 1.0):g}"
    yield f"{same[0]['parameters']:,}"
    yield bits_cell(same)
    yield against(same, runs[BASE])
    speed = speeds.get(shape(keys))
    yield f"{speed['median'] / 1000:.1f}" if speed else "-"
    yield from sst_cells(same)
