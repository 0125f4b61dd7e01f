"""LAMB's table, from results/; Adam's runs stand beside it."""

from typing import Any

from experiments.studies import whole_results
from experiments.tables import markdown, origins

TITLES = {"lanes_256": "256 lanes", "lanes_1024": "1,024 lanes", "adasum_256": "256, Adasum of 4"}
ADAM = {"lanes_256": "adam_256", "lanes_1024": "adam_1024", "adasum_256": "adam_adasum_256"}


def table() -> str:
    """Return bits per character by lanes and rate, and Adam's at the rate of its rule."""
    found = whole_results("lamb")
    rates = sorted({rate_of(run) for run in found.values() if run["keys"]["optim.name"] == "lamb"})
    rows = [
        [title, *(bits(found, name, rate) for rate in rates), bits(found, ADAM[name])]
        for name, title in TITLES.items()
    ]
    head = ["an update reads", *(f"LAMB, rate {rate:g}" for rate in rates), "Adam, root rule"]
    return f"{markdown(head, rows)}\n\n{origins(found)}"


def rate_of(run: dict[str, Any]) -> float:
    """Return a run's rate."""
    return float(run["keys"]["optim.lr"])


def bits(found: dict[str, dict[str, Any]], begins: str, rate: float | None = None) -> str:
    """Return what a run ended at, by the beginning of its name and its rate; a dash for none."""
    for name, run in found.items():
        if name.startswith(begins) and rate in (None, rate_of(run)):
            return f"{run['valid_bits_per_character']:.3f}"
    return "-"
