"""The tables of features, from results/."""

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from experiments.features.axes import COMPONENTS, ROTATIONS
from experiments.features.prompts import CLEAR
from experiments.features.twice import trios
from experiments.tables import accuracy, markdown, origins, percent, read_result

SET_TITLES = {"sst": "SST", "mr": "MR, first fold", "imdb": "IMDB"}
WHOLE_IMDB = 50_000  # texts
# Results of models alone and side by side, by the models that they read.
SIDES = {
    "amazon_1024": "bytes",
    "amazon_subword_1024": "subwords",
    "amazon_subword_1024_more": "subwords, more reviews",
    "amazon_1024_beside_earlier": "bytes, bytes of an earlier run",
    "amazon_1024_beside_subword": "bytes, subwords as shipped",
    "amazon_1024_beside_subword_more": "bytes, subwords with more reviews",
}


def accuracies(model: str) -> str:
    """Return a line for every choice of features and way of fitting: test, by set."""
    found = read_result("features", model)
    sets = found["sets"]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for name, of_set in sets.items():
        for row in of_set["rows"]:
            key = (" + ".join(row["features"]), row["fit"])
            cells.setdefault(key, {})[name] = accuracy(row)
    rows = [[*key, *(found_in.get(name, "-") for name in sets)] for key, found_in in cells.items()]
    head = ["features", "regression", *(titled(*pair) for pair in sets.items())]
    return f"{markdown(head, rows)}\n\n{origins({f'{model}.json': found})}"


def titled(name: str, of_set: dict[str, Any]) -> str:
    """Return the title of a set, with a word if it was not read whole."""
    part = name == "imdb" and sum(of_set["examples"]) < WHOLE_IMDB
    return f"{SET_TITLES[name]}{', a part' if part else ''}"


def best_on_val(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of the features, and of the way to fit them, that are best on val."""
    return max(rows, key=lambda row: row["val_accuracy"])


def chosen(model: str, *further: str) -> str:
    """Return for each set the row that is best on val, and what it is worth on test.

    further: files with other features of the same model, on the same texts.
    """
    found, *others = (read_result("features", name)["sets"] for name in (model, *further))
    rows = []
    for name, of_set in found.items():
        compared = [row for sets in (found, *others) if name in sets for row in sets[name]["rows"]]
        best = best_on_val(compared)
        published = next(
            row for row in compared if (row["features"], row["fit"]) == (["cell last"], "L1")
        )
        told = [" + ".join(best["features"]), best["fit"], accuracy(best), accuracy(published)]
        rows.append([titled(name, of_set), *told])
    head = ["set", "best on val", "regression", "its test accuracy", "published protocol"]
    return markdown(head, rows)


def side_by_side() -> str:
    """Return a line for each of SIDES: by set, what the choice that is best on val tells of test.

    All lines choose from the rows that all results have.
    """
    found = {name: read_result("features", name) for name in SIDES}
    sets = next(iter(found.values()))["sets"]
    rows = [
        [SIDES[name], f"{units_of(result):,}"]
        + [accuracy(best_on_val(common_rows(result, of_set, found.values()))) for of_set in sets]
        for name, result in found.items()
    ]
    head = ["models", "units", *(titled(*pair) for pair in sets.items())]
    return f"{markdown(head, rows)}\n\n{origins(found)}"


def units_of(result: dict[str, Any]) -> int:
    """Return the units of a result's models together."""
    models = [result["model"], *result.get("beside", [])]
    return sum(model["architecture"]["hidden_size"] for model in models)


def common_rows(
    result: dict[str, Any], of_set: str, results: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows of a set whose features and fit are in all results."""
    choice = lambda row: (*row["features"], row["fit"])  # noqa: E731
    of_each = [set(map(choice, each["sets"][of_set]["rows"])) for each in results]
    common = set.intersection(*of_each)
    return [row for row in result["sets"][of_set]["rows"] if choice(row) in common]


def without_labels(model: str) -> str:
    """Return the accuracies by the expected titles, without any label."""
    found = read_result("features", model)["sets"]
    rows = [
        [titled(*pair), *(accuracy(pair[1]["titles"][cut]) for cut in ("at_zero", "at_median"))]
        for pair in found.items()
    ]
    return markdown(["set", "cut at zero", "cut at the median of val"], rows)


def axes(model: str) -> str:
    """Return the best unit beside the best axes of rotated spaces and principal components."""
    found = read_result("features", model)["sets"]
    rows = []
    for name, of_set in found.items():
        told = of_set["axes"]
        turns = [draw["test_accuracy"] for draw in told["best_of_turned"]]
        ends = (min(turns), max(turns))
        best, principal = (accuracy(told[axis]) for axis in ("best_unit", "best_principal"))
        rows.append([titled(name, of_set), best, percent(fmean(turns), ends), principal])
    of_turns = f"best axis after a random turn (lowest to highest of {ROTATIONS})"
    of_components = f"best of {COMPONENTS} principal components"
    return markdown(["set", "best unit", of_turns, of_components], rows)


def clearest(found: dict[str, Any], name: str) -> tuple[str, dict[str, Any]]:
    """Return the prompt after which a unit has the largest area on train, and its row on a set.

    Only prompts that begin a title count.
    """
    after = found["sets"][name]["after"]
    rows = ((found["prompts"][title], after[title]) for title in titles_in(found))
    return max(rows, key=lambda item: item[1]["areas"][0])


def titles_in(found: dict[str, Any]) -> list[str]:
    """Return the names of the prompts that begin a title."""
    return [name for name, prompt in found["prompts"].items() if prompt.startswith("|")]


def written(prompt: str) -> str:
    """Return a prompt as code in a cell of a table."""
    shown = prompt.replace("\n", "\\n").replace("|", "\\|")
    return f"`{shown}`"


def prompts(model: str, name: str) -> str:
    """Return what units tell of a set once the model has read the text and a prompt."""
    found = read_result("features", f"{model}_prompts")
    of_set = found["sets"][name]
    bare = of_set["after"]["nothing"]
    rows = []
    for title, row in of_set["after"].items():
        best, prompt = row["best_unit"], found["prompts"][title]
        rows.append([
            f"{title} {written(prompt)}" if prompt else title,
            f"{best['axis']}",
            accuracy(best),
            "-" if row is bare else percent(*best["ahead"].values()),
            f"{best['test_area']:.3f}",
            f"{row['clear']:,}",
            f"{len({*row['clearest']} & {*bare['clearest']})} of {len(bare['clearest'])}",
            accuracy(row["all_units"]),
        ])  # fmt: skip
    head = [
        f"{titled(name, of_set)}: after the text", "best unit on train", "its test accuracy",
        "points more than after nothing, on the same texts", "its area on test",
        f"units with an area of at least {CLEAR} on train",
        "the clearest units that are among those after nothing", "all units, L1",
    ]  # fmt: skip
    return f"{markdown(head, rows)}\n\n{origins({f'{model}_prompts.json': found})}"


def read_again(model: str) -> str:
    """Return what all units tell of each set by a first reading, by a second, and by both."""
    found = read_result("features", f"{model}_twice")
    rows = []
    for name, of_set in found["sets"].items():
        for trio in trios():
            cells = [
                accuracy(best_on_val([row for row in of_set["rows"] if row["features"] == choice]))
                for choice in trio
            ]
            rows.append([titled(name, of_set), " + ".join(trio[0]), *cells])
    head = ["set", "features", "first reading", "second reading", "both side by side"]
    return f"{markdown(head, rows)}\n\n{origins({f'{model}_twice.json': found})}"


def units_read_again(model: str) -> str:
    """Return what the best unit on train tells of each set by a first reading and by a second."""
    found = read_result("features", f"{model}_twice")["sets"]
    rows = []
    for name, of_set in found.items():
        for state, unit in of_set["units"].items():
            cells = [
                f"{accuracy(unit[key])}, unit {unit[key]['axis']}" for key in ("once", "again")
            ]
            rows.append([titled(name, of_set), state, *cells, percent(*unit["ahead"].values())])
    head = ["set", "state", "first reading", "second reading", "points more, on the same texts"]
    return markdown(head, rows)
