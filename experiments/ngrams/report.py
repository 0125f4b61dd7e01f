"""What n-grams and a rate of the decoder's own are worth: the table, from results/."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from experiments.sizes.report import sst_cell
from experiments.speeds import shape
from experiments.studies import HERE, mean_of, whole_results
from experiments.tables import NOT_YET, markdown, origins
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
    runs = by_name()
    if BASE not in runs:
        return NOT_YET
    speeds = read_json(SPEED)["cells"] if SPEED.is_file() else {}
    rows = [list(line(same, runs, speeds)) for same in runs.values()]
    return f"{markdown(HEAD, rows)}\n\n{origins(whole_results(STUDY))}"


def by_name() -> dict[str, list[dict[str, Any]]]:
    """Return the runs of all seeds by their name, those of most bits first."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for name, result in whole_results(STUDY).items():
        runs.setdefault(name.partition("_seed_")[0], []).append(result)
    return dict(sorted(runs.items(), key=lambda pair: -mean_bits(pair[1])))


def line(
    same: list[dict[str, Any]], runs: dict[str, list[dict[str, Any]]], speeds: dict[str, Any]
) -> Iterator[str]:
    """Yield the cells of a line."""
    keys, bits, base = same[0]["keys"], bits_by_seed(same), bits_by_seed(runs[BASE])
    yield f"`{keys.get('model.cell', 'mlstm')}`"
    yield f"{keys.get('optim.decoder_factor', 1.0):g}"
    yield f"{same[0]['parameters']:,}"
    yield mean_of(list(bits.values()), 3)
    yield f"{fmean(bits[seed] - base[seed] for seed in bits.keys() & base.keys()):+.3f}"
    speed = speeds.get(shape(keys))
    yield f"{speed['median'] / 1000:.1f}" if speed else "-"
    yield sst_cell(same, "last", "all_units")
    yield sst_cell(same, "mean", "all_units")


def bits_by_seed(runs: list[dict[str, Any]]) -> dict[int, float]:
    """Return the bits per character of each seed's run."""
    return {run["keys"]["seed"]: run["valid_bits_per_character"] for run in runs}


def mean_bits(runs: list[dict[str, Any]]) -> float:
    """Return the mean over seeds."""
    return fmean(bits_by_seed(runs).values())
