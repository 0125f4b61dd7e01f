"""What each difference between our recipe and the published one is worth, from results/."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from experiments.sizes.report import sst_cell
from experiments.studies import bits_by_seed, by_name, mean_of, whole_results
from experiments.tables import markdown, origins

STUDY, BASE = "confounders", "ours"
HEAD = ("changed alone", "valid, bits per character", "against ours", "SST, mean state")


def table() -> str:
    """Return a line for each run, of several seeds the mean; the fewest bits first."""
    runs = by_name(STUDY)
    rows = [list(line(name, runs)) for name in reversed(runs)]
    return f"{markdown(HEAD, rows)}\n\n{origins(whole_results(STUDY))}"


def line(name: str, runs: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Yield the cells of a line; against ours with the same seed."""
    bits, ours = bits_by_seed(runs[name]), bits_by_seed(runs[BASE])
    further = [bits[seed] - ours[seed] for seed in bits.keys() & ours.keys()]
    ends = f" ({min(further):+.3f} to {max(further):+.3f})" if len(further) > 1 else ""
    yield name.replace("_", " ")
    yield mean_of(list(bits.values()), 3)
    yield "" if name == BASE else f"{fmean(further):+.3f}{ends}"
    yield sst_cell(runs[name], "mean", "all_units")
