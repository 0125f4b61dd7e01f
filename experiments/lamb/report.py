"""LAMB's table, from results/; Adam's runs stand beside it."""

from typing import Any

from experiments.studies import HERE
from experiments.tables import NOT_YET, markdown, origins
from experiments.verdicts import CONVERGENCE, ended
from model.files.storage import read_json

RESULTS = HERE / "lamb" / "results"
TITLES = {"lanes_256": "256 lanes", "lanes_1024": "1,024 lanes", "adasum_256": "256, Adasum of 4"}


def table() -> str:
    """Return bits per character by lanes and rate, with the best of Adam's rules, if measured."""
    found = {path.stem: read_json(path) for path in sorted(RESULTS.glob("*.json"))}
    if not found:
        return NOT_YET
    adam = read_json(HERE / CONVERGENCE)
    rates = sorted({float(result["keys"]["optim.lr"]) for result in found.values()})
    rows = []
    for name, title in TITLES.items():
        lanes = 256 if name == "adasum_256" else int(name.partition("_")[2])
        series = "adasum" if name == "adasum_256" else "square root"
        cells = [bits(found, name, rate) for rate in rates]
        rows.append([title, *cells, f"{ended(adam, series, lanes):.3f}"])
    head = ["an update reads", *(f"LAMB, rate {rate:g}" for rate in rates), "Adam, best rule"]
    return f"{markdown(head, rows)}\n\n{origins({f'{n}.json': r for n, r in found.items()})}"


def bits(found: dict[str, dict[str, Any]], name: str, rate: float) -> str:
    """Return what a run ended at; a dash where there is none."""
    for key, result in found.items():
        if key.startswith(name) and float(result["keys"]["optim.lr"]) == rate:
            return f"{result['valid_bits_per_character']:.3f}"
    return "-"
