"""What a weight on titles changes: the table, from results/ and known.json."""

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from experiments.sizes.report import sst_cell
from experiments.studies import bits_by_seed, by_name, mean_of, whole_results
from experiments.tables import NOT_YET, markdown, origins
from experiments.titles.measure import KNOWN, STUDY
from model.files.storage import read_json

BASE = "plain"
HEAD = (
    "run", "bits of titles", "bits of the rest", "valid, bits per character", "against plain",
    "SST, last state", "SST, mean state", "SST, best unit of the last state",
    "SST by titles, without labels",
)  # fmt: skip


def table() -> str:
    """Return a line for each weight, of several seeds the mean, the least weight first."""
    runs = by_name(STUDY)
    if not runs or not KNOWN.exists():
        return NOT_YET
    known = read_json(KNOWN)
    ordered = sorted(runs.items(), key=lambda pair: weight_of(pair[1][0]))
    rows = [list(line(name, same, runs[BASE], known["runs"])) for name, same in ordered]
    return f"{markdown(HEAD, rows)}\n\n{origins({**whole_results(STUDY), KNOWN.name: known})}"


def weight_of(run: Mapping[str, Any]) -> float:
    """Return the weight of titles in a run's loss."""
    return float(run["keys"].get("data.title_weight", 1.0))


def line(
    name: str,
    same: list[dict[str, Any]],
    base: list[dict[str, Any]],
    known: Mapping[str, Mapping[str, Any]],
) -> Iterator[str]:
    """Yield the cells of a line; the difference is that of runs with the same seed."""
    bits, of_base = bits_by_seed(same), bits_by_seed(base)
    of_parts = [known[run["name"]] for run in same]
    yield f"`{name}`"
    yield mean_of([part["titles"] for part in of_parts], 3)
    yield mean_of([part["text"] for part in of_parts], 3)
    yield mean_of(list(bits.values()), 3)
    yield f"{fmean(bits[seed] - of_base[seed] for seed in bits.keys() & of_base.keys()):+.3f}"
    yield sst_cell(same, "last", "all_units")
    yield sst_cell(same, "mean", "all_units")
    yield sst_cell(same, "last", "best_unit")
    scores = [part["sst_by_titles"]["at_median"]["test_accuracy"] for part in of_parts]
    yield mean_of([100 * score for score in scores], 1)
