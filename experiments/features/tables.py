"""The tables of features, from results/."""

from statistics import fmean

from experiments.tables import accuracy, markdown, origins, percent, read_result

SET_TITLES = {"sst": "SST", "mr": "MR, first fold", "imdb": "IMDB, a part"}


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
    head = ["features", "regression", *(SET_TITLES[name] for name in sets)]
    return f"{markdown(head, rows)}\n\n{origins({f'{model}.json': found})}"


def chosen(model: str) -> str:
    """Return for each set the row that is best on val, and what it is worth on test."""
    found = read_result("features", model)["sets"]
    rows = []
    for name, of_set in found.items():
        best = max(of_set["rows"], key=lambda row: row["val_accuracy"])
        published = next(
            row for row in of_set["rows"] if (row["features"], row["fit"]) == (["cell last"], "L1")
        )
        told = [" + ".join(best["features"]), best["fit"], accuracy(best), accuracy(published)]
        rows.append([SET_TITLES[name], *told])
    head = ["set", "best on val", "regression", "its test accuracy", "published protocol"]
    return markdown(head, rows)


def without_labels(model: str) -> str:
    """Return the accuracies by the expected titles, without any label."""
    found = read_result("features", model)["sets"]
    rows = [
        [SET_TITLES[name], *(accuracy(of_set["titles"][cut]) for cut in ("at_zero", "at_median"))]
        for name, of_set in found.items()
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
        rows.append([SET_TITLES[name], best, percent(fmean(turns), ends), principal])
    head = ["set", "best unit", "best axis after a random turn", "best of 20 principal components"]
    return markdown(head, rows)
