"""What a weight on titles changes: the tables, from results/ and known.json."""

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.studies import by_name, mean_of, sst_cell, whole_results
from experiments.tables import NOT_YET, markdown, origins
from experiments.titles.measure import CONTINUED, KNOWN, STUDY
from model.files.storage import read_json

HEAD = (
    "run", "bits of titles", "bits of the rest", "SST, last state", "SST, unit of largest weight",
    "SST, best unit", "SST, mean state", "SST by titles, without labels",
)  # fmt: skip
OF_SST = (("last", "all_units"), ("last", "one_unit"), ("last", "best_unit"), ("mean", "all_units"))


def weights() -> str:
    """Return a line for each weight, the least weight first."""
    runs = {name: same for name, same in by_name(STUDY).items() if not continues(same[0])}
    return table(dict(sorted(runs.items(), key=lambda pair: weight_of(pair[1][0]))))


def continued() -> str:
    """Return a line for the shipped model, and for each run that continued it."""
    runs = {name: same for name, same in by_name(STUDY).items() if continues(same[0])}
    shipped = {"name": CONTINUED, **known_of_runs()["runs"].get(CONTINUED, {})}
    return table({CONTINUED: [shipped], **runs})


def continues(run: Mapping[str, Any]) -> bool:
    """Whether a run began with the weights of a model."""
    return "train.start_from" in run["keys"]


def table(runs: dict[str, list[dict[str, Any]]]) -> str:
    """Return a line for each run, of several seeds the mean."""
    known, names = known_of_runs(), {run["name"] for same in runs.values() for run in same}
    if not names or not names <= known["runs"].keys():
        return NOT_YET
    rows = [list(line(name, same, known["runs"])) for name, same in runs.items()]
    kept = {name: run for name, run in whole_results(STUDY).items() if name in names}
    return f"{markdown(HEAD, rows)}\n\n{origins({**kept, KNOWN.name: known})}"


def known_of_runs() -> dict[str, Any]:
    """Return what was measured of the runs, by name, with its origin."""
    return read_json(KNOWN) if KNOWN.exists() else {"runs": {}}


def weight_of(run: Mapping[str, Any]) -> float:
    """Return the weight of titles in a run's loss."""
    return float(run["keys"].get("data.title_weight", 1.0))


def line(
    name: str, same: list[dict[str, Any]], known: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the cells of a line."""
    of_parts = [known[run["name"]] for run in same]
    yield f"`{name}`"
    yield mean_of([part["titles"] for part in of_parts], 3)
    yield mean_of([part["text"] for part in of_parts], 3)
    for pooling, units in OF_SST:
        yield sst_cell(same, pooling, units)
    scores = [part["sst_by_titles"]["at_median"]["test_accuracy"] for part in of_parts]
    yield mean_of([100 * score for score in scores], 1)
