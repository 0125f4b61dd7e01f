"""What each difference between our recipe and the published one is worth, from results/."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from experiments.studies import bits_cell, by_name, further_bits, sst_cell, whole_results
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
    further = further_bits(runs[name], runs[BASE])
    ends = f" ({min(further):+.3f} to {max(further):+.3f})" if len(further) > 1 else ""
    yield name.replace("_", " ")
    yield bits_cell(runs[name])
    yield "" if name == BASE else f"{fmean(further):+.3f}{ends}"
    yield sst_cell(runs[name], "mean")
