"""What variants of Muon gain: the table, from results/ and those of the base in another study."""

from collections.abc import Iterator
from typing import Any

from experiments.ngrams.report import BASE
from experiments.ngrams.report import STUDY as STUDY_OF_BASE
from experiments.studies import against, bits_cell, by_name, sst_cells, whole_results
from experiments.tables import markdown, origins

STUDY = "muon"
HEAD = ("run", "valid, bits per character", "against muon", "SST, last state", "SST, mean state")


def table() -> str:
    """Return a line for the base and each variant, of several seeds the mean; most bits first."""
    base = by_name(STUDY_OF_BASE)[BASE]
    rows = [list(line(name, same, base)) for name, same in {"muon": base, **by_name(STUDY)}.items()]
    of_base = whole_results(STUDY_OF_BASE, f"{BASE}_seed_*")
    return f"{markdown(HEAD, rows)}\n\n{origins({**of_base, **whole_results(STUDY)})}"


def line(name: str, same: list[dict[str, Any]], base: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the cells of a line; the difference is that of runs with the same seed."""
    yield f"`{name}`"
    yield bits_cell(same)
    yield against(same, base)
    yield from sst_cells(same)
