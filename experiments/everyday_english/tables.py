"""Make the tables of README.md, and those of the default models' cards and SOURCES.md."""

import tomllib
from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments.board import tables as board
from experiments.everyday_english.measure import SETS as MEASURED_SETS
from experiments.everyday_english.measure import drawn
from experiments.everyday_english.texts import SOURCES
from experiments.intervals import Difference, Measured, compare, unpacked_answers
from experiments.models.tables import linked
from experiments.results import find_result, read_result
from experiments.tables import markdown, percent

TITLES = {
    "default": "`default`",
    "default_former": "`default`, former head",
    "default_small": "`default_small`",
    "default_small_former": "`default_small`, former head",
    "bag_public": "bag, public reviews alone",
    "bag_all": "bag, all of this",
    "minilm": "MiniLM, a sample",
    "vader": "VADER",
}
COMPARED = ("bag_all", "minilm", "vader")
TARGETS = {  # set before: sides / three
    "app reviews": "90 / -",
    "hotel remarks": "91 / -",
    "Reddit comments": "87 / 69",
    "tweets, 2013 to 2017": "88 / 68",
    "developers' texts": "84 / 70",
    "requests": "- / 93",
}
SET_TARGETS = {"sst": "86", "imdb": "92.5", "cr": "83", "tweets": "82"}
SET_METHODS = {  # of the board: title
    "default": "`default`",
    "default_small": "`default_small`",
    "bag_all": "bag, public texts of films and products",
    "minilm": "MiniLM, {fitted_to:,} of these texts",
    "vader": "VADER",
}
SHIPPED = ("default", "default_small")
SETS = {"sst": "SST", "imdb": "IMDB", "cr": "CR", "tweets": "tweets, SemEval-2018"}


def sources() -> str:
    """Return the sources that may train weights."""
    rows = [
        [
            f"`{name}`",
            *(about[key] for key in ("what", "data", "terms")),
            linked(about["address"], [about["revision"]]),
        ]
        for name, about in _sources("weights")
    ]
    return markdown(["source", "what", "data set", "terms as stated", "taken from"], rows, "lllll")


def others() -> str:
    """Return the sources that may not train weights, and why."""
    rows = [
        [f"`{name}`", "val, measurement" if use == "val" else "not used", about["reason"]]
        for use in ("val", "neither")
        for name, about in _sources(use)
    ]
    return markdown(["source", "used for", "why not for weights"], rows, "lll")


def _sources(use: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, about in tomllib.loads(SOURCES.read_text(encoding="utf-8")).items():
        if about["use"] == use:
            yield name, about


def test_sets() -> str:
    """Return the accuracies on the published sets and on the remarks, next to other methods."""
    rows = []
    for method, title in SET_METHODS.items():
        if board.has(method):
            cells = [board.cell(method, name) for name in SETS]
            config = read_result("board", method)["config"]
            rows.append([title.format(**config), *cells, *_remarks(method)])
    own = find_result("everyday_english", "test_bag_all")
    groups = own["groups"] if own else {}
    if all(title in groups for title in MEASURED_SETS.values()):
        bag = [groups[title] for title in MEASURED_SETS.values()]
        cells = [percent(row["side"], row["side_interval"]) for row in bag]
        rows.append([TITLES["bag_all"], *cells, percent(bag[-1]["three"])])
    head = ["per cent", *SETS.values(), "everyday remarks, sides", "everyday remarks, three"]
    return markdown(head, rows)


def _remarks(method: str) -> tuple[str, str]:
    """Return the accuracies on everyday remarks: sides, and three answers where there are three."""
    row = board.row_of(method, "remarks")
    three = percent(row["three"]["accuracy"]) if "three" in row else "-"
    return percent(row["accuracy"]), three


def tenths() -> str:
    """Return the accuracies of all methods on test texts: sides, and three answers."""
    results = _measured()
    rows = []
    for part, group in _rows(results):
        cells = [_both(result[part].get(group)) for result in results.values()]
        rows.append([group, *cells])
    return markdown(["sides / three, per cent", *(TITLES[name] for name in results)], rows)


def against(model: str) -> str:
    """Return by how many points a model is ahead of other methods on the same texts."""
    results = _measured()
    own = results[model]
    others = {name: results[name] for name in COMPARED if name in results}
    rows = [
        [group, *(_apart(own[part][group], other[part].get(group)) for other in others.values())]
        for part, group in _rows(results)
        if group in own[part]
    ]
    return markdown(["points, sides / three", *(TITLES[name] for name in others)], rows)


def _rows(results: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the groups and the kinds, each with the name of its part."""
    first = results["default"]
    return [(part, group) for part in ("groups", "kinds") for group in first[part]]


def _apart(own: dict[str, Any], other: dict[str, Any] | None) -> str:
    """Return both differences, each with its word."""
    parts = [_difference(own, other, kind) for kind in ("side", "three")] if other else []
    return " / ".join(f"{100 * d.value:+.1f} {d.word}" if d else "-" for d in parts) or "-"


def _difference(own: dict[str, Any], other: dict[str, Any], kind: str) -> Difference | None:
    """Return how far one result is ahead of another one, of which the texts may be a sample."""
    if f"right_{kind}" not in own or f"right_{kind}" not in other:
        return None
    right = unpacked_answers(own[f"right_{kind}"], own["texts"])
    theirs = unpacked_answers(other[f"right_{kind}"], other["texts"])
    right = right[drawn(np.arange(len(right)), len(theirs))]
    count = other["with a side"] if kind == "side" else other["texts"]
    # Texts without a side count as wrong in both: as many of those are left out.
    ends = (np.flatnonzero(right != theirs), np.flatnonzero(right == theirs))
    rows = np.concatenate(ends)[:count]
    return compare(Measured(right[rows]), Measured(theirs[rows]))


def targets() -> str:
    """Return what was to be reached, and what `default` and, last, `default_small` reach."""
    groups = read_result("everyday_english", "test_default")["groups"]
    rows = [[group, target, _both(groups[group])] for group, target in TARGETS.items()]
    rows += [
        [SETS[name], target, board.value("default", name)] for name, target in SET_TARGETS.items()
    ]
    rows.append(["everyday remarks", "82 / 72", " / ".join(_remarks("default"))])
    reached, _ = _remarks("default_small")
    rows.append(["`default_small`, everyday remarks with a side", "76", reached])
    return markdown(["per cent, sides / three", "target", "reached"], rows)


def calibration() -> str:
    """Return the errors of P(positive) on the test tenths, with what right ones would have."""
    results = {name: result for name, result in _measured().items() if name.startswith(SHIPPED)}
    names = [*next(iter(results.values()))["groups"], "kept-out domains, balanced"]
    rows = []
    for name in names:
        each = [result["groups"].get(name, result["kept_out"]) for result in results.values()]
        if "side" in each[0]:
            rows.append([name, *(_error(row) for row in each)])
    return markdown(["error (null), mean above", *(TITLES[name] for name in results)], rows)


def three_calibration() -> str:
    """Return the errors of all three probabilities of `default` on test texts."""
    answers = ("negative", "neutral", "positive")
    rows = []
    for group, row in read_result("everyday_english", "test_default")["groups"].items():
        if errors := row.get("errors of three"):
            cells = [errors[answer] for answer in answers]
            rows.append([group, *(f"{error:.3f} ({null:.3f})" for error, null in cells)])
    return markdown(["error (null)", *answers], rows)


def _measured() -> dict[str, dict[str, Any]]:
    found = {name: find_result("everyday_english", f"test_{name}") for name in TITLES}
    return {name: result for name, result in found.items() if result is not None}


def _both(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    side = percent(row["side"]) if "side" in row else "-"
    return f"{side} / {percent(row['three'])}"


def _error(row: dict[str, Any]) -> str:
    error, null = row["error of positive"], row["error, if calibrated"]
    return f"{error:.3f} ({null:.3f}), {row['mean above the truth']:+.3f}"
